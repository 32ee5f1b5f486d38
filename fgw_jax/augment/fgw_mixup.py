"""FGWMixup: the whole procedure of the paper, Alg. 3, from training set to training set."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import numpy as np

from fgw_jax import distributed
from fgw_jax import structure as structures
from fgw_jax.augment import cache as caches
from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.datasets.dataset import Dataset, Origin
from fgw_jax.errors import InputError, check
from fgw_jax.graphs import Graph
from fgw_jax.inputs import check_whole
from fgw_jax.midpoint import Median, Midpoint, decode, mixups

#: Rounds of redrawing before a midpoint is taken as it is.
REDRAWS = 10
#: The authors' code redraws midpoints denser than this.
DENSE = 0.9


@dataclasses.dataclass(frozen=True)
class Drawn:
    """New graphs and how they came about.

    Attributes:
        dataset: the new graphs alone, with soft labels ``[K, C]`` and origins.
        num_redrawn: draws thrown away (``redraw_dense``).
        num_edgeless: midpoints of edgeless sources, kept without edges.
        num_dropped_nodes: nodes left isolated by the threshold and dropped.
    """

    dataset: Dataset
    num_redrawn: int = 0
    num_edgeless: int = 0
    num_dropped_nodes: int = 0


@dataclasses.dataclass(frozen=True)
class FGWMixup(Augmentation):
    """Append midpoints of training graphs, labels lam y1 + (1 - lam) y2 (Alg. 3).

    ``FGWMixup(solver=Relaxed())`` is the paper's accelerated variant. Deterministic: the same key,
    data and fields give the same graphs.

    Attributes:
        ratio: new graphs per training graph (beta).
        alpha: structure against features.
        beta_k: lam ~ Beta(k, k).
        solver: ``Strict()`` by default, ``Relaxed()`` for the accelerated variant.
        size: nodes of a midpoint: ``None`` (lam-weighted mean), a number, or
            :class:`fgw_jax.midpoint.Median`.
        start: ``"geodesic"`` or the paper's ``"random"``.
        pairs: ``"cross"`` mixes unordered pairs of classes evenly, ``"within"`` one class with
            itself, ``"any"`` any two graphs (regression targets, multi-label rows).
        structure: name of the structure the training graphs carry, computed anew for the decoded
            ones; read off the graphs when it is the adjacency.
        measure: node weights of the decoded graphs.
        labels: ``"ratio"`` (the paper), or ``"distances"``: lam replaced by d2 / (d1 + d2), the
            authors' code.
        redraw_dense: redraw midpoints that decode to a density above 0.9 (the authors' code).
        cache: folder that keeps made graphs between runs.
        refresh_every: epochs between fresh draws during training; ``None``: once per fold.
        across_processes: every process makes a share, and all end with all of them
            (:mod:`fgw_jax.distributed`); all must call it alike.

    >>> import jax, numpy as np
    >>> from fgw_jax import Dataset, Graph
    >>> path, star = [(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (0, 3)]
    >>> train = Dataset([Graph.from_edges(e, 4) for e in (path, star, path, star)], [0, 1, 0, 1])
    >>> out = FGWMixup(ratio=0.5)(jax.random.key(0), train)
    >>> len(out), out.labels.shape, out.origins[4].method
    (6, (6, 2), 'fgwmixup')
    """

    name: ClassVar[str] = "fgwmixup"

    ratio: float = 0.25
    alpha: float = 0.95
    beta_k: float = 0.2
    solver: Any = None
    size: int | Median | None = None
    start: str = "geodesic"
    pairs: str = "cross"
    structure: str | None = None
    measure: str = "uniform"
    labels: str = "ratio"
    redraw_dense: bool = False
    cache: str | None = dataclasses.field(default=None, metadata={"cached": False})
    refresh_every: int | None = dataclasses.field(  # type: ignore[misc]
        default=None, metadata={"cached": False}
    )
    across_processes: bool = dataclasses.field(default=False, metadata={"cached": False})

    def __post_init__(self) -> None:
        drawing.check_mixing(self.ratio, self.beta_k)
        drawing.check_share("alpha", self.alpha)
        check(
            self.refresh_every is None or self.refresh_every >= 1,
            f"refresh_every: {self.refresh_every} must be at least 1, or None for once a fold",
        )
        for name, value, allowed in (
            ("pairs", self.pairs, ("cross", "within", "any")),
            ("labels", self.labels, ("ratio", "distances")),
            ("start", self.start, ("geodesic", "random")),
            ("structure", self.structure, (None, *structures.STRUCTURES)),
            ("measure", self.measure, tuple(structures.MEASURES)),
        ):
            check(value in allowed, f"{name}: unknown name {value!r}; use one of {allowed}")
        check(
            self.cache is None or not self.across_processes,
            "cache: processes that share the work must not differ in what they find on disk; use "
            "fgw_jax.augment.parts, which shares files",
        )

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """The training set with ``round(ratio N)`` midpoints appended, soft labels ``[N', C]``."""
        count = round(self.ratio * len(dataset))
        if count == 0:
            return dataset.replace(labels=dataset.soft_labels(), split=None)
        make = lambda: self.draw(key, dataset, count).dataset  # noqa: E731
        made = (
            make() if self.cache is None else caches.remember(self.cache, self, key, dataset, make)
        )
        return dataset.replace(labels=dataset.soft_labels(), split=None).concatenate(made)

    def stream(self, key: jax.Array, dataset: Dataset, batch_size: int = 128) -> Iterator[Dataset]:
        """Fresh midpoints without end, ``batch_size`` at a time, for a loop of one's own."""
        check_whole("batch_size", batch_size)
        numbers = itertools.count()
        return (self.draw(jax.random.fold_in(key, n), dataset, batch_size).dataset for n in numbers)

    def draw(self, key: jax.Array, dataset: Dataset, count: int) -> Drawn:
        """``count`` new graphs from ``dataset``, and how they came about."""
        check_whole("count", count)
        rng = drawing.generator(key)
        solver_key = jax.random.fold_in(key, 1) if self.start == "random" else None
        structure = self._structure(dataset)
        first, second = draw_pairs(rng, dataset, count, self.pairs)
        lams = rng.beta(self.beta_k, self.beta_k, count)
        graphs: list[Any] = [None] * count
        weights = lams.copy()
        todo = np.arange(count)
        redrawn = edgeless = dropped = 0
        for attempt in range(REDRAWS + 1):
            again = []
            drawn = first[todo], second[todo], lams[todo]
            made = self._make(dataset, *drawn, structure, solver_key)
            for item, (graph, isolated, weight) in zip(todo, made, strict=True):
                if self.redraw_dense and attempt < REDRAWS and graph.density > DENSE:
                    again.append(item)
                    continue
                graphs[item] = graph
                dropped += isolated
                edgeless += int(not graph.adjacency.any())
                weights[item] = weight
            if not again:
                break
            todo = np.array(again)
            redrawn += len(todo)
            first[todo], second[todo] = draw_pairs(rng, dataset, len(todo), self.pairs)
            lams[todo] = weights[todo] = rng.beta(self.beta_k, self.beta_k, len(todo))
        rows = dataset.soft_labels()
        soft = weights[:, None] * rows[first] + (1 - weights[:, None]) * rows[second]
        origins = [
            Origin(self.name, (int(i), int(j)), float(lam))
            for i, j, lam in zip(first, second, lams, strict=True)
        ]
        made = Dataset(graphs, soft.astype(np.float32), dataset.name, dataset.num_classes, origins)
        return Drawn(made, redrawn, edgeless, dropped)

    def _make(
        self,
        dataset: Dataset,
        first: np.ndarray,
        second: np.ndarray,
        lams: np.ndarray,
        structure: str,
        key: jax.Array | None,
    ) -> list[tuple[Graph, int, float]]:
        """Of each pair the decoded graph, its dropped nodes and the weight of the first label."""
        order = mine = np.arange(len(lams))
        if self.across_processes:
            # Dealt by size, so that no process has the larger graphs.
            nodes = np.array([graph.num_nodes for graph in dataset.graphs])
            order = np.lexsort((nodes[second], nodes[first], nodes[first] + nodes[second]))
            mine = np.array(distributed.share(order), np.int64)
        pairs = [(dataset.graphs[first[i]], dataset.graphs[second[i]]) for i in mine]
        made = []
        if pairs:
            mids = mixups(
                [a for a, _ in pairs],
                [b for _, b in pairs],
                lams[mine],
                self.alpha,
                self.solver,
                self.size.of(dataset.graphs) if isinstance(self.size, Median) else self.size,
                self.start,
                # A key a pair, whoever makes it.
                None if key is None else jax.random.split(key, len(lams))[mine],
            )
            for item, sources, mid in zip(mine, pairs, mids, strict=True):
                graph, isolated = finish(mid, sources, lams[item], structure, self.measure)
                total = float(np.sum(mid.values)) if self.labels == "distances" else 0.0
                made.append((graph, isolated, mid.values[1] / total if total > 0 else lams[item]))
        if not self.across_processes:
            return made
        sent = [(graph.adjacency, graph.features, *rest) for graph, *rest in made]
        options = {"structure": structure, "measure": self.measure}
        whole: list[Any] = [None] * len(lams)
        for item, (a, x, dropped, weight) in zip(order, distributed.gather(sent), strict=True):
            whole[item] = Graph.from_adjacency(a, x, **options), int(dropped), float(weight)
        return whole

    def _structure(self, dataset: Dataset) -> str:
        if self.structure is not None:
            check(
                drawing.follows(self.structure, drawing.telling(dataset)),
                f"structure: {self.structure!r} is not what the graphs carry; name theirs, or "
                "build them with it",
            )
            return self.structure
        same = all(
            g.structure is g.adjacency or np.array_equal(g.structure, g.adjacency)
            for g in dataset.graphs
        )
        if not same:
            raise InputError(
                "structure: the graphs carry another structure than their adjacency; name it, as "
                "in FGWMixup(structure='shortest_path'), so that midpoints can be decoded"
            )
        return "adjacency"


def finish(
    mid: Midpoint, sources: tuple[Graph, Graph], lam: float, structure: str, measure: str
) -> tuple[Graph, int]:
    """The decoded graph of a midpoint, and how many isolated nodes were dropped.

    Edges by the threshold whose density is closest to lam d1 + (1 - lam) d2. Nodes left without
    an edge are dropped as in preprocessing, unless no edge is left at all (edgeless sources).
    """
    density = lam * sources[0].density + (1 - lam) * sources[1].density
    adjacency = decode(
        mid.graph.structure, float(density), distance_like=structure in structures.DISTANCE_LIKE
    )
    keep = np.flatnonzero(adjacency.any(0))
    if len(keep) == 0:
        keep = np.arange(len(adjacency))
    graph = Graph.from_adjacency(
        adjacency[np.ix_(keep, keep)],
        mid.graph.features[keep],
        structure=structure,
        measure=measure,
    )
    return graph, len(adjacency) - len(keep)


def draw_pairs(
    rng: np.random.Generator, dataset: Dataset, count: int, pairs: str
) -> tuple[np.ndarray, np.ndarray]:
    """Positions ``[count]`` of first and second parents.

    ``"cross"``: the unordered pairs of classes share the count evenly (a rest goes to pairs drawn
    at random), and within a pair both graphs are drawn uniformly from their class.
    """
    check(len(dataset) >= 2, "dataset: mixing needs at least two graphs")
    if pairs == "any":
        drawn = rng.integers(len(dataset), size=count)
        return drawn, (drawn + rng.integers(1, len(dataset), size=count)) % len(dataset)
    classes = dataset.labels if dataset.labels.ndim == 1 else dataset.labels.argmax(1)
    members = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    if pairs == "cross":
        check(
            len(members) >= 2,
            "dataset: one class only, so no pair of classes to mix; use pairs='any'",
        )
        groups = list(itertools.combinations(members, 2))
    else:
        groups = [(m, m) for m in members if len(m) >= 2]
        check(len(groups) > 0, "dataset: no class has two graphs to mix; use pairs='any'")
    share, rest = divmod(count, len(groups))
    counts = np.full(len(groups), share)
    counts[rng.permutation(len(groups))[:rest]] += 1
    first: list[np.ndarray] = []
    second: list[np.ndarray] = []
    for (a, b), k in zip(groups, counts, strict=True):
        i = rng.integers(len(a), size=k)
        j = rng.integers(len(b), size=k)
        if pairs == "within":
            j = (i + 1 + rng.integers(len(a) - 1, size=k)) % len(a)
        first.append(a[i])
        second.append(b[j])
    return np.concatenate(first), np.concatenate(second)
