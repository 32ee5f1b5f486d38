"""Peers of the midpoint benchmark: the paper's loop and POT's, in double precision.

A pair of graphs with its ratios, what any plans of its midpoint are worth, and the ways to such
plans that are not ours: the authors' strict loop written with POT's conditional gradient, POT's own
``fgw_barycenters``, and POT's conditional gradient from our geodesic start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fgw_jax import Graph, Strict
from fgw_jax.graphs import Batch
from fgw_jax.midpoint import barycenter, descent, starts
from fgw_jax.midpoint.objective import problem_of
from fgw_jax.runtime import parallel
from fgw_jax.runtime.shapes import grid_size

ALPHA = 0.95
OUTER_LIMIT, OUTER_RTOL = 200, 5e-4


class Pair:
    """Two graphs in double precision, their ratios and the size of their midpoint."""

    def __init__(self, graph1: Graph, graph2: Graph, lam: float):
        self.graphs = (graph1, graph2)
        self.structures = [np.asarray(g.structure, np.float64) for g in self.graphs]
        self.features = [np.asarray(g.features, np.float64) for g in self.graphs]
        weights = [np.asarray(g.weights, np.float64) for g in self.graphs]
        self.weights = [w / w.sum() for w in weights]
        self.ratios = (lam, 1.0 - lam)
        self.size = max(1, round(lam * graph1.num_nodes + (1.0 - lam) * graph2.num_nodes))

    def average(self, plans: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Lines 7 and 8 of Alg. 1: structure and features that go with two plans."""
        n = self.size
        triples = list(zip(self.ratios, plans, self.structures, strict=True))
        structure = sum(w * n * n * (p @ a @ p.T) for w, p, a in triples)
        features = sum(
            w * n * (p @ x) for w, p, x in zip(self.ratios, plans, self.features, strict=True)
        )
        return np.asarray(structure), np.asarray(features)

    def objective(
        self, plans: Sequence[np.ndarray], averages: tuple[np.ndarray, np.ndarray] | None = None
    ) -> float:
        """sum_i w_i FGW at ``plans``, for the midpoint given or the one that goes with them."""
        structure, features = self.average(plans) if averages is None else averages
        total = 0.0
        for w, plan, a, x in zip(self.ratios, plans, self.structures, self.features, strict=True):
            rows, columns = plan.sum(1), plan.sum(0)
            squares = rows @ (structure**2 @ rows) + columns @ (a**2 @ columns)
            quadratic = squares - 2 * ((structure @ plan @ a) * plan).sum()
            cost = ((features[:, None] - x[None]) ** 2).sum(-1)
            total += w * ((1 - ALPHA) * (cost * plan).sum() + ALPHA * quadratic)
        return float(total)

    def solve(
        self, averages: tuple[np.ndarray, np.ndarray], warm: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """POT's conditional gradient from the product coupling, or from given plans."""
        import ot

        structure, features = averages
        new = np.full(self.size, 1.0 / self.size)
        plans = []
        for i, (a, x, weights) in enumerate(
            zip(self.structures, self.features, self.weights, strict=True)
        ):
            cost = ((features[:, None] - x[None]) ** 2).sum(-1)
            plans.append(
                ot.gromov.fused_gromov_wasserstein(
                    cost,
                    structure,
                    a,
                    new,
                    weights,
                    alpha=ALPHA,
                    G0=None if warm is None else warm[i],
                    max_iter=300,
                    tol_rel=1e-5,
                    tol_abs=1e-9,
                )
            )
        return plans


def random_midpoint(pair: Pair, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The paper's start: features zero, structure the distances of random points, at most one."""
    points = rng.normal(size=(pair.size, 2))
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    return distances / max(distances.max(), 1e-12), np.zeros((pair.size, pair.features[0].shape[1]))


def authors_loop(pair: Pair, rng: np.random.Generator) -> tuple[float, int]:
    """Alg. 1 with cold plans; ends when structure and features both change by less than 5e-4."""
    averages = random_midpoint(pair, rng)
    plans = pair.solve(averages)
    change: Any = np.inf
    count = 0
    while change >= OUTER_RTOL and count < OUTER_LIMIT:
        before, averages = averages, pair.average(plans)
        plans = pair.solve(averages)
        count += 1
        change = max(
            float(np.linalg.norm(new - old)) / max(float(np.linalg.norm(old)), 1e-12)
            for new, old in zip(averages, before, strict=True)
        )
    return pair.objective(plans, averages), count


def pot_barycenter(pair: Pair, rng: np.random.Generator) -> tuple[float, int]:
    """POT's fgw_barycenters with its own start and stopping rule."""
    import ot

    features, structure, log = ot.gromov.fgw_barycenters(
        pair.size,
        pair.features,
        pair.structures,
        pair.weights,
        pair.ratios,
        ALPHA,
        log=True,
        random_state=int(rng.integers(2**31)),
    )
    count = len(log.get("err_feature", []))
    # It returns plans from each source to the new nodes or the other way, depending on version.
    plans = [t if t.shape[0] == pair.size else t.T for t in log["T"]]
    return pair.objective(plans, (structure, features)), count


def warm_loop(pair: Pair, plans: Sequence[np.ndarray]) -> tuple[float, int]:
    """POT's conditional gradient from given plans, warm; ends when the objective settles."""
    plans = [_feasible(plan, w) for plan, w in zip(plans, pair.weights, strict=True)]
    best = new = pair.objective(plans)
    old, count = np.inf, 0
    while abs(new - old) > OUTER_RTOL * abs(new) + 1e-12 and count < OUTER_LIMIT:
        warm = [_feasible(plan, w) for plan, w in zip(plans, pair.weights, strict=True)]
        plans = pair.solve(pair.average(plans), warm)
        old, new, count = new, pair.objective(plans), count + 1
        best = min(best, new)
    return best, count


def _feasible(plan: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Marginals in double precision: POT checks that they agree to eight digits."""
    rows = np.full(plan.shape[0], 1.0 / plan.shape[0])
    plan = np.maximum(np.asarray(plan, np.float64), 0.0)
    plan = plan * np.minimum(1.0, rows / np.maximum(plan.sum(1), 1e-300))[:, None]
    plan = plan * np.minimum(1.0, columns / np.maximum(plan.sum(0), 1e-300))[None]
    short = np.maximum(columns - plan.sum(0), 0.0)
    return plan + np.outer(np.maximum(rows - plan.sum(1), 0.0), short / max(short.sum(), 1e-300))


def geodesic_starts(pairs: Sequence[Pair]) -> list[list[np.ndarray]]:
    """Plans of our geodesic start, one pair at a time on the grid of padded shapes."""

    def start(sources, lam, size, padded):
        ratios = jnp.stack([lam, 1.0 - lam])
        problem = problem_of(sources, ratios, barycenter.uniform(size, padded), ALPHA)
        plans = barycenter.align(problem, Strict().aligner())
        return descent.feasible(problem, starts.geodesic(problem, plans), 0)

    compiled = parallel.compiled(start, static_argnames="padded")
    out = []
    for pair in pairs:
        sizes = [g.num_nodes for g in pair.graphs]
        padded = grid_size(max(sizes))
        sources = Batch.stack(list(pair.graphs), padded)
        plans = compiled(sources, np.float32(pair.ratios[0]), pair.size, padded=padded)
        cropped = [np.asarray(plans)[i, : pair.size, :m] for i, m in enumerate(sizes)]
        out.append(cropped)
    return out
