r"""Spanning trees of the transport polytope: what a vertex is to the network simplex.

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
        flow: ``[n + m]`` integer units of mass on each arc, perturbed so that none is zero;
            int64 in double precision, int32 otherwise.
        alive: ``[n + m]`` whether a node carries weight.
        units: total units of mass, before the perturbation.
        potential: ``[2, n + m]`` potentials when the basis was last pivoted, which the next pricing
            takes off the costs: floats, and what rounding took off them.
    """

    paths: Any
    row: Any
    column: Any
    flow: Any
    alive: Any
    units: Any
    potential: Any


def greedy_basis(scores: jax.Array, weights1: jax.Array, weights2: jax.Array) -> Basis:
    """A vertex near the plan whose logarithm (up to order) is ``scores`` ``[n, m]``.

    In rounds: every open row turns to its best open column, and every column serves the rows that
    came in order of their scores. A row that is served in full becomes a child of that column in
    the tree; the row that gets the last of a column becomes its parent, and goes on to the next.
    """
    n, m = scores.shape
    supply, demand, units = perturbed_units(weights1, weights2)
    alive = jnp.concatenate([supply, demand]) > 0
    nodes = jnp.arange(n + m, dtype=jnp.int32)
    columns, lowest = nodes[:m], jnp.finfo(scores.dtype).min
    scores = jnp.maximum(scores, 0.5 * lowest)

    def serve(state):
        supply, demand, parent, flow = state
        choice, score = best_place(jnp.where(demand[None, :] > 0, scores, lowest), axis=1)
        better = (score[:, None] > score[None, :]) | (
            (score[:, None] == score[None, :]) & (nodes[:n, None] < nodes[None, :n])
        )
        ahead = better & (choice[:, None] == choice[None, :])
        left = demand[choice] - jnp.where(ahead, supply[:, None], 0).sum(0, dtype=supply.dtype)
        sent = jnp.clip(left, 0, supply)
        row_done = (supply > 0) & (sent == supply)
        # The row that takes the last of a column and wants more; only the very last cell of all
        # exhausts both its nodes, and its column is the root.
        last = (sent == left) & (sent < supply) & (sent > 0)
        served = (choice[:, None] == columns[None, :]) & (sent > 0)[:, None]
        taken = jnp.where(served, sent[:, None], 0).sum(0, dtype=supply.dtype)
        is_last = served & last[:, None]
        final_row = jnp.where(is_last, nodes[:n, None], -1).max(0)
        done = jnp.concatenate([row_done, final_row >= 0])
        parent = jnp.where(done, jnp.concatenate([n + choice, final_row]), parent)
        flow = jnp.where(done, jnp.concatenate([sent, sent[final_row]]), flow)
        return supply - sent, demand - taken, parent, flow

    start = (supply, demand, nodes, jnp.zeros(n + m, supply.dtype))
    start = jax.lax.fori_loop(0, NUM_ROUNDS, lambda _, s: serve(s), start)
    parent, flow = _staircase(*start)
    is_row = nodes < n
    row = jnp.where(is_row, nodes, jnp.minimum(parent, n - 1))
    column = jnp.where(is_row, jnp.maximum(parent - n, 0), nodes - n)
    unpriced = jnp.zeros((2, n + m), scores.dtype)
    return Basis(_paths(parent, n), row, column, flow, alive, units, unpriced)


def vertex(basis: Basis, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """The plan ``[n, m]`` of a basis: its marginals are the weights up to one unit of mass."""
    step = perturbation_step(shape[0])
    flow = ((basis.flow + step // 2) // step).astype(dtype) / (basis.units // step).astype(dtype)
    return jnp.zeros(shape, dtype).at[basis.row, basis.column].add(flow)


def meet_marginals(
    basis: Basis, plan: jax.Array, weights1: jax.Array, weights2: jax.Array
) -> jax.Array:
    """``plan`` ``[n, m]`` with what its marginals miss sent along the arcs of ``basis``.

    Units of mass are coarser than floats when weights are generic. What is missing up to rounding
    stays missing: spread over all cells it would cost more than the plan where some are expensive.
    """
    rows, columns = weights1 - plan.sum(1), weights2 - plan.sum(0)
    missing = jnp.concatenate([rows, -columns])
    weights = jnp.concatenate([weights1, weights2])
    missing = jnp.where(jnp.abs(missing) > 4 * jnp.finfo(plan.dtype).eps * weights, missing, 0.0)
    flow = missing @ basis.paths.astype(plan.dtype)
    return jnp.maximum(plan.at[basis.row, basis.column].add(flow), 0.0)


def _staircase(supply, demand, parent, flow):
    """Fill what is still open by the north-west corner rule, in order of position."""
    n = supply.shape[0]
    row_end = jnp.cumsum(supply, dtype=supply.dtype)
    column_end = jnp.cumsum(demand, dtype=supply.dtype)
    column = (column_end[None, :] < row_end[:, None]).sum(1, dtype=jnp.int32)
    row = (row_end[:, None] <= column_end[None, :]).sum(0, dtype=jnp.int32)
    row_start, column_start = row_end - supply, column_end - demand
    in_column = row_end - jnp.maximum(row_start, column_start[column])
    in_row = column_end - jnp.maximum(column_start, row_start[jnp.minimum(row, n - 1)])
    # The column that ends with the last row is the root.
    done = jnp.concatenate([supply > 0, (demand > 0) & (row < n)])
    parent = jnp.where(done, jnp.concatenate([n + column, row]), parent)
    return parent, jnp.where(done, jnp.concatenate([in_column, in_row]), flow)


def best_place(scores: jax.Array, axis: int, slack: int = 0) -> tuple[jax.Array, jax.Array]:
    """Place of the first entry within ``slack`` of the largest along ``axis``, and the largest.

    By reductions that XLA vectorizes.
    """
    places = jax.lax.broadcasted_iota(jnp.int32, scores.shape, axis)
    top = scores.max(axis, keepdims=True)
    place = jnp.where(scores >= top - slack, places, scores.shape[axis]).min(axis)
    return jnp.minimum(place, scores.shape[axis] - 1), jnp.squeeze(top, axis)


def largest(whole_type: Any, mass: bool = False) -> int:
    """Largest potential in integer steps, or total units of ``mass``: no sum of them overflows."""
    bits = 8 * jnp.dtype(whole_type).itemsize
    return 2 ** (bits - 2) if mass else 2 ** (bits - 4)


def perturbation_step(n: int) -> int:
    """Units per quantum of mass: more than twice the number of rows."""
    return 1 << (2 * n + 1).bit_length()


def perturbed_units(weights1: jax.Array, weights2: jax.Array):
    """Weights in integer units, both sides of one total, perturbed against degenerate vertices.

    Quanta of mass are a multiple of ``step`` units; every row gets one unit more and one column
    all of these. No proper subset of rows and columns balances then, so that every flow of every
    basis is positive and no pivot is idle. Uniform weights are exact: the number of quanta is a
    multiple of both node counts. Weights in double precision are cut into units of int64.
    """
    whole_type = jnp.int64 if weights1.dtype == jnp.float64 else jnp.int32
    step = perturbation_step(weights1.shape[0])
    most = largest(whole_type, mass=True) // step
    count1, count2 = ((w > 0).sum(dtype=whole_type) for w in (weights1, weights2))
    common = jnp.maximum(count1 * count2, 1)
    quanta = jnp.where(common <= most, most // common * common, most).astype(whole_type)
    first, second = _quantise(weights1, quanta), _quantise(weights2, quanta)
    alive = first > 0
    extra = jnp.where(_is_largest(second), alive.sum(dtype=whole_type), 0)
    return first * step + alive.astype(whole_type), second * step + extra, quanta * step


def _quantise(weights: jax.Array, quanta: jax.Array) -> jax.Array:
    """Integers ``[n]`` in proportion to ``weights``, of total ``quanta``.

    The heaviest takes what rounding left; of many nodes that may be more than it has, and then all
    that are not light take a part.
    """
    whole_type = quanta.dtype
    share = weights * (quanta.astype(weights.dtype) / weights.sum())
    # No node that carries weight is rounded away.
    share = jnp.where(weights > 0, jnp.maximum(jnp.round(share), 1.0), 0.0).astype(whole_type)
    rest = quanta - share.sum(dtype=whole_type)
    largest = _is_largest(share)
    heavy = (2 * share >= quanta // jnp.maximum((share > 0).sum(dtype=whole_type), 1)) | largest
    each, more = jnp.divmod(rest, heavy.sum(dtype=whole_type))
    extra = (jnp.cumsum(heavy, dtype=whole_type) <= more).astype(whole_type)
    spread = jnp.where(heavy, each + extra, 0)
    bearable = 2 * jnp.abs(rest) <= share.max()
    return share + jnp.where(bearable, jnp.where(largest, rest, 0), spread)


def _is_largest(x: jax.Array) -> jax.Array:
    """Marks the first of the largest entries."""
    return jnp.arange(x.shape[0]) == best_place(x, 0)[0]


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
