"""Mixing on aligned nodes: the FGW plan of a pair tells which nodes correspond; no barycenter."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.rebuild import training_graph
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.fgw import distances
from fgw_jax.graphs import Graph


@dataclasses.dataclass(frozen=True, kw_only=True)
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
        names = drawing.names_of(dataset)
        count = round(self.ratio * len(dataset))
        first, second = drawing.draw_pairs(rng, dataset, count)
        lams = rng.beta(self.beta_k, self.beta_k, count)
        first_heavier = lams >= 0.5
        weights = np.where(first_heavier, lams, 1 - lams)
        pool = [graph.unpad() for graph in dataset.graphs]
        heavy = [pool[i] for i in np.where(first_heavier, first, second)]
        light = [pool[i] for i in np.where(first_heavier, second, first)]
        plans: Any = []
        if count:
            plans = distances(heavy, light, self.alpha, self.solver).plans
        graphs = []
        for a, b, plan, lam in zip(heavy, light, plans, weights.tolist(), strict=True):
            structure, features = self.mix(a, b, plan, lam)
            graphs.append(training_graph(structure, features, (a, b), lam, *names))
        labels = drawing.mixed_labels(dataset, first, second, lams)
        origins = drawing.pair_origins(self.name, first, second, lams)
        return drawing.append(dataset, graphs, labels, origins)
