"""Geodesic mixup (the idea of GeoMix, Zeng et al., 2024): both graphs carried to common nodes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from fgw_jax.augment.aligned import AlignedMixup
from fgw_jax.graphs import Graph


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeodesicMixup(AlignedMixup):
    r"""A point of the FGW geodesic: the common nodes are pairs (i, j) that the plan joins.

    :math:`A_{(i,j),(k,l)} = \lambda A_1(i,k) + (1-\lambda) A_2(j,l)` and
    :math:`X_{(i,j)} = \lambda X_1(i) + (1-\lambda) X_2(j)`. Each node of the larger graph is paired
    with the node that gets most of its mass, so a new graph has as many nodes as the larger
    parent, and its structure is decoded to the parents' mixed density.

    Fields as in :class:`~fgw_jax.augment.aligned.AlignedMixup`.
    """

    name: ClassVar[str] = "geomix"

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
