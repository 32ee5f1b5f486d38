r"""The transport linear program on vertices: network simplex, gap and dual bound.

.. math::

    \arg\min_{s \in \Pi(\mu_1, \mu_2)} \langle C, s \rangle

The basis and its path matrix are those of :mod:`fgw_jax.fgw.basis`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fgw_jax.fgw.basis import Basis, best_place, greedy_basis, largest, perturbation_step, vertex

#: Steps of reduced cost that rounding may make up: cells that close are ties.
SLACK = 64


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Prices:
    """Dual side of a basis for one cost, in integer steps of the reduced cost.

    Attributes:
        reduced: ``[n, m]`` cost less the potentials that the basis carries, zero on weightless
            cells.
        cost: ``[n]`` reduced cost of the best cell of each row, in steps.
        column: ``[n]`` column of that cell.
        potential: ``[n + m]`` integer potentials for ``reduced``; row minus column potential of an
            arc is its cost.
        least: least reduced cost of the cells of ``column``; not below ``-SLACK`` when the basis is
            optimal for costs rounded to ``step``.
        step: size of one integer step.
    """

    reduced: Any
    cost: Any
    column: Any
    potential: Any
    least: Any
    step: Any


def reduce_cost(cost: jax.Array, potential: jax.Array) -> jax.Array:
    """``cost - (u_i - v_j)`` ``[n, m]`` for potentials (u, v) ``[2, n + m]``, no digit canceled.

    Costs may differ by more orders of magnitude than a float holds digits, between two clusters
    and within them, say. Potentials then are large and their differences small.
    """
    n = cost.shape[0]
    total, error = _two_sum(potential[0, :n, None], -potential[0, None, n:])
    return (cost - total) - (error + (potential[1, :n, None] - potential[1, None, n:]))


def _two_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``a + b`` and its rounding error, exactly (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def price(basis: Basis, cost: jax.Array) -> Prices:
    """Potentials of ``basis`` for ``cost`` ``[n, m]``, and the best cell of each row.

    The cost is first reduced by the potentials that the basis carries, which leaves little on its
    arcs, and then rounded to integers: sums and minima of integers are exact whatever their order,
    so that the compiler may vectorize them. The step follows from what is left on the arcs; cells
    that are too expensive for it to hold cannot enter. As pivots absorb their potentials, steps
    shrink to a few rounding errors of the mean cost. Cells within :data:`SLACK` steps of the best
    are ties: the first of them is taken, so that rounding (as on another padded shape) changes
    nothing.
    """
    n = cost.shape[0]
    alive = basis.alive[:n, None] & basis.alive[None, n:]
    reduced = jnp.where(alive, reduce_cost(cost, basis.potential), 0.0)
    on_arc = jnp.where(basis.flow > 0, reduced[basis.row, basis.column], 0.0)
    info = jnp.finfo(cost.dtype)
    # A potential is a sum of fewer costs than there are nodes: none exceeds ``bound``.
    whole_type, bound = basis.flow.dtype, largest(basis.flow.dtype)
    limit = bound // _power_of_two(basis.alive.sum(dtype=whole_type))
    paid = jnp.abs(jnp.where(basis.flow > 0, cost[basis.row, basis.column], 0.0))
    share = basis.flow // perturbation_step(n)  # without the perturbation, which weighs nothing
    mean = paid @ share.astype(cost.dtype) / jnp.maximum(share.sum().astype(cost.dtype), 1.0)
    step = jnp.maximum(4.0 * info.eps * mean, jnp.abs(on_arc).max() / limit.astype(cost.dtype))
    step = jnp.maximum(step, info.tiny / info.eps)
    top = limit.astype(cost.dtype)
    scaled = jnp.round(jnp.clip(reduced / step, -top, 2.0 * top))
    whole = jnp.where(scaled > top, 4 * bound, scaled.astype(whole_type))
    potential = (basis.paths.astype(whole_type) * whole[basis.row, basis.column]).sum(1)
    scores = jnp.where(basis.alive[None, n:], -whole - potential[None, n:], -6 * bound)
    column, _ = best_place(scores, axis=1, slack=SLACK)
    best = jnp.take_along_axis(scores, column[:, None], axis=1)[:, 0]
    least = jnp.where(basis.alive[:n], -best - potential[:n], 0).min()
    return Prices(reduced, -best - potential[n:][column], column, potential, least, step)


def potentials(basis: Basis, prices: Prices) -> jax.Array:
    """Potentials ``[n + m]`` of ``basis``: row minus column potential of an arc is its cost."""
    return _absorb(basis.potential, prices.step, prices.potential).sum(0)


def _absorb(potential: jax.Array, step: jax.Array, whole: jax.Array) -> jax.Array:
    """``potential`` ``[2, n + m]`` plus ``whole`` steps, as a float and what it rounds off."""
    return jnp.stack(_two_sum(potential[0], potential[1] + step * whole.astype(step.dtype)))


def gap(basis: Basis, prices: Prices, plan: jax.Array, weights1: jax.Array) -> jax.Array:
    r"""Upper bound of :math:`\langle C, \pi \rangle - \min_s \langle C, s \rangle`, at least 0.

    Over plans s with the marginals of ``plan`` ``[n, m]``, potentials cancel: what is left are
    reduced costs R, and no s pays less for them than the least of every row.
    """
    n = weights1.shape[0]
    whole = prices.potential
    turn = (whole[:n, None] - whole[None, n:]).astype(plan.dtype)
    reduced = prices.reduced - prices.step * turn
    alive = basis.alive[:n, None] & basis.alive[None, n:]
    least = jnp.where(alive, reduced, jnp.inf).min(1)
    least = jnp.where(basis.alive[:n], least, 0.0)
    # Zero times an infinite reduced cost would be NaN.
    paid = jnp.where(plan > 0, reduced - least[:, None], 0.0)
    return jnp.maximum(jnp.vdot(paid, plan), 0.0)


def pivot(basis: Basis, prices: Prices, num_pivots: int, count: jax.Array | None = None) -> Basis:
    """At most ``num_pivots`` simplex pivots from a priced basis, or ``count`` if that is less.

    The entering cells are the best ones of the rows when they were priced; among these each pivot
    takes the one of least reduced cost at its time.
    """
    n = prices.column.shape[0]
    slots = jnp.arange(basis.row.shape[0], dtype=jnp.int32)
    column = prices.column
    most = 2 * largest(basis.flow.dtype, mass=True)

    def enter(number, state):
        basis, potential = state
        gains = potential[:n] - potential[n:][column] - prices.cost
        gains = jnp.where(basis.alive[:n], gains, 0)
        row, _ = best_place(gains, axis=0, slack=SLACK)
        gain = jnp.where(gains[row] > SLACK, gains[row], 0)
        if count is not None:
            gain = jnp.where(number < count, gain, 0)
        change = jnp.where(gain > 0, basis.paths[n + column[row]] - basis.paths[row], 0)
        leaving, room = best_place(jnp.where(change < 0, -basis.flow, 1 - most), axis=0)
        is_leaving = (slots == leaving) & (gain > 0)
        flow = jnp.where(is_leaving, -room, basis.flow - room * change.astype(room.dtype))
        cut = basis.paths[:, leaving]
        turn = jnp.where(is_leaving, 0, change)
        basis = dataclasses.replace(
            basis,
            paths=basis.paths + cut[:, None] * turn[None, :],
            row=jnp.where(is_leaving, row, basis.row),
            column=jnp.where(is_leaving, column[row], basis.column),
            flow=flow,
        )
        return basis, potential - jnp.maximum(gain, 0) * cut.astype(gain.dtype)

    basis, whole = jax.lax.fori_loop(0, num_pivots, enter, (basis, prices.potential))
    return dataclasses.replace(basis, potential=_absorb(basis.potential, prices.step, whole))


def optimise(basis: Basis, cost: jax.Array, max_pivots: int | None = None) -> tuple[Basis, Prices]:
    """Pivots on ``cost`` ``[n, m]`` until no cell has a negative reduced cost.

    ``max_pivots`` (by default 20 per node) ends the search early.
    """
    block = max(4, sum(cost.shape) // 16)
    limit = 20 * sum(cost.shape) if max_pivots is None else max_pivots
    per_block = jnp.maximum(4, basis.alive.sum() // 16)

    def improve(state):
        basis, prices, _, count = state
        last, pivoted = prices.step, prices.least < -SLACK
        basis = pivot(basis, prices, block, per_block)
        return basis, price(basis, cost), last, count + jnp.where(pivoted, per_block, 1)

    def unfinished(state):
        _, prices, last, count = state
        # At an optimum for coarse steps, smaller steps may still tell cells apart.
        return ((prices.least < -SLACK) | (prices.step < 0.5 * last)) & (count < limit)

    prices = price(basis, cost)
    start = (basis, prices, jnp.full_like(prices.step, jnp.inf), jnp.zeros_like(per_block))
    return jax.lax.while_loop(unfinished, improve, start)[:2]


def lower_bound(
    cost: jax.Array, weights1: jax.Array, weights2: jax.Array, max_pivots: int | None = None
) -> jax.Array:
    """A number that <cost, s> of no plan s is below: the minimum up to rounding.

    The cost of a vertex less its duality gap, corrected for what its marginals miss, and less the
    rounding error of all this. With ``max_pivots`` the search may end early; the bound stays true.
    """
    n = weights1.shape[0]
    basis, prices = optimise(greedy_basis(-cost, weights1, weights2), cost, max_pivots)
    plan = vertex(basis, cost.shape, cost.dtype)
    potential = potentials(basis, prices)
    missing = (weights1 - plan.sum(1)) @ potential[:n] - (weights2 - plan.sum(0)) @ potential[n:]
    size = jnp.abs(potential[:n]) @ weights1 + jnp.abs(potential[n:]) @ weights2
    rounding = 16.0 * jnp.finfo(cost.dtype).eps * (size + jnp.vdot(jnp.abs(cost), plan))
    return jnp.vdot(cost, plan) + missing - gap(basis, prices, plan, weights1) - rounding


def _power_of_two(count: jax.Array) -> jax.Array:
    """The smallest power of two that is not below ``count``."""
    bits = 8 * count.dtype.itemsize - jax.lax.clz(jnp.maximum(count - 1, 0))
    return jnp.left_shift(jnp.ones_like(count), bits)
