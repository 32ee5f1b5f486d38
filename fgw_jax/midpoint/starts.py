r"""Where a midpoint starts: the paper's random graph, or the geodesic between the sources.

Geodesic start: solve FGW between the source of largest weight and every other source once, couple
the new nodes with that source, and compose through diag(1 / mu). At a mixing ratio near one the
objective is little more than the price of resampling the heavier source to the new number of
nodes, so that coupling matters: every new node keeps one source node of its own, and only the
mass that does not fit is shared out among nodes that look alike.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fgw_jax.midpoint.objective import MidpointProblem, reciprocal, squared_distances

#: Names of the starts.
STARTS = ("geodesic", "random")
#: Offsets tried along the chain when nodes are left out or repeated, as shares of the spacing.
OFFSETS = (0.125, 0.375, 0.625, 0.875)


def resample(problem: MidpointProblem) -> jax.Array:
    """Feasible plan ``[n, m]`` between the new nodes and the source of largest weight.

    The identity when sizes and weights agree. Otherwise the source's nodes are put in a chain of
    look-alikes (:func:`chain`), nodes to leave out or to repeat are spread evenly along it, each
    new node takes all of its own node's mass that fits, and the remainder is coupled monotonely
    along the chain: closed form, feasible, and as sparse as a vertex. Of several offsets the one
    with the least distance to the source is kept.
    """
    structure, features = problem.structures[problem.main], problem.features[problem.main]
    old, new = problem.weights[problem.main], problem.new_weights
    cost = problem.alpha * _profile_distances(structure, old)
    cost = cost + (1.0 - problem.alpha) * squared_distances(features, features)
    position = chain(cost, old > 0)
    scale = reciprocal(new)

    def candidate(offset):
        plan = _along_chain(position, old, new, offset)
        averages = scale[:, None] * (plan @ structure @ plan.T) * scale[None, :]
        means = scale[:, None] * (plan @ features)
        # Up to a constant the distance to the source is minus the squares of the averages.
        kept = problem.alpha * (new @ averages**2 @ new)
        return plan, kept + (1.0 - problem.alpha) * (new @ (means**2).sum(1))

    plans, scores = jax.vmap(candidate)(jnp.asarray(OFFSETS, old.dtype))
    return plans[jnp.argmax(scores)]


def chain(cost: jax.Array, alive: jax.Array) -> jax.Array:
    """Place ``[n]`` of each node in a chain: from one node to the nearest not yet visited.

    Starts at the node farthest from all others; nodes without weight come last.
    """
    n = cost.shape[0]
    far = 2.0 * jnp.max(cost) + 1.0
    cost = jnp.where(alive[None, :], cost, far)
    nodes = jnp.arange(n)

    def visit(k, state):
        position, current = state
        position = jnp.where(nodes == current, k, position)
        nearest = jnp.argmin(jnp.where(position < 0, cost[current], jnp.inf))
        return position, nearest

    first = jnp.argmax(jnp.where(alive, cost @ alive.astype(cost.dtype), -1.0))
    position, _ = jax.lax.fori_loop(0, n, visit, (jnp.full(n, -1), first))
    return position


def _along_chain(
    position: jax.Array, old: jax.Array, new: jax.Array, offset: jax.Array
) -> jax.Array:
    """Plan that repeats the nodes of the chain evenly and couples the remainder monotonely."""
    count, size = (old > 0).sum(), (new > 0).sum()
    order = jnp.argsort(position)
    masses = old[order]
    # Node p of the chain is repeated ends[p] - ends[p - 1] times: integers under a straight line.
    shift = (offset * count.astype(offset.dtype)).astype(count.dtype)
    places = jnp.minimum(jnp.arange(old.shape[0]) + 1, count)
    ends = (places * size + shift) // count
    begins = jnp.concatenate([jnp.zeros(1, ends.dtype), ends[:-1]])
    rows = jnp.arange(new.shape[0])[:, None]
    own = (begins[None, :] <= rows) & (rows < ends[None, :])
    copy = (rows - begins[None, :]).astype(old.dtype)
    plan = jnp.where(own, jnp.clip(masses[None, :] - copy * new[:, None], 0.0, new[:, None]), 0.0)
    plan = plan + _monotone(
        jnp.maximum(new - plan.sum(1), 0.0), jnp.maximum(masses - plan.sum(0), 0.0)
    )
    # Back to the nodes' own order: the first copies as in the source, further copies behind.
    anchor = jnp.where(own, order[None, :], 0).sum(1)
    repeated = jnp.where(own, copy > 0, False).any(1)
    key = jnp.where(new > 0, anchor + jnp.where(repeated, old.shape[0], 0), 2 * old.shape[0])
    return plan[jnp.argsort(key, stable=True)][:, position]


def _monotone(rows: jax.Array, columns: jax.Array) -> jax.Array:
    """The north-west corner plan: overlap of the intervals of both cumulative masses."""
    row_ends, column_ends = jnp.cumsum(rows), jnp.cumsum(columns)
    last = jnp.minimum(row_ends[:, None], column_ends[None, :])
    first = jnp.maximum((row_ends - rows)[:, None], (column_ends - columns)[None, :])
    return jnp.maximum(last - first, 0.0)


def geodesic(problem: MidpointProblem, alignments: jax.Array) -> jax.Array:
    """Plans ``[S, n, m]``: the new nodes coupled with the main source, then through alignments.

    ``alignments`` ``[S, m, m]`` are plans from the main source to every source (to itself the
    identity); composition goes through diag(1 / mu).
    """
    first = resample(problem)
    scaled = first * reciprocal(problem.weights[problem.main])[None, :]
    plans = scaled @ alignments
    # Composed with itself the main plan is the same but for rounding.
    own = jnp.arange(problem.num_sources) == problem.main
    return jnp.where(own[:, None, None], first, plans)


def random_graph(problem: MidpointProblem, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The paper's start: features zero, structure the distances of random points, at most 1."""
    n, d = problem.new_weights.shape[0], problem.features.shape[-1]
    dtype = problem.new_weights.dtype
    # A key for each node: padding must not change the draws.
    point = lambda i: jax.random.normal(jax.random.fold_in(key, i), (2,), dtype)  # noqa: E731
    points = jax.vmap(point)(jnp.arange(n))
    differences = points[:, None, :] - points[None, :, :]
    distances = jnp.sqrt((differences**2).sum(-1))
    real = problem.new_weights > 0
    distances = jnp.where(real[:, None] & real[None, :], distances, 0.0)
    distances = distances / jnp.maximum(distances.max(), jnp.finfo(distances.dtype).tiny)
    features = jnp.where(real[:, None], -problem.centre[None, :], jnp.zeros((n, d), dtype))
    return distances, features


def _profile_distances(structure: jax.Array, weights: jax.Array) -> jax.Array:
    """Mean squared difference of two nodes' rows of the structure, ``[n, n]``."""
    squares = (structure**2) @ weights
    cross = (structure * weights[None, :]) @ structure
    return jnp.maximum(squares[:, None] + squares[None, :] - 2.0 * cross, 0.0)
