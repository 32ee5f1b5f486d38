"""What the methods on the host share: draws from a key, pairs across classes, joining."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fgw_jax import structure as structures
from fgw_jax.datasets.dataset import Dataset, Origin
from fgw_jax.errors import InputError, check
from fgw_jax.graphs import Graph
from fgw_jax.inputs import check_key


def generator(key: jax.Array) -> np.random.Generator:
    """A numpy generator seeded by a jax key: the same key, the same draws."""
    return np.random.default_rng(key_numbers(key))


def key_numbers(key: jax.Array) -> list[int]:
    """The integers of a random key, typed or raw."""
    check_key(key)
    typed = jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    return [int(x) for x in np.asarray(jax.random.key_data(key) if typed else key).ravel()]


def choose(
    rng: np.random.Generator, owner: np.ndarray, count: int, ratio: float, leave: int = 0
) -> np.ndarray:
    """Positions of ``ratio`` of each graph's items, drawn evenly.

    A graph's number is rounded up or down at random, so that its mean is exact.

    Args:
        rng: generator.
        owner: ``[E]`` graph of each item, in rising order.
        count: number of graphs.
        ratio: share to choose.
        leave: items of each graph that are never chosen.
    """
    sizes = np.bincount(owner, minlength=count)
    wanted = np.floor(ratio * sizes + rng.random(count)).astype(np.int64)
    wanted = np.minimum(wanted, sizes - leave)
    order = np.lexsort((rng.random(len(owner)), owner))
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[rank < wanted[owner]]


def check_share(name: str, value: float, *, below_one: bool = False) -> None:
    """Refuse a number outside [0, 1] (or [0, 1))."""
    inside = _is_number(value) and (0 <= value < 1 or (value == 1 and not below_one))
    check(inside, f"{name}: {value} is not a share; use a number from 0 to {'below ' * below_one}1")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def check_mixing(ratio: float, beta_k: float) -> None:
    """Refuse a number of new graphs, or a Beta parameter, that cannot be drawn."""
    check(
        _is_number(ratio) and math.isfinite(ratio) and ratio >= 0,
        f"ratio: {ratio} new graphs for each original; use a number >= 0, 0.25 in the paper",
    )
    check(
        _is_number(beta_k) and math.isfinite(beta_k) and beta_k > 0,
        f"beta_k: {beta_k} is no parameter of a Beta distribution; use a number > 0",
    )


def class_indices(dataset: Dataset) -> np.ndarray:
    """Class of each graph ``[N]``; of a soft label, its largest entry."""
    return dataset.labels if dataset.labels.ndim == 1 else dataset.labels.argmax(1)


def class_pairs(dataset: Dataset, count: int) -> np.ndarray:
    """Unordered pairs of distinct classes ``[count, 2]``, as often as Alg. 3 line 4 has them.

    Every pair of classes that hold graphs appears ``2 beta N / (Ny (Ny - 1))`` times; what does
    not divide goes to the first pairs.
    """
    present = np.unique(class_indices(dataset))
    check(
        len(present) >= 2 or count == 0,
        f"dataset: all graphs are of class {present[0]}, and mixing needs two; pass a training set "
        "with two classes, or use a method of single graphs (dropedge, dropnode)",
    )
    pairs = np.array([(a, b) for i, a in enumerate(present) for b in present[i + 1 :]])
    return pairs.reshape(-1, 2)[np.sort(np.arange(count) % max(len(pairs), 1))]


def draw_pairs(
    rng: np.random.Generator, dataset: Dataset, ratio: float, beta_k: float
) -> tuple[np.ndarray, np.ndarray]:
    """Parents ``[M, 2]`` of distinct classes and weights lam ``[M]`` of the first, Beta(k, k).

    M is round(ratio N), as in Alg. 3 with unordered pairs of classes.
    """
    count = round(ratio * len(dataset))
    pairs = class_pairs(dataset, count)
    classes = class_indices(dataset)
    members = {c: np.flatnonzero(classes == c) for c in np.unique(classes)}
    places = rng.random((count, 2))
    parents = np.zeros((count, 2), np.int64)
    for c, of_class in members.items():
        drawn = of_class[(places * len(of_class)).astype(np.int64)]
        parents = np.where(pairs == c, drawn, parents)
    return parents, rng.beta(beta_k, beta_k, count)


def mixed_labels(dataset: Dataset, parents: np.ndarray, lams: np.ndarray) -> np.ndarray:
    """``lam y1 + (1 - lam) y2`` for each pair of parents, ``[M, C]``."""
    rows = dataset.soft_labels()
    lams = lams.astype(rows.dtype)[:, None]
    return lams * rows[parents[:, 0]] + (1 - lams) * rows[parents[:, 1]]


def append(
    dataset: Dataset,
    graphs: Sequence[Graph],
    labels: np.ndarray,
    origins: Sequence[Origin],
) -> Dataset:
    """The originals, then the new graphs; labels become rows ``[N + M, C]``."""
    soft = dataset.soft_labels()
    return Dataset(
        [*dataset.graphs, *graphs],
        np.concatenate([soft, np.asarray(labels, soft.dtype).reshape(len(graphs), soft.shape[1])]),
        name=dataset.name,
        num_classes=dataset.num_classes,
        origins=[*dataset.origins, *origins],
    )


def replace_graphs(dataset: Dataset, graphs: Sequence[Graph], method: str) -> Dataset:
    """The dataset with every graph changed in place by a method of one parent."""
    return Dataset(
        graphs,
        dataset.soft_labels(),
        name=dataset.name,
        num_classes=dataset.num_classes,
        origins=[Origin(method, (i,)) for i in range(len(graphs))],
    )


def pair_origins(method: str, parents: np.ndarray, lams: np.ndarray) -> list[Origin]:
    """Provenance of graphs made of two parents."""
    return [
        Origin(method, (int(a), int(b)), float(lam))
        for (a, b), lam in zip(parents, lams, strict=True)
    ]


def structure_name(dataset: Dataset) -> str:
    """The name in ``STRUCTURES`` by which the graphs' structure follows from their adjacency.

    A graph does not carry the name; a made graph needs its structure computed like the others.
    """
    if all(g.structure is g.adjacency for g in dataset.graphs):
        return "adjacency"
    sample = telling(dataset)
    for name in structures.STRUCTURES:
        if follows(name, sample):
            return name
    raise InputError(
        "dataset: the graphs' structure is none that follows from their adjacency; build them with "
        f"a structure named in STRUCTURES ({', '.join(structures.STRUCTURES)})"
    )


def telling(dataset: Dataset, count: int = 3) -> list[Graph]:
    """A few graphs that tell structures apart: the densest of those that are not complete.

    Between all nodes of a complete graph there is one step, so that adjacency and shortest path
    are the same; the denser a graph, the more paths that resistance counts.
    """
    graphs = [graph.unpad() for graph in dataset.graphs]
    ends = np.array([np.count_nonzero(graph.adjacency) for graph in graphs])
    nodes = np.array([graph.num_nodes for graph in graphs])
    some = np.flatnonzero(ends < nodes * (nodes - 1))
    some = some if len(some) else np.arange(len(graphs))
    return [graphs[i] for i in some[np.argsort(-ends[some] / nodes[some], kind="stable")][:count]]


def follows(name: str, graphs: Sequence[Graph]) -> bool:
    """Whether the structures of ``graphs`` are those of that name."""
    return all(
        np.allclose(structures.compute(name, np.asarray(g.adjacency)), g.structure, atol=1e-5)
        for g in graphs
    )


def measure_name(dataset: Dataset) -> str:
    """``"degree"`` if that is how the graphs' nodes weigh, else ``"uniform"``."""
    graphs = [graph.unpad() for graph in dataset.graphs]
    uniform, degree = (
        all(np.allclose(structures.measure(n, np.asarray(g.adjacency)), g.weights) for g in graphs)
        for n in ("uniform", "degree")
    )
    return "degree" if degree and not uniform else "uniform"
