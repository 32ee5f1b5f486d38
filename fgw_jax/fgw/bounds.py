"""Certificates: how far a plan is from stationary, and a value from the optimum."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fgw_jax.fgw import linear_program
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

    # With the product of gradient and plan taken once, a round is two vector products.
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


def lower_bound(problem: Problem, max_pivots: int | None = None) -> jax.Array:
    r"""A number no plan's value is below: how far a local solution can be from the optimum.

    For a feasible plan, row i of it pairs node i with others by a coupling of the weights, so that
    the inner sum of Eq. 1 is at least a Wasserstein distance on the line, between row i of A1 under
    mu1 and row j of A2 under mu2:

    .. math::

        \mathrm{FGW} \ge \min_{\pi \in \Pi(\mu_1, \mu_2)} \langle (1-\alpha) D
            + \alpha\, \Omega, \pi \rangle, \qquad
        \Omega_{ij} = W_q^q\big((A_1(i, \cdot), \mu_1), (A_2(j, \cdot), \mu_2)\big).

    The linear program is solved to the end and its dual value returned, less what rounding may add.
    :math:`\Omega` is exact when the weights of each graph are equal, else it is bounded from below
    (see :func:`row_distances`). Costs that overflow leave the trivial bound, zero for feature costs
    that are not negative. Pure: works under ``jit`` and ``vmap``.

    Args:
        problem: the problem.
        max_pivots: ends the linear program early; the bound is lower then, and still true.

    Returns:
        The bound, a scalar.
    """
    cost = (1.0 - problem.alpha) * problem.cost + problem.alpha * row_distances(problem)
    bound = linear_program.lower_bound(cost, problem.weights1, problem.weights2, max_pivots)
    trivial = (1.0 - problem.alpha) * jnp.minimum(problem.cost.min(), 0.0)
    return jnp.where(bound > trivial, bound, trivial)


def row_distances(problem: Problem) -> jax.Array:
    r"""Omega ``[n, m]``: :math:`W_q^q` between row i of A1 and row j of A2, or slightly less.

    On the line :math:`W_q^q = \int_0^1 |Q_1 - Q_2|^q` for the quantile functions. Each is averaged
    over the cells of the grid {k / n} and {l / m}: for equal weights it is constant there, so
    nothing is lost; otherwise averaging can only lower the integral (Jensen). For q = 2 all pairs
    of rows are then one matrix product.
    """
    ends = jnp.sort(jnp.concatenate([_fractions(problem.weights1), _fractions(problem.weights2)]))
    lengths = jnp.diff(ends, prepend=0.0)
    first = _quantile_means(problem.structure1, problem.weights1, ends, lengths)
    second = _quantile_means(problem.structure2, problem.weights2, ends, lengths)
    if problem.q == 1:
        row = lambda a: jnp.abs(a[None, :] - second) @ lengths  # noqa: E731
        return jax.lax.map(row, first)
    # Centred, so that the expansion of the square keeps its digits.
    centre = problem.weights1 @ first
    first, second = first - centre, second - centre
    squares = (first**2 @ lengths)[:, None] + (second**2 @ lengths)[None, :]
    return jnp.maximum(squares - 2.0 * (first * lengths) @ second.T, 0.0)


def _fractions(weights: jax.Array) -> jax.Array:
    """1/n, 2/n, ..., 1 for the n nodes that carry weight, and 1 for all others."""
    count = jnp.maximum((weights > 0).sum(), 1)
    place = jnp.arange(1, weights.shape[0] + 1)
    return jnp.minimum(place.astype(weights.dtype) / count.astype(weights.dtype), 1.0)


def _quantile_means(
    structure: jax.Array, weights: jax.Array, ends: jax.Array, lengths: jax.Array
) -> jax.Array:
    """Means ``[n, K]`` of each row's quantile function over the cells that end at ``ends``."""
    carries = weights > 0
    spread = jnp.broadcast_to(weights / weights.sum(), structure.shape)
    keys = jnp.where(carries[None, :], structure, jnp.finfo(structure.dtype).max)
    keys, spread = jax.lax.sort((keys, spread), num_keys=1)
    values = jnp.where(spread > 0, keys, 0.0)  # weightless nodes come last
    reached = jnp.cumsum(spread, axis=1)
    summed = jnp.cumsum(values * spread, axis=1)

    last = structure.shape[1] - 1

    def integral(reached, summed, value):
        """Of the quantile function up to every end: whole steps less what is too much."""
        place = jnp.minimum(jnp.searchsorted(reached, ends), last)
        return summed[place] - (reached[place] - ends) * value[place]

    integrals = jax.vmap(integral)(reached, summed, values)
    means = jnp.diff(integrals, prepend=0.0, axis=1)
    # Cells that are empty up to rounding would only carry noise; leaving them out lowers the bound.
    real = lengths > 1e-6
    return jnp.where(real, means / jnp.where(real, lengths, 1.0), 0.0)
