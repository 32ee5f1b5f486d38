"""Soft alignment (the idea of S-Mixup, Ling et al., 2023): one graph carried onto the other."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.rebuild import connected_part
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.fgw import distances
from fgw_jax.graphs import Graph
from fgw_jax.midpoint.decode import decode
from fgw_jax.structure import DISTANCE_LIKE


@dataclasses.dataclass(frozen=True)
class SoftAlignment(Augmentation):
    r"""The nodes of the heavier graph, mixed with the other graph as the plan carries it there.

    With the FGW plan :math:`\pi` from graph 1 (the larger mixing weight) to graph 2 and
    :math:`T = \mathrm{diag}(1/\mu_1)\, \pi`:
    :math:`A = \lambda A_1 + (1-\lambda)\, T A_2 T^\top`,
    :math:`X = \lambda X_1 + (1-\lambda)\, T X_2`, then A decoded to the parents' mixed density.
    One FGW solve a graph, no barycenter.

    Attributes:
        ratio: new graphs for each original.
        beta_k: lam ~ Beta(k, k).
        alpha: structure against features.
        solver: solver of FGW; ``None`` for ``Strict()``.
    """

    name: ClassVar[str] = "smixup"
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
        """Structure ``[n, n]`` and features ``[n, d]`` on the nodes of the heavier graph."""
        carry = plan / np.maximum(plan.sum(1, keepdims=True), np.finfo(plan.dtype).tiny)
        structure = lam * heavy.structure + (1 - lam) * (carry @ light.structure @ carry.T)
        return structure, lam * heavy.features + (1 - lam) * (carry @ light.features)


def aligned_mixes(method: Any, key: jax.Array, dataset: Dataset) -> Dataset:
    """Draw pairs, align them by FGW, mix by ``method.mix``, decode, append.

    ``method.mix(heavy, light, plan, lam)`` gets the parent of larger weight ``lam`` first.
    """
    parents, lams = drawing.draw_pairs(drawing.generator(key), dataset, method.ratio, method.beta_k)
    first_heavier = lams >= 0.5
    ordered = np.where(first_heavier[:, None], parents, parents[:, ::-1])
    weights = np.where(first_heavier, lams, 1 - lams)
    pool = [graph.unpad() for graph in dataset.graphs]
    heavy, light = ([pool[i] for i in side] for side in ordered.T)
    plans: Any = []
    if len(parents):
        plans = distances(heavy, light, method.alpha, method.solver).plans
    name, measure = drawing.structure_name(dataset), drawing.measure_name(dataset)
    graphs = []
    for a, b, plan, lam in zip(heavy, light, plans, weights, strict=True):
        structure, features = method.mix(a, b, plan, float(lam))
        density = float(lam * a.density + (1 - lam) * b.density)
        edges = decode(np.asarray(structure), density, distance_like=name in DISTANCE_LIKE)
        graphs.append(connected_part(np.asarray(edges), np.asarray(features), name, measure))
    labels = drawing.mixed_labels(dataset, parents, lams)
    origins = drawing.pair_origins(method.name, parents, lams)
    return drawing.append(dataset, graphs, labels, origins)
