r"""The transport linear program on vertices: greedy basis, network simplex, dual bound.

.. math::

    \arg\min_{s \in \Pi(\mu_1, \mu_2)} \langle C, s \rangle

A basis is a spanning tree of the bipartite graph of rows and columns. It is held as the dense,
signed path matrix of the tree (the explicit inverse of the basis), so that a pivot is a handful of
vector operations and one rank-one update: nothing walks along pointers, and a batch of programs
runs in step under vmap, on any backend. Flows are integers, hence exact.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

#: Rounds of the greedy rule; a few rows that are still open then are placed in order.
NUM_ROUNDS = 8
#: Most units of mass that a plan is cut into; int32 holds every sum of flows.
MAX_UNITS = 2**30


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Basis:
    """A feasible spanning tree of the transport polytope, for ``n`` rows and ``m`` columns.

    The tree has one arc (a cell of the plan) for each of the ``n + m`` nodes but its root, a
    column; the slots of the root and of weightless nodes stay empty.

    Attributes:
        paths: ``[n + m, n + m]`` int8; entry (v, e) is 1 or -1 when arc e lies on the way from
            node v to the root: 1 when it is passed from its row to its column, else -1.
        row: ``[n + m]`` row of each arc.
        column: ``[n + m]`` column of each arc.
        flow: ``[n + m]`` int32 units of mass on each arc, perturbed so that none is zero.
        alive: ``[n + m]`` whether a node carries weight.
        units: total units of mass, before the perturbation.
    """

    paths: Any
    row: Any
    column: Any
    flow: Any
    alive: Any
    units: Any


def greedy_basis(scores: jax.Array, weights1: jax.Array, weights2: jax.Array) -> Basis:
    """A vertex near the plan whose logarithm (up to order) is ``scores`` ``[n, m]``.

    In rounds: every open row turns to its best open column, and every column serves the rows that
    came in order of their scores. A row that is served in full becomes a child of that column in
    the tree; the row that gets the last of a column becomes its parent, and goes on to the next.
    """
    n, m = scores.shape
    supply, demand, units = _perturbed_units(weights1, weights2)
    alive = jnp.concatenate([supply, demand]) > 0
    nodes = jnp.arange(n + m, dtype=jnp.int32)
    columns, lowest = nodes[:m], jnp.finfo(scores.dtype).min
    scores = jnp.maximum(scores, 0.5 * lowest)

    def serve(state):
        supply, demand, parent, flow = state
        choice, score = _best(jnp.where(demand[None, :] > 0, scores, lowest), axis=1)
        better = (score[:, None] > score[None, :]) | (
            (score[:, None] == score[None, :]) & (nodes[:n, None] < nodes[None, :n])
        )
        ahead = better & (choice[:, None] == choice[None, :])
        left = demand[choice] - jnp.where(ahead, supply[:, None], 0).sum(0, dtype=jnp.int32)
        sent = jnp.clip(left, 0, supply)
        row_done = (supply > 0) & (sent == supply)
        # The row that takes the last of a column and wants more; only the very last cell of all
        # exhausts both its nodes, and its column is the root.
        last = (sent == left) & (sent < supply) & (sent > 0)
        served = (choice[:, None] == columns[None, :]) & (sent > 0)[:, None]
        taken = jnp.where(served, sent[:, None], 0).sum(0, dtype=jnp.int32)
        is_last = served & last[:, None]
        final_row = jnp.where(is_last, nodes[:n, None], -1).max(0)
        done = jnp.concatenate([row_done, final_row >= 0])
        parent = jnp.where(done, jnp.concatenate([n + choice, final_row]), parent)
        flow = jnp.where(done, jnp.concatenate([sent, sent[final_row]]), flow)
        return supply - sent, demand - taken, parent, flow

    start = (supply, demand, nodes, jnp.zeros(n + m, jnp.int32))
    start = jax.lax.fori_loop(0, NUM_ROUNDS, lambda _, s: serve(s), start)
    parent, flow = _staircase(*start)
    is_row = nodes < n
    row = jnp.where(is_row, nodes, jnp.minimum(parent, n - 1))
    column = jnp.where(is_row, jnp.maximum(parent - n, 0), nodes - n)
    return Basis(_paths(parent, n), row, column, flow, alive, units)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Prices:
    """Dual side of a basis for one cost, in integer steps of the cost.

    Attributes:
        cost: ``[n]`` cost of the best cell of each row.
        column: ``[n]`` column of that cell: the one of least reduced cost.
        potential: ``[n + m]``; row minus column potential of an arc is its cost.
        least: least reduced cost of all cells; the basis is optimal when it is not negative.
        step: size of one integer step.
    """

    cost: Any
    column: Any
    potential: Any
    least: Any
    step: Any

    def dual(self, weights1: jax.Array, weights2: jax.Array) -> jax.Array:
        """Lower bound of the program: row potentials lowered by ``least`` are feasible.

        One step less covers the rounding of the costs.
        """
        n = weights1.shape[0]
        rows = self.potential[:n] + jnp.minimum(self.least, 0) - 1
        return self.step * (weights1 @ rows - weights2 @ self.potential[n:])


def price(basis: Basis, cost: jax.Array) -> Prices:
    """Potentials of ``basis`` for ``cost`` ``[n, m]``, and the best cell of each row.

    Costs are rounded to integers: sums and minima of integers are exact whatever their order, so
    that the compiler may vectorise them, and optimality needs no tolerance.
    """
    n, m = cost.shape
    top = jnp.maximum(jnp.abs(cost).max(), jnp.finfo(cost.dtype).tiny)
    # A potential is a sum of fewer than n + m costs; a reduced cost adds a few more.
    step = top / 2 ** (29 - (n + m).bit_length())
    whole = jnp.round(cost / step).astype(jnp.int32)
    potential = (basis.paths * whole[basis.row, basis.column]).sum(1, dtype=jnp.int32)
    scores = jnp.where(basis.alive[None, n:], -whole - potential[None, n:], -MAX_UNITS)
    column, best = _best(scores, axis=1)
    least = jnp.where(basis.alive[:n], -best - potential[:n], 0).min()
    return Prices(-best - potential[n:][column], column, potential, least, step)


def pivot(basis: Basis, prices: Prices, num_pivots: int) -> Basis:
    """At most ``num_pivots`` simplex pivots from a priced basis.

    The entering cells are the best ones of the rows when they were priced; among these each pivot
    takes the one of least reduced cost at its time.
    """
    n = prices.column.shape[0]
    slots = jnp.arange(basis.row.shape[0], dtype=jnp.int32)
    column = prices.column

    def enter(_, state):
        basis, potential = state
        gains = potential[:n] - potential[n:][column] - prices.cost
        row, gain = _best(jnp.where(basis.alive[:n], gains, 0), axis=0)
        change = jnp.where(gain > 0, basis.paths[n + column[row]] - basis.paths[row], 0)
        leaving, room = _best(jnp.where(change < 0, -basis.flow, -2 * MAX_UNITS + 1), axis=0)
        is_leaving = (slots == leaving) & (gain > 0)
        flow = jnp.where(is_leaving, -room, basis.flow - room * change.astype(jnp.int32))
        cut = basis.paths[:, leaving]
        turn = jnp.where(is_leaving, 0, change)
        basis = Basis(
            basis.paths + cut[:, None] * turn[None, :],
            jnp.where(is_leaving, row, basis.row),
            jnp.where(is_leaving, column[row], basis.column),
            flow,
            basis.alive,
            basis.units,
        )
        return basis, potential - jnp.maximum(gain, 0) * cut

    return jax.lax.fori_loop(0, num_pivots, enter, (basis, prices.potential))[0]


def vertex(basis: Basis, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """The plan ``[n, m]`` of a basis: its marginals are the weights up to one unit of mass."""
    step = _perturbation_step(shape[0])
    flow = ((basis.flow + step // 2) // step).astype(dtype) / (basis.units // step).astype(dtype)
    return jnp.zeros(shape, dtype).at[basis.row, basis.column].add(flow)


def optimise(basis: Basis, cost: jax.Array, max_pivots: int | None = None) -> tuple[Basis, Prices]:
    """Pivots on ``cost`` ``[n, m]`` until no cell has a negative reduced cost.

    ``max_pivots`` (by default 20 a node) ends the search early.
    """
    block = max(4, sum(cost.shape) // 16)
    limit = 20 * sum(cost.shape) if max_pivots is None else max_pivots

    def improve(state):
        basis, prices, count = state
        basis = pivot(basis, prices, block)
        return basis, price(basis, cost), count + block

    return jax.lax.while_loop(
        lambda state: (state[1].least < 0) & (state[2] < limit),
        improve,
        (basis, price(basis, cost), 0),
    )[:2]


def minimise(
    cost: jax.Array, weights1: jax.Array, weights2: jax.Array, max_pivots: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """The argmin of <cost, s> over plans: an optimal vertex ``[n, m]``, and a lower bound.

    The bound is the dual value, the minimum up to rounding; with ``max_pivots`` the search may end
    early, and the bound stays true.
    """
    basis = greedy_basis(-cost, weights1, weights2)
    basis, prices = optimise(basis, cost, max_pivots)
    return vertex(basis, cost.shape, cost.dtype), prices.dual(weights1, weights2)


def _staircase(supply, demand, parent, flow):
    """Fill what is still open by the north-west corner rule, in order of position."""
    n = supply.shape[0]
    row_end = jnp.cumsum(supply, dtype=jnp.int32)
    column_end = jnp.cumsum(demand, dtype=jnp.int32)
    column = (column_end[None, :] < row_end[:, None]).sum(1, dtype=jnp.int32)
    row = (row_end[:, None] <= column_end[None, :]).sum(0, dtype=jnp.int32)
    row_start, column_start = row_end - supply, column_end - demand
    in_column = row_end - jnp.maximum(row_start, column_start[column])
    in_row = column_end - jnp.maximum(column_start, row_start[jnp.minimum(row, n - 1)])
    # The column that ends with the last row is the root.
    done = jnp.concatenate([supply > 0, (demand > 0) & (row < n)])
    parent = jnp.where(done, jnp.concatenate([n + column, row]), parent)
    return parent, jnp.where(done, jnp.concatenate([in_column, in_row]), flow)


def _best(scores: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """Place and size of the largest entry along ``axis``, by reductions that XLA vectorises."""
    places = jax.lax.broadcasted_iota(jnp.int32, scores.shape, axis)
    top = scores.max(axis, keepdims=True)
    place = jnp.where(scores == top, places, scores.shape[axis]).min(axis)
    return jnp.minimum(place, scores.shape[axis] - 1), jnp.squeeze(top, axis)


def _perturbation_step(n: int) -> int:
    """Units per quantum of mass: more than twice the number of rows."""
    return 1 << (2 * n + 1).bit_length()


def _perturbed_units(weights1: jax.Array, weights2: jax.Array):
    """Weights in integer units, both sides of one total, perturbed against degenerate vertices.

    Quanta of mass are a multiple of ``step`` units; every row gets one unit more and one column
    all of these. No proper subset of rows and columns balances then, so that every flow of every
    basis is positive and no pivot is idle. Uniform weights are exact: the number of quanta is a
    multiple of both node counts.
    """
    step = _perturbation_step(weights1.shape[0])
    most = MAX_UNITS // step
    count1, count2 = (weights1 > 0).sum(), (weights2 > 0).sum()
    common = jnp.maximum(count1 * count2, 1)
    quanta = jnp.where(common <= most, most // common * common, most).astype(jnp.int32)
    first, second = _quantise(weights1, quanta), _quantise(weights2, quanta)
    alive = first > 0
    extra = jnp.where(_is_largest(second), alive.sum(dtype=jnp.int32), 0)
    return first * step + alive, second * step + extra, quanta * step


def _quantise(weights: jax.Array, quanta: jax.Array) -> jax.Array:
    """Integers ``[n]`` in proportion to ``weights``, of total ``quanta``.

    The heaviest takes what rounding left; of many nodes that may be more than it has, and then all
    that are not light take a part.
    """
    share = jnp.round(weights * (quanta.astype(weights.dtype) / weights.sum())).astype(jnp.int32)
    rest = quanta - share.sum(dtype=jnp.int32)
    largest = _is_largest(share)
    heavy = (2 * share >= quanta // jnp.maximum((share > 0).sum(), 1)) | largest
    each, more = jnp.divmod(rest, heavy.sum(dtype=jnp.int32))
    spread = jnp.where(heavy, each + (jnp.cumsum(heavy) <= more), 0)
    bearable = 2 * jnp.abs(rest) <= share.max()
    return share + jnp.where(bearable, jnp.where(largest, rest, 0), spread)


def _is_largest(x: jax.Array) -> jax.Array:
    """Marks the first of the largest entries."""
    return jnp.arange(x.shape[0]) == _best(x, 0)[0]


def _paths(parent: jax.Array, n: int) -> jax.Array:
    """Signed paths to the root ``[n + m, n + m]`` of the tree, by pointer jumping."""
    nodes = jnp.arange(parent.shape[0])
    sign = jnp.where(parent == nodes, 0, jnp.where(nodes < n, 1, -1)).astype(jnp.int8)
    paths = jnp.where(nodes[:, None] == nodes[None, :], sign[None, :], 0).astype(jnp.int8)

    def jump(state):
        paths, ancestor = state
        return paths + paths[ancestor], ancestor[ancestor]

    moving = lambda s: (s[1] != s[1][s[1]]).any()  # noqa: E731
    return jax.lax.while_loop(moving, jump, (paths, parent))[0]
