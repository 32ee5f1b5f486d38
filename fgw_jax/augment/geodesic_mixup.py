"""Geodesic mixup (the idea of GeoMix, Zeng et al., 2024): both graphs carried to common nodes."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.soft_alignment import aligned_mixes
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Graph


@dataclasses.dataclass(frozen=True)
class GeodesicMixup(Augmentation):
    r"""A point of the FGW geodesic: the common nodes are pairs (i, j) that the plan joins.

    :math:`A_{(i,j),(k,l)} = \lambda A_1(i,k) + (1-\lambda) A_2(j,l)` and
    :math:`X_{(i,j)} = \lambda X_1(i) + (1-\lambda) X_2(j)`. Each node of the larger graph is paired
    with the node that gets most of its mass, so a new graph has as many nodes as the larger
    parent, and its structure is decoded to the parents' mixed density.

    Attributes:
        ratio: new graphs for each original.
        beta_k: lam ~ Beta(k, k).
        alpha: structure against features.
        solver: solver of FGW; ``None`` for ``Strict()``.
    """

    name: ClassVar[str] = "geomix"
    ratio: float = 0.25
    beta_k: float = 0.2
    alpha: float = 0.95
    solver: Any = None

    def __post_init__(self) -> None:
        drawing.check_mixing(self.ratio, self.beta_k)
        drawing.check_share("alpha", self.alpha)

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """Append mixes of pairs of different classes."""
        return aligned_mixes(self, key, dataset)

    def mix(
        self, heavy: Graph, light: Graph, plan: np.ndarray, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Structure and features on the pairs of nodes that the plan joins."""
        if plan.shape[0] >= plan.shape[1]:
            rows, columns = np.arange(plan.shape[0]), plan.argmax(1)
        else:
            rows, columns = plan.argmax(0), np.arange(plan.shape[1])
        structure = (
            lam * heavy.structure[np.ix_(rows, rows)]
            + (1 - lam) * light.structure[np.ix_(columns, columns)]
        )
        return structure, lam * heavy.features[rows] + (1 - lam) * light.features[columns]
