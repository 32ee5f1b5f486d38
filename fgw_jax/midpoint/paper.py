"""The outer loop of the paper's Alg. 1 and Alg. 2, from a random start.

Every outer step solves the plans again with the given solver, from its own start, then averages
(lines 7 and 8); ``Relaxed(schedule=None, plan="last")`` makes it Alg. 2 to the letter.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fgw_jax.fgw.iteration import Solver
from fgw_jax.midpoint import starts
from fgw_jax.midpoint.objective import MidpointProblem

#: Change of the objective, relative and absolute, that ends the outer loop.
OUTER_RTOL, OUTER_ATOL = 5e-4, 1e-7
#: Most outer steps.
OUTER_LIMIT = 200


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class PaperState:
    """What the paper's outer loop carries.

    Attributes:
        structure: ``[n, n]`` structure of the midpoint.
        features: ``[n, d]`` its features, centred.
        plans: ``[S, n, m]`` plans of the last outer step.
        history: ``[OUTER_LIMIT + 1]`` objective at each outer step, zero where none was.
        count: outer steps done.
    """

    structure: Any
    features: Any
    plans: Any
    history: Any
    count: Any


def paper_start(problem: MidpointProblem, key: Any) -> PaperState:
    """Random structure, features zero, product plans (Alg. 1 and 2, line 1)."""
    structure, features = starts.random_graph(problem, key)
    structure = structure if problem.fixed_structure is None else problem.fixed_structure
    features = features if problem.fixed_features is None else problem.fixed_features
    plans = problem.new_weights[None, :, None] * problem.weights[:, None, :]
    history = jnp.zeros(OUTER_LIMIT + 1, problem.new_weights.dtype)
    return PaperState(structure, features, plans, history, jnp.zeros((), jnp.int32))


def paper_step(problem: MidpointProblem, solver: Solver, state: PaperState) -> PaperState:
    """One outer step: plans solved anew, from the solver's own start, then lines 7 and 8."""

    def solve_(source):
        return solver.solve(problem.transport(state.structure, state.features, source))

    outs = jax.vmap(solve_)(problem.sources)
    history = state.history.at[state.count].set(outs.value @ problem.ratios)
    structure, features = problem.update(outs.plan)
    if not solver.feasible and problem.fixed_features is None:
        features = features + problem.drift(outs.plan)
    return PaperState(structure, features, outs.plan, history, state.count + 1)


def paper_done(state: PaperState) -> jax.Array:
    """Whether the objective changed by less than its tolerance, or the limit is reached."""
    last, before = state.history[state.count - 1], state.history[state.count - 2]
    settled = jnp.abs(last - before) <= OUTER_ATOL + OUTER_RTOL * jnp.abs(last)
    return (state.count >= OUTER_LIMIT) | ((state.count >= 2) & settled)


def paper_loop(problem: MidpointProblem, solver: Solver, key: Any) -> PaperState:
    """Alg. 1 (a strict solver) or Alg. 2 (a relaxed one) until the objective settles."""
    return jax.lax.while_loop(
        lambda state: ~paper_done(state),
        lambda state: paper_step(problem, solver, state),
        paper_start(problem, key),
    )
