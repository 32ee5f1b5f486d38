"""Distances of many pairs as a job of the batching engine (:mod:`fgw_jax.runtime.batching`).

A solver with a fixed number of steps runs chunk by chunk; lanes of one that stops by itself refill.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from fgw_jax.fgw import iteration
from fgw_jax.fgw.iteration import Output, Solver
from fgw_jax.fgw.problem import from_graphs
from fgw_jax.graphs import Graph
from fgw_jax.runtime import batching, parallel


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs of graphs by position in a pool, and what they are solved with.

    Attributes:
        pool: distinct graphs.
        first: ``[N]`` position of the first graph of each pair.
        second: ``[N]`` position of the second.
        alpha: structure against features.
        solver: any solver.
        q: exponent of Eq. 1.
        feature_cost: name of the feature cost.
        plans: whether plans are wanted.
    """

    pool: Sequence[Graph]
    first: np.ndarray
    second: np.ndarray
    alpha: Any
    solver: Solver
    q: int
    feature_cost: str
    plans: bool

    def batches(self, items: np.ndarray, shape: tuple[int, int]) -> tuple[Any, Any]:
        """Both sides of the pairs ``items``, padded and stacked."""
        return (
            batching.stack(self.pool, self.first[items], shape[0]),
            batching.stack(self.pool, self.second[items], shape[1]),
        )


def solve(
    pairs: Pairs, groups: Sequence[batching.Group]
) -> Iterator[list[tuple[np.ndarray, Output]]]:
    """Solve the groups; yields lists of positions and their outputs (numpy) as they are done."""
    solver = pairs.solver
    options = {"q": pairs.q, "feature_cost": pairs.feature_cost}

    def at_once(items, shape):
        batches = pairs.batches(items, shape)
        return solve_batch(solver, *batches, pairs.alpha, None, None, **options, plans=pairs.plans)

    def enter(items, shape):
        return _enter(solver, *pairs.batches(items, shape), pairs.alpha, **options)

    if not solver.refills:
        return batching.run(batching.Job(at_once, _found), groups)
    advance = functools.partial(_advance, solver)
    leave = functools.partial(_leave, solver, plans=pairs.plans)
    return batching.run(batching.Job(enter, _found, advance, leave), groups)


def _found(items: np.ndarray, out: Output) -> list[tuple[np.ndarray, Output]]:
    return [(items, out)]


@functools.partial(
    parallel.compiled,
    shared=("solver", "alpha"),
    static_argnames=("q", "feature_cost", "plans"),
    keep=True,
)
def solve_batch(solver, batch1, batch2, alpha, init, cost, *, q, feature_cost, plans) -> Output:
    """Solve stacked pairs at once; ``init`` and ``cost`` are stacked ``[B, n, m]`` or ``None``."""

    def one(graph1, graph2, init, cost):
        problem = from_graphs(graph1, graph2, alpha, q, feature_cost if cost is None else cost)
        return _trim(solver.solve(problem, init), plans)

    return jax.vmap(one)(batch1, batch2, init, cost)


@functools.partial(
    parallel.compiled, shared=("solver", "alpha"), static_argnames=("q", "feature_cost")
)
def _enter(solver, batch1, batch2, alpha, *, q, feature_cost):
    build = lambda a, b: from_graphs(a, b, alpha, q, feature_cost)  # noqa: E731
    problem = jax.vmap(build)(batch1, batch2)
    return problem, jax.vmap(lambda p: solver.init(p, None))(problem)


@functools.partial(parallel.compiled, shared=("solver", "leaving"))
def _advance(solver, problem, start, state, fresh, empty, leaving):
    """Blocks of steps until enough lanes are done."""
    return batching.until_some_leave(
        lambda problem, state: iteration.advance(solver, problem, state),
        lambda state: iteration.finished(solver, state),
    )(problem, start, state, fresh, empty, leaving)


@functools.partial(parallel.compiled, shared=("solver",), static_argnames="plans")
def _leave(solver, problem, state, *, plans):
    return _trim(jax.vmap(solver.output)(problem, state), plans)


def _trim(out: Output, plans: bool) -> Output:
    return out if plans else dataclasses.replace(out, plan=None)
