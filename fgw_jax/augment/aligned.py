"""Mixes on aligned nodes: one FGW plan a pair tells which nodes belong together, no barycenter."""

from __future__ import annotations

import dataclasses
from typing import Any

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
class AlignedMixup(Augmentation):
    """Draw pairs, align them by FGW, :meth:`mix`, decode to the parents' mixed density, append.

    Attributes:
        ratio: new graphs for each original.
        beta_k: lam ~ Beta(k, k).
        alpha: structure against features.
        solver: solver of FGW; ``None`` for ``Strict()``.
    """

    ratio: float = 0.25
    beta_k: float = 0.2
    alpha: float = 0.95
    solver: Any = None

    def __post_init__(self) -> None:
        drawing.check_mixing(self.ratio, self.beta_k)
        drawing.check_share("alpha", self.alpha)

    def mix(
        self, heavy: Graph, light: Graph, plan: np.ndarray, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Structure and features of a new graph; ``heavy`` is the parent of larger weight."""
        raise TypeError(f"{type(self).__name__} does not define mix")

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """Append mixes of pairs of different classes."""
        rng = drawing.generator(key)
        parents, lams = drawing.draw_pairs(rng, dataset, self.ratio, self.beta_k)
        first_heavier = lams >= 0.5
        ordered = np.where(first_heavier[:, None], parents, parents[:, ::-1])
        weights = np.where(first_heavier, lams, 1 - lams)
        pool = [graph.unpad() for graph in dataset.graphs]
        heavy, light = ([pool[i] for i in side] for side in ordered.T)
        plans: Any = []
        if len(parents):
            plans = distances(heavy, light, self.alpha, self.solver).plans
        name, measure = drawing.structure_name(dataset), drawing.measure_name(dataset)
        graphs = []
        for a, b, plan, lam in zip(heavy, light, plans, weights, strict=True):
            structure, features = self.mix(a, b, plan, float(lam))
            density = float(lam * a.density + (1 - lam) * b.density)
            edges = decode(np.asarray(structure), density, distance_like=name in DISTANCE_LIKE)
            graphs.append(connected_part(np.asarray(edges), np.asarray(features), name, measure))
        labels = drawing.mixed_labels(dataset, parents, lams)
        origins = drawing.pair_origins(self.name, parents, lams)
        return drawing.append(dataset, graphs, labels, origins)
