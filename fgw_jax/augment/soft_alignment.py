"""Soft alignment (the idea of S-Mixup, Ling et al., 2023): one graph carried onto the other."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from fgw_jax.augment.aligned import AlignedMixup
from fgw_jax.graphs import Graph


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftAlignment(AlignedMixup):
    r"""The nodes of the heavier graph, mixed with the other graph as the plan carries it there.

    With the FGW plan :math:`\pi` from graph 1 (the larger mixing weight) to graph 2 and
    :math:`T = \mathrm{diag}(1/\mu_1)\, \pi`:
    :math:`A = \lambda A_1 + (1-\lambda)\, T A_2 T^\top`,
    :math:`X = \lambda X_1 + (1-\lambda)\, T X_2`, then A decoded to the parents' mixed density.
    Fields as in :class:`~fgw_jax.augment.aligned.AlignedMixup`.
    """

    name: ClassVar[str] = "smixup"

    def mix(
        self, heavy: Graph, light: Graph, plan: np.ndarray, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Structure ``[n, n]`` and features ``[n, d]`` on the nodes of the heavier graph."""
        carry = plan / np.maximum(plan.sum(1, keepdims=True), np.finfo(plan.dtype).tiny)
        structure = lam * heavy.structure + (1 - lam) * (carry @ light.structure @ carry.T)
        return structure, lam * heavy.features + (1 - lam) * (carry @ light.features)
