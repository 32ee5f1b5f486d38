"""Certificates: how far a plan is from stationary, and a value from the optimum."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fgw_jax.fgw.problem import Problem


def frank_wolfe_gap(problem: Problem, plan: jax.Array, num_rounds: int = 20) -> jax.Array:
    r"""Upper bound of :math:`\max_{s \in \Pi} \langle \nabla f(\pi), \pi - s \rangle`, >= 0.

    Any :math:`f_i + g_j \le \nabla_{ij}` gives :math:`\min_s \langle \nabla, s \rangle \ge
    \langle f, \mu_1 \rangle + \langle g, \mu_2 \rangle`. The potentials are the averages of the
    reduced gradient over the plan's rows and columns, in turns, made feasible at the end.
    """
    gradient = problem.gradient(plan)
    tiny = jnp.finfo(plan.dtype).tiny
    rows = jnp.maximum(plan.sum(1), tiny)
    columns = jnp.maximum(plan.sum(0), tiny)

    # <gradient - g, plan> along a line, the product taken once: a round is two vector products.
    weighted = gradient * plan
    row_cost, column_cost = weighted.sum(1), weighted.sum(0)

    def average(_, g):
        f = (row_cost - plan @ g) / rows
        return (column_cost - f @ plan) / columns

    g = jax.lax.fori_loop(0, num_rounds, average, jnp.zeros_like(problem.weights2))
    return jnp.vdot(gradient, plan) - dual_value(problem, gradient, g)


def dual_value(problem: Problem, cost: jax.Array, g: jax.Array) -> jax.Array:
    """Lower bound of min <cost, s> over feasible s, from any column potentials ``g`` ``[m]``.

    Row potentials are the c-transform of ``g``, then columns are raised once; both take their
    minimum over nodes that carry weight.
    """
    f = jnp.where((problem.weights2 > 0)[None, :], cost - g[None, :], jnp.inf).min(1)
    g = jnp.where((problem.weights1 > 0)[:, None], cost - f[:, None], jnp.inf).min(0)
    f = jnp.where(problem.weights1 > 0, f, 0.0)
    g = jnp.where(problem.weights2 > 0, g, 0.0)
    return f @ problem.weights1 + g @ problem.weights2
