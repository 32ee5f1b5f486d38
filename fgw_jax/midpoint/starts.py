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

from fgw_jax.fgw import projections
from fgw_jax.midpoint.objective import MidpointProblem, reciprocal, squared_distances


def resample(problem: MidpointProblem, num_sweeps: int = 50) -> jax.Array:
    """Feasible plan ``[n, n_1]`` between the new nodes and the first source.

    The identity when sizes and weights agree. Otherwise nodes to keep (or to repeat) are chosen by
    how little others can stand in for them, each new node takes all of its own node's mass that
    fits, and the remainder goes to nodes with similar features and neighbourhoods.
    """
    structure, features = problem.structures[0], problem.features[0]
    old, new = problem.weights[0], problem.new_weights
    count, size = (old > 0).sum(), (new > 0).sum()
    cost = problem.alpha * _profile_distances(structure, old)
    cost = cost + (1.0 - problem.alpha) * squared_distances(features, features)
    importance = jnp.where(old > 0, (structure**2) @ old + 1e-3 * cost @ old, -jnp.inf)
    rank = jnp.argsort(jnp.argsort(-importance, stable=True), stable=True)
    keep = (rank < size) & (old > 0)
    # New node k stands for the k-th kept node; further ones repeat the most important nodes.
    place = jnp.where(keep, jnp.cumsum(keep) - 1, -1)
    own = place[None, :] == jnp.arange(new.shape[0])[:, None]
    extra = jnp.arange(new.shape[0])[:, None] - count
    repeat = (rank[None, :] == extra % jnp.maximum(count, 1)) & (extra >= 0) & (new > 0)[:, None]
    plan = jnp.where(own, jnp.minimum(new[:, None], old[None, :]), 0.0)
    rows = jnp.maximum(new - plan.sum(1), 0.0)
    columns = jnp.maximum(old - plan.sum(0), 0.0)
    anchored = (own | repeat).astype(cost.dtype) @ cost
    mean = rows @ anchored @ columns / jnp.maximum(rows.sum() * columns.sum(), 1e-12)
    _, rest = projections.sinkhorn(
        -20.0 * anchored / jnp.maximum(mean, 1e-12), rows, columns, num_sweeps
    )
    return projections.round_to_feasible(plan + rest, new, old)


def compose(problem: MidpointProblem, plan: jax.Array, alignment: jax.Array) -> jax.Array:
    """plan diag(1 / mu_1) alignment: from the new nodes through the first source to another one."""
    return (plan * reciprocal(problem.weights[0])[None, :]) @ alignment


def random_graph(problem: MidpointProblem, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The paper's start: features zero, structure the distances of random points, at most 1."""
    n, d = problem.new_weights.shape[0], problem.features[0].shape[1]
    points = jax.random.normal(key, (n, 2), problem.new_weights.dtype)
    differences = points[:, None, :] - points[None, :, :]
    distances = jnp.sqrt((differences**2).sum(-1))
    real = problem.new_weights > 0
    distances = jnp.where(real[:, None] & real[None, :], distances, 0.0)
    distances = distances / jnp.maximum(distances.max(), jnp.finfo(distances.dtype).tiny)
    features = jnp.where(real[:, None], -problem.centre[None, :], jnp.zeros((n, d)))
    return distances, features


def _profile_distances(structure: jax.Array, weights: jax.Array) -> jax.Array:
    """Mean squared difference of two nodes' rows of the structure, ``[n, n]``."""
    squares = (structure**2) @ weights
    cross = (structure * weights[None, :]) @ structure
    return jnp.maximum(squares[:, None] + squares[None, :] - 2.0 * cross, 0.0)
