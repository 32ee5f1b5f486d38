"""FGW by other libraries, behind one signature: lists of graphs in, plans and seconds out.

POT and ott-jax are called as their documentation calls them, in their own precision. Values are
computed afterwards for all in the same way, Eq. 1 at the plan itself, in double precision.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from fgw_jax import Graph, distances


@dataclasses.dataclass(frozen=True)
class Solved:
    """Plans of a list of pairs, the seconds they took, and those of compilation."""

    plans: list[np.ndarray]
    seconds: float
    compile: float = 0.0


def value(graph1: Graph, graph2: Graph, plan: np.ndarray, alpha: float) -> float:
    """Eq. 1 at ``plan``, all sums over the plan itself."""
    a, b, plan = (np.asarray(x, np.float64) for x in (graph1.structure, graph2.structure, plan))
    rows, columns = plan.sum(1), plan.sum(0)
    squares = rows @ (a**2 @ rows) + columns @ (b**2 @ columns)
    quadratic = squares - 2 * ((a @ plan @ b) * plan).sum()
    return float(
        (1 - alpha) * (feature_cost(graph1, graph2) * plan).sum() * plan.sum() + alpha * quadratic
    )


def feature_cost(graph1: Graph, graph2: Graph) -> np.ndarray:
    """|x - y|^2, ``[n, m]``."""
    x, y = (np.asarray(g.features, np.float64) for g in (graph1, graph2))
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def marginal_error(graph1: Graph, graph2: Graph, plan: np.ndarray) -> float:
    """L1 error of the marginals, the larger of the two sides."""
    rows = np.abs(plan.sum(1) - graph1.weights).sum()
    return float(max(rows, np.abs(plan.sum(0) - graph2.weights).sum()))


def ours(solver: Any, repeats: int = 3, **options: Any) -> Callable[..., Solved]:
    """``distances`` with one of our solvers (or ott-jax, by ``Reference``): the best of repeats."""

    def solve(left: Sequence[Graph], right: Sequence[Graph], alpha: float) -> Solved:
        begin = time.perf_counter()
        out = distances(left, right, alpha, solver, **options)
        first = time.perf_counter() - begin
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            out = distances(left, right, alpha, solver, **options)
            seconds.append(time.perf_counter() - begin)
        # Compiled code stays mapped into the process, and the number of maps has a limit.
        jax.clear_caches()
        assert out.plans is not None  # noqa: S101 - kept unless told otherwise
        return Solved(out.plans, min(seconds), max(0.0, first - min(seconds)))

    return solve


def pot_cg(left: Sequence[Graph], right: Sequence[Graph], alpha: float) -> Solved:
    """POT's conditional gradient, tolerance 1e-5."""
    import ot

    def solve(m, a, b, p, q):
        return ot.gromov.fused_gromov_wasserstein(
            m, a, b, p, q, alpha=alpha, tol_rel=1e-5, tol_abs=1e-5
        )

    return _one_by_one(solve, left, right)


def pot_bapg(left: Sequence[Graph], right: Sequence[Graph], alpha: float) -> Solved:
    """POT's Bregman alternated projected gradient, epsilon = 1, tolerance 1e-5."""
    import ot

    def solve(m, a, b, p, q):
        return ot.gromov.BAPG_fused_gromov_wasserstein(
            m, a, b, p, q, epsilon=1.0, alpha=alpha, tol=1e-5
        )

    return _one_by_one(solve, left, right)


def pot_batched(left: Sequence[Graph], right: Sequence[Graph], alpha: float) -> Solved:
    """POT's batched proximal solver, for pairs of one size; its defaults."""
    from ot.batch import solve_gromov_batch

    begin = time.perf_counter()
    a, b = (np.stack([np.asarray(g.structure, np.float64) for g in side]) for side in (left, right))
    cost = np.stack([feature_cost(g, h) for g, h in zip(left, right, strict=True)])
    plans = solve_gromov_batch(a, b, M=cost, alpha=alpha, symmetric=True, grad="detach").plan
    return Solved(list(plans), time.perf_counter() - begin)


def _one_by_one(
    solve: Callable[..., np.ndarray], left: Sequence[Graph], right: Sequence[Graph]
) -> Solved:
    """Solve pair by pair, with arrays converted to double precision before.

    One thread of BLAS: on matrices of this size POT is a third slower with two.
    """
    from threadpoolctl import threadpool_limits

    fields = ("structure", "weights")
    arrays = [
        [np.asarray(getattr(g, field), np.float64) for field in fields for g in pair]
        for pair in zip(left, right, strict=True)
    ]
    plans = []
    with threadpool_limits(1):
        begin = time.perf_counter()
        for g, h, given in zip(left, right, arrays, strict=True):
            plans.append(solve(feature_cost(g, h), *given))
        return Solved(plans, time.perf_counter() - begin)
