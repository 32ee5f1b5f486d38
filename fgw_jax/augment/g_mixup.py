"""G-Mixup (Han et al., 2022): graphons of two classes mixed, new graphs sampled from the mix."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from fgw_jax.augment import drawing, graphons
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.graphons import Graphon
from fgw_jax.augment.rebuild import connected_part
from fgw_jax.augment.transport_graphons import barycenter_graphon
from fgw_jax.datasets.dataset import Dataset, Origin
from fgw_jax.errors import InputError, check
from fgw_jax.fgw import Relaxed, Schedule, Strict

#: estimator -> whether features enter the barycenter, and its solver
TRANSPORT: dict[str, tuple[bool, Any]] = {
    # rounding is exact whatever the sweeps before it: 50 do, as the next outer step goes on anyway
    "gw": (False, Strict(method="mirror", final_sweeps=50)),
    "gw_star": (False, Relaxed(schedule=Schedule(last=0.1, num_steps=12))),
    "fgw": (True, Strict(method="mirror", final_sweeps=50)),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GMixup(Augmentation):
    """``W = lam W_a + (1 - lam) W_b`` for the graphons of two classes, then edges drawn from W.

    A new graph has one node in the middle of each of ``num_nodes`` equal intervals, with the
    features the mixed graphon has there; an edge is drawn for every pair, and nodes without one
    are removed. If chance draws none at all, the likeliest pair is joined.

    Attributes:
        ratio: new graphs for each original.
        beta_k: lam ~ Beta(k, k).
        estimator: of the degree-aligned average: ``"usvt"`` (the paper's choice), ``"sba"``,
            ``"lg"``, ``"sas"``; barycenters of the class: ``"gw"``, ``"gw_star"`` (relaxed solver),
            ``"fgw"`` (attributed: structure and features together).
        num_nodes: nodes drawn for a new graph; by default the median size of the training graphs.
        cells: cells of a graphon: ``num_nodes`` by default, for barycenters about its square root,
            since a finer grid fits the noise (:func:`.barycenter_graphon`).
        alpha: structure against features for ``"fgw"``.

    >>> import jax
    >>> from fgw_jax import datasets
    >>> data = datasets.synthetic(num_graphs=8)
    >>> more = GMixup(ratio=0.5)(jax.random.key(0), data)
    >>> len(more), more.origins[-1].method
    (12, 'gmixup')
    """

    name: ClassVar[str] = "gmixup"
    ratio: float = 0.25
    beta_k: float = 0.2
    estimator: str = "usvt"
    num_nodes: int | None = None
    cells: int | None = None
    alpha: float = 0.95

    def __post_init__(self) -> None:
        drawing.check_mixing(self.ratio, self.beta_k)
        drawing.check_share("alpha", self.alpha)
        for field, value in (("num_nodes", self.num_nodes), ("cells", self.cells)):
            check(
                value is None or value >= 1,
                f"{field}: {value} cannot hold a graph; use at least 1, or None for the median",
            )
        known = (*graphons.ESTIMATORS, *TRANSPORT)
        if self.estimator not in known:
            raise InputError(
                f"estimator: no such name {self.estimator!r}; choose one of {', '.join(known)}"
            )

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """Append graphs sampled between classes; their parents are the two classes as a whole."""
        rng = drawing.generator(key)
        shares = drawing.class_pairs(rng, dataset, round(self.ratio * len(dataset)))
        pairs = np.array([pair for pair, k in shares for _ in range(k)], int).reshape(-1, 2)
        lams = rng.beta(self.beta_k, self.beta_k, len(pairs))
        sizes = [graph.num_nodes for graph in dataset.graphs]
        size = self.num_nodes or max(1, round(float(np.median(sizes))))
        found = self.graphons(dataset, size) if len(pairs) else {}
        names = drawing.names_of(dataset)
        graphs = []
        for (a, b), lam in zip(pairs, lams, strict=True):
            first, second = found[int(a)], found[int(b)]
            edges = _sample(rng, lam * first.edges + (1 - lam) * second.edges)
            features = lam * first.features + (1 - lam) * second.features
            graphs.append(connected_part(edges, features, *names))
        classes, targets = drawing.class_indices(dataset), dataset.soft_labels()
        rows = np.zeros((dataset.num_classes, targets.shape[1]))
        for c in found:  # of hard labels, its own row of the identity
            rows[c] = targets[classes == c].mean(0)
        labels = lams[:, None] * rows[pairs[:, 0]] + (1 - lams[:, None]) * rows[pairs[:, 1]]
        origins = [Origin(self.name, (), float(lam)) for lam in lams]
        return drawing.append(dataset, graphs, labels, origins)

    def graphons(self, dataset: Dataset, size: int) -> dict[int, Graphon]:
        """Graphon of each class that holds graphs, on ``size`` cells."""
        classes = drawing.class_indices(dataset)
        found = {}
        for c in np.unique(classes):
            graphs = [dataset.graphs[i].unpad() for i in np.flatnonzero(classes == c)]
            if self.estimator in TRANSPORT:
                attributed, solver = TRANSPORT[self.estimator]
                cells = self.cells or max(2, round(float(np.sqrt(size))))
                alpha = self.alpha if attributed else 1.0
                graphon = barycenter_graphon(graphs, min(cells, size), alpha, solver)
            else:
                graphon = graphons.estimate(graphs, self.cells or size, self.estimator)
            found[int(c)] = graphon.resample(size)
        return found


def _sample(rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
    """0/1 adjacency with independent edges; at least one, unless every probability is zero."""
    size = len(probabilities)
    upper = np.triu(rng.random((size, size)) < probabilities, 1)
    if not upper.any() and size > 1:
        likeliest = np.triu(probabilities, 1)
        place = np.unravel_index(likeliest.argmax(), likeliest.shape)
        upper[place] = likeliest[place] > 0
    return (upper | upper.T).astype(np.float64)
