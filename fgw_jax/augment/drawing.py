"""What the methods on the host share: draws from a key, pairs across classes, joining."""

from __future__ import annotations

import itertools
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


def draw_pairs(
    rng: np.random.Generator, dataset: Dataset, count: int, pairs: str = "cross"
) -> tuple[np.ndarray, np.ndarray]:
    """Positions ``[count]`` of the first and second parents of new graphs.

    The groups to mix (pairs of classes, or classes) share ``count`` evenly; what does not divide
    goes to groups drawn at random, at most one more each. Both graphs are drawn uniformly.

    Args:
        rng: generator.
        dataset: where the parents stand.
        count: number of pairs.
        pairs: ``"cross"``: unordered pairs of distinct classes, as in Alg. 3, line 4; ``"within"``:
            two graphs of one class; ``"any"``: any two graphs. The class of a soft label is its
            largest entry.

    Raises:
        InputError: if there are no two graphs to mix.
    """
    if pairs == "any":
        check(len(dataset) >= 2, "dataset: mixing needs at least two graphs")
        drawn = rng.integers(len(dataset), size=count)
        return drawn, (drawn + rng.integers(1, len(dataset), size=count)) % len(dataset)
    classes = class_indices(dataset)
    members = {int(c): np.flatnonzero(classes == c) for c in np.unique(classes)}
    if pairs == "cross":
        groups = class_pairs(rng, dataset, count)
    else:
        large = [c for c, own in members.items() if len(own) >= 2]
        check(len(large) > 0, "dataset: no class has two graphs to mix; use pairs='any'")
        groups = [((c, c), k) for c, k in zip(large, _shares(rng, len(large), count), strict=True)]
    first, second = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for (a, b), k in groups:
        i = rng.integers(len(members[a]), size=k)
        j = rng.integers(len(members[b]), size=k)
        if pairs == "within":
            j = (i + 1 + rng.integers(len(members[a]) - 1, size=k)) % len(members[a])
        first.append(members[a][i])
        second.append(members[b][j])
    return np.concatenate(first), np.concatenate(second)


def class_pairs(
    rng: np.random.Generator, dataset: Dataset, count: int
) -> list[tuple[tuple[int, int], int]]:
    """Unordered pairs of classes that hold graphs, and how many of ``count`` graphs each makes.

    Raises:
        InputError: if there is one class only.
    """
    present = np.unique(class_indices(dataset)).tolist()
    check(
        len(present) >= 2 or count == 0,
        f"dataset: all graphs are of one class, {present[0]}, and mixing needs two; pass a "
        "training set with two classes, FGWMixup(pairs='any'), or a method of single graphs "
        "(dropedge, dropnode)",
    )
    pairs = list(itertools.combinations(present, 2))
    return list(zip(pairs, _shares(rng, len(pairs), count), strict=True))


def _shares(rng: np.random.Generator, groups: int, count: int) -> list[int]:
    """``count`` shared evenly; what does not divide goes to groups drawn at random."""
    share, rest = divmod(count, max(groups, 1))
    counts = np.full(groups, share)
    counts[rng.permutation(groups)[:rest]] += 1
    return counts.tolist()


def mixed_labels(
    dataset: Dataset, first: np.ndarray, second: np.ndarray, lams: np.ndarray
) -> np.ndarray:
    """``lam y1 + (1 - lam) y2`` for each pair of parents, ``[M, C]``."""
    rows = dataset.soft_labels()
    mixed = lams[:, None] * rows[first] + (1 - lams[:, None]) * rows[second]
    return mixed.astype(rows.dtype)


def append(
    dataset: Dataset,
    graphs: Sequence[Graph],
    labels: np.ndarray,
    origins: Sequence[Origin],
    *,
    named: bool = True,
) -> Dataset:
    """The originals, then the new graphs; labels become rows ``[N + M, C]``.

    ``named``: whether the new graphs have the structure and measure of the others.
    """
    soft = dataset.soft_labels()
    return Dataset(
        [*dataset.graphs, *graphs],
        np.concatenate([soft, np.asarray(labels, soft.dtype).reshape(len(graphs), soft.shape[1])]),
        name=dataset.name,
        num_classes=dataset.num_classes,
        origins=[*dataset.origins, *origins],
        structure=dataset.structure if named else None,
        measure=dataset.measure if named else None,
    )


def replace_graphs(dataset: Dataset, graphs: Sequence[Graph], method: str) -> Dataset:
    """The dataset with every graph changed in place by a method of one parent.

    Weights that were degrees are not those of the changed graphs; equal ones stay equal.
    """
    return Dataset(
        graphs,
        dataset.soft_labels(),
        name=dataset.name,
        num_classes=dataset.num_classes,
        origins=[Origin(method, (i,)) for i in range(len(graphs))],
        structure=dataset.structure,
        measure="uniform" if dataset.measure == "uniform" else None,
    )


def pair_origins(
    method: str, first: np.ndarray, second: np.ndarray, lams: np.ndarray
) -> list[Origin]:
    """Provenance of graphs made of two parents."""
    return [
        Origin(method, (int(a), int(b)), float(lam))
        for a, b, lam in zip(first, second, lams, strict=True)
    ]


def names_of(dataset: Dataset) -> tuple[str, str]:
    """Names of the structure and the measure that changed and new graphs get.

    Raises:
        InputError: if the structure has no name. Weights without a name are taken as uniform.
    """
    if dataset.structure is None:
        raise InputError(
            "structure: the dataset does not say by which structure its graphs were built, so that "
            "new ones cannot get theirs; name it, Dataset(graphs, labels, structure=...) or "
            f"dataset.replace(structure=...), with one of {', '.join(structures.STRUCTURES)}"
        )
    return dataset.structure, dataset.measure or "uniform"
