"""FGWMixup: the whole procedure of the paper, Alg. 3, from training set to training set."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import numpy as np

from fgw_jax import structure as structures
from fgw_jax.augment import cache as caches
from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.rebuild import training_graph
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import check
from fgw_jax.graphs import Graph
from fgw_jax.inputs import check_whole
from fgw_jax.midpoint import Median, mixups
from fgw_jax.runtime import processes

#: Rounds of redrawing before a midpoint is taken as it is.
REDRAWS = 10
#: The authors' code redraws midpoints denser than this.
DENSE = 0.9


@dataclasses.dataclass(frozen=True)
class MixupDraw:
    """New graphs and statistics of how they were made.

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


@dataclasses.dataclass(frozen=True, kw_only=True)
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
        structure: name of the structure the training graphs carry, computed for the new ones; by
            default the dataset's (:attr:`fgw_jax.Dataset.structure`). Needed where that has none.
        measure: node weights of the new graphs; by default the dataset's, or uniform.
        labels: ``"ratio"`` (the paper), or ``"distances"``: lam replaced by d2 / (d1 + d2), the
            authors' code.
        redraw_dense: redraw midpoints that decode to a density above 0.9 (the authors' code).
        cache: folder that keeps made graphs between runs.
        refresh_every: epochs between fresh draws during training; ``None``: once per fold.
        across_processes: every process makes a share, and all end with all of them
            (:mod:`fgw_jax.runtime.processes`); all must make the same call.

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
    measure: str | None = None
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
            f"refresh_every: {self.refresh_every} must be at least 1, or None for once per fold",
        )
        for name, value, allowed in (
            ("pairs", self.pairs, ("cross", "within", "any")),
            ("labels", self.labels, ("ratio", "distances")),
            ("start", self.start, ("geodesic", "random")),
            ("structure", self.structure, (None, *structures.STRUCTURES)),
            ("measure", self.measure, (None, *structures.MEASURES)),
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
        """New graphs without end, for custom training loops.

        Args:
            key: random key.
            dataset: the training set.
            batch_size: graphs in each dataset that is yielded.
        """
        check_whole("batch_size", batch_size)
        numbers = itertools.count()
        return (self.draw(jax.random.fold_in(key, n), dataset, batch_size).dataset for n in numbers)

    def draw(self, key: jax.Array, dataset: Dataset, count: int) -> MixupDraw:
        """New graphs alone, and statistics of how they were made.

        Args:
            key: random key.
            dataset: the training set.
            count: number of new graphs.

        Raises:
            InputError: if there is nothing to mix, or the dataset's structure has no name.
        """
        check_whole("count", count)
        rng = drawing.generator(key)
        solver_key = jax.random.fold_in(key, 1) if self.start == "random" else None
        names = self._names(dataset)
        first, second = drawing.draw_pairs(rng, dataset, count, self.pairs)
        lams = rng.beta(self.beta_k, self.beta_k, count)
        graphs: list[Any] = [None] * count
        weights = lams.copy()
        todo = np.arange(count)
        redrawn = edgeless = dropped = 0
        for attempt in range(REDRAWS + 1):
            again = []
            drawn = first[todo], second[todo], lams[todo]
            made = self._make(dataset, *drawn, names, solver_key)
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
            first[todo], second[todo] = drawing.draw_pairs(rng, dataset, len(todo), self.pairs)
            lams[todo] = weights[todo] = rng.beta(self.beta_k, self.beta_k, len(todo))
        soft = drawing.mixed_labels(dataset, first, second, weights)
        origins = drawing.pair_origins(self.name, first, second, lams)
        made = Dataset(graphs, soft, dataset.name, dataset.num_classes, origins)
        return MixupDraw(made, redrawn, edgeless, dropped)

    def _make(
        self,
        dataset: Dataset,
        first: np.ndarray,
        second: np.ndarray,
        lams: np.ndarray,
        names: tuple[str, str],
        key: jax.Array | None,
    ) -> list[tuple[Graph, int, float]]:
        """Of each pair the decoded graph, its dropped nodes and the weight of the first label."""
        order = mine = np.arange(len(lams))
        if self.across_processes:
            # Dealt by size, so that no process has the larger graphs.
            nodes = np.array([graph.num_nodes for graph in dataset.graphs])
            order = np.lexsort((nodes[second], nodes[first], nodes[first] + nodes[second]))
            mine = np.array(processes.share(order), np.int64)
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
                # One key per pair, whichever process solves it.
                None if key is None else jax.random.split(key, len(lams))[mine],
            )
            for item, sources, mid in zip(mine, pairs, mids, strict=True):
                mixed = mid.graph
                graph = training_graph(mixed.structure, mixed.features, sources, lams[item], *names)
                isolated = len(mixed.features) - graph.num_nodes
                total = float(np.sum(mid.values)) if self.labels == "distances" else 0.0
                made.append((graph, isolated, mid.values[1] / total if total > 0 else lams[item]))
        if not self.across_processes:
            return made
        sent = [(graph.adjacency, graph.features, *rest) for graph, *rest in made]
        options = {"structure": names[0], "measure": names[1]}
        whole: list[Any] = [None] * len(lams)
        for item, (a, x, dropped, weight) in zip(order, processes.gather(sent), strict=True):
            whole[item] = Graph.from_adjacency(a, x, **options), int(dropped), float(weight)
        return whole

    def _names(self, dataset: Dataset) -> tuple[str, str]:
        """Names of the structure and measure of the new graphs."""
        known = dataset.structure
        check(
            self.structure is None or known in (None, self.structure),
            f"structure: {self.structure!r} is not what the graphs carry ({known}); leave it out, "
            "or build them with it",
        )
        if self.structure is not None and known is None:
            dataset = dataset.replace(structure=self.structure)
        structure, measure = drawing.names_of(dataset)
        return structure, self.measure or measure
