r"""Polish: from any plan to a sharp one that is no worse.

A plan of mirror descent lies near a vertex of the transport polytope, and misses its marginals
there by what rounding moved. :func:`polish` goes to the vertex, descends until no direction goes
down, and then tries exchanges: two cells (i, j), (k, l) of the plan hand over what the smaller of
them holds, delta, to (i, l) and (k, j). The objective changes by

.. math::

    \delta\, (G_{il} + G_{kj} - G_{ij} - G_{kl})
        - 2 \alpha\, \delta^2\, (A_1(i,i) + A_1(k,k) - 2 A_1(i,k))
        \,(A_2(j,j) + A_2(l,l) - 2 A_2(j,l))

(symmetric structures, G the gradient): negative for some pairs even where G alone promises nothing,
because the objective is concave along them. On PROTEINS pairs exchanges lower the mean by another
0.2 %, and take about as long as all the rest; a second start gains more in that time.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from fgw_jax.fgw import conditional_gradient, projections
from fgw_jax.fgw.conditional_gradient import State
from fgw_jax.fgw.problem import Problem


def polish(
    problem: Problem,
    plan: jax.Array,
    *,
    max_steps: int = 32,
    max_exchanges: int = 0,
    rtol: float = 1e-4,
) -> jax.Array:
    """A plan ``[n, m]`` with exact marginals, of lower value than ``plan`` or equal to it.

    Pure, for jit and vmap, exact under padding. ``plan`` should be feasible already: it is what
    comes back when nothing better is found.

    Args:
        problem: the problem, q = 1 or 2.
        plan: ``[n, m]`` where to start.
        max_steps: most steps of the conditional gradient (static).
        max_exchanges: most exchanges afterwards (static; q = 2 only).
        rtol: relative decrease over four steps below which the descent ends.
    """
    state = conditional_gradient.init(problem, projections.safe_log(plan))
    state = descend(problem, state, max_steps, rtol)
    if max_exchanges and problem.q == 2:
        state = _exchanges(problem, state, max_exchanges, rtol)
    polished, _ = conditional_gradient.finish(problem, state)
    return jnp.where(problem.objective(polished) < problem.objective(plan), polished, plan)


def descend(problem: Problem, state: State, max_steps: int, rtol: float) -> State:
    """Blocks of four steps until the objective settles or ``max_steps`` are done."""
    first = state.count

    def more(state):
        unsettled = state.change > rtol * jnp.abs(state.value)
        return unsettled & (state.count - first < max_steps)

    def block(state):
        step = lambda _, s: conditional_gradient.step(problem, s)  # noqa: E731
        return conditional_gradient.measure(jax.lax.fori_loop(0, 4, step, state))

    state = dataclasses.replace(state, change=jnp.full_like(state.value, jnp.inf))
    return jax.lax.while_loop(more, block, state)


def best_exchange(problem: Problem, state: State) -> tuple[jax.Array, jax.Array]:
    """The plan after the best exchange of two cells of the basis, and the change of the objective.

    A change that is not negative means that no exchange improves the plan.
    """
    row, column = state.basis.row, state.basis.column
    amount = state.plan[row, column]
    handed = jnp.minimum(amount[:, None], amount[None, :])
    own = state.gradient[row, column]
    cross = state.gradient[row][:, column]
    slope = cross + cross.T - own[:, None] - own[None, :]
    curvature = _spread(problem.structure1, row) * _spread(problem.structure2, column)
    change = handed * slope - 2.0 * problem.alpha * handed**2 * curvature
    place = jnp.argmin(change)
    first, second = place // change.shape[1], place % change.shape[1]
    delta = handed[first, second]
    i, j, k, l = row[first], column[first], row[second], column[second]  # noqa: E741
    plan = state.plan.at[i, j].add(-delta).at[k, l].add(-delta)
    return plan.at[i, l].add(delta).at[k, j].add(delta), change[first, second]


def _exchanges(problem: Problem, state: State, max_exchanges: int, rtol: float) -> State:
    """Exchange, descend again, and so on until no exchange improves the plan."""

    def body(carry):
        state, count, _ = carry
        plan, change = best_exchange(problem, state)
        improves = change < -rtol * jnp.abs(state.current)
        new = conditional_gradient.init(problem, projections.safe_log(plan), plan)
        new = dataclasses.replace(new, count=state.count)
        new = descend(problem, new, 8, rtol)
        state = jax.tree.map(lambda a, b: jnp.where(improves, a, b), new, state)
        return state, count + 1, improves

    start = (state, 0, jnp.asarray(True))
    return jax.lax.while_loop(lambda c: c[2] & (c[1] < max_exchanges), body, start)[0]


def _spread(structure: jax.Array, nodes: jax.Array) -> jax.Array:
    """A(i, i) + A(k, k) - 2 A(i, k) for all pairs of ``nodes`` ``[K]``, ``[K, K]``."""
    among = structure[nodes][:, nodes]
    own = structure.diagonal()[nodes]
    return own[:, None] + own[None, :] - among - among.T
