"""ifMixup (Guo and Mao, 2021): graphs added node by node, in arbitrary order."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Graph


@dataclasses.dataclass(frozen=True, kw_only=True)
class IfMixup(Augmentation):
    """``A = lam A1 + (1 - lam) A2`` and ``X = lam X1 + (1 - lam) X2``, nodes matched as stored.

    The smaller graph is padded with dummy nodes: no edges, zero features, zero weight. The new
    graphs have continuous edge weights, on which there are no shortest paths, so Graphormers
    cannot read them.

    Attributes:
        ratio: new graphs for each original.
        beta_k: lam ~ Beta(k, k).

    >>> import jax
    >>> from fgw_jax import datasets
    >>> data = datasets.synthetic(num_graphs=8)
    >>> more = IfMixup(ratio=0.5)(jax.random.key(0), data)
    >>> len(more), more.labels.shape, len(more.origins[-1].parents)
    (12, (12, 2), 2)
    """

    name: ClassVar[str] = "ifmixup"
    continuous_edges: ClassVar[bool] = True
    ratio: float = 0.25
    beta_k: float = 0.2

    def __post_init__(self) -> None:
        drawing.check_mixing(self.ratio, self.beta_k)

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """Append mixes of pairs of different classes."""
        rng, count = drawing.generator(key), round(self.ratio * len(dataset))
        first, second = drawing.draw_pairs(rng, dataset, count)
        lams = rng.beta(self.beta_k, self.beta_k, count)
        graphs = [
            _mix(dataset.graphs[a].unpad(), dataset.graphs[b].unpad(), lam)
            for a, b, lam in zip(first, second, lams, strict=True)
        ]
        labels = drawing.mixed_labels(dataset, first, second, lams)
        origins = drawing.pair_origins(self.name, first, second, lams)
        return drawing.append(dataset, graphs, labels, origins, named=False)


def _mix(first: Graph, second: Graph, lam: float) -> Graph:
    size = max(len(first.mask), len(second.mask))
    first, second = first.pad(size), second.pad(size)

    def blend(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        lam_ = np.asarray(lam, a.dtype)
        return lam_ * np.asarray(a) + (1 - lam_) * np.asarray(b)

    adjacency = blend(first.adjacency, second.adjacency)
    shared = first.structure is first.adjacency and second.structure is second.adjacency
    return Graph(
        adjacency if shared else blend(first.structure, second.structure),
        blend(first.features, second.features),
        blend(first.weights, second.weights),
        adjacency,
        np.ones(size, bool),
    )
