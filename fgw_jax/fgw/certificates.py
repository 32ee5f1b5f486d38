"""Lower bounds of the distance, for one pair or for lists: how far a value can be from the best."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.fgw import bounds
from fgw_jax.fgw.checks import check_graphs, check_named, check_problem
from fgw_jax.fgw.problem import Problem, from_graphs
from fgw_jax.graphs import Graph, check_list
from fgw_jax.inputs import concrete
from fgw_jax.runtime import batching, parallel


def lower_bound(
    graph1: Graph,
    graph2: Graph,
    alpha: ArrayLike = 0.95,
    q: int = 2,
    feature_cost: str | ArrayLike = "sqeuclidean",
) -> jax.Array:
    """A number that no plan between two graphs has a value below (:func:`bounds.lower_bound`).

    Works under ``jit`` and ``vmap``. The optimum lies between it and any solver's ``value``.

    Args:
        graph1: first graph, ``n`` nodes.
        graph2: second graph, ``m`` nodes, of the same feature width.
        alpha: structure against features, in [0, 1].
        q: exponent of Eq. 1, 1 or 2.
        feature_cost: ``"sqeuclidean"``, ``"euclidean"``, or a matrix ``[n, m]``.

    Returns:
        The bound, a scalar; NaN under ``jit`` where the costs overflow.

    Raises:
        InputError: for arguments that do not fit, and for costs that overflow.

    >>> from fgw_jax import Graph, distance
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], 4)
    >>> star = Graph.from_edges([(0, 1), (0, 2), (0, 3)], 4)
    >>> bool(0 < lower_bound(path, star) <= distance(path, star).value)
    True
    """
    check_problem(alpha, q, feature_cost)
    check_graphs(graph1, graph2, feature_cost)
    bound = _bound(from_graphs(graph1, graph2, alpha, q, feature_cost))
    check_finite(bound)
    return bound


def check_finite(bounds: ArrayLike) -> None:
    """Refuse bounds that overflowed."""
    if concrete(bounds):
        failed = np.flatnonzero(~np.isfinite(np.atleast_1d(bounds)))
        pair = f" of pair {failed[0]}" if len(failed) and np.ndim(bounds) else ""
        check(
            len(failed) == 0,
            f"graph1, graph2: the costs{pair} overflow; scale features and structures "
            "(fgw_jax.fgw.scale_features), or turn on float64",
        )


def finite_bound(problem: Problem) -> jax.Array:
    """:func:`bounds.lower_bound`; NaN where a cost overflows, so that none passes for a bound."""
    largest = jnp.maximum(jnp.abs(problem.structure1).max(), jnp.abs(problem.structure2).max())
    finite = jnp.isfinite(problem.cost).all() & jnp.isfinite(4.0 * largest**2)
    return jnp.where(finite, bounds.lower_bound(problem), jnp.nan)


_bound = jax.jit(finite_bound)


def lower_bounds(
    graphs1: Sequence[Graph],
    graphs2: Sequence[Graph],
    alpha: float = 0.95,
    q: int = 2,
    feature_cost: str = "sqeuclidean",
    *,
    chunk_size: int | None = None,
    max_shapes: int | None = None,
) -> np.ndarray:
    """Lower bounds ``[N]`` between ``graphs1[i]`` and ``graphs2[i]``, for ragged lists.

    >>> from fgw_jax import Graph
    >>> path, edge = Graph.from_edges([(0, 1), (1, 2)], 3), Graph.from_edges([(0, 1)], 2)
    >>> lower_bounds([path, edge], [path, path]).shape
    (2,)
    """
    graphs1, graphs2 = list(graphs1), list(graphs2)
    check(
        len(graphs1) == len(graphs2),
        f"graphs1, graphs2: {len(graphs1)} and {len(graphs2)} graphs; need as many of each",
    )
    check_list("graphs1, graphs2", graphs1 + graphs2)
    check_problem(alpha, q, feature_cost)
    check_named(feature_cost)
    check_graphs(graphs1[0], graphs2[0], feature_cost)
    sizes1, sizes2 = ([g.mask.shape[-1] for g in graphs] for graphs in (graphs1, graphs2))
    result = np.zeros(len(graphs1), jnp.result_type(float))
    number = jnp.asarray(alpha, result.dtype)

    def enter(items, shape):
        batch1 = batching.stack(graphs1, items, shape[0])
        batch2 = batching.stack(graphs2, items, shape[1])
        return _bound_batch(batch1, batch2, number, q=q, feature_cost=feature_cost)

    groups = batching.pair_groups(sizes1, sizes2, max_shapes=max_shapes, chunk_size=chunk_size)
    job = batching.Job(enter, crop=lambda items, values: [(items, values)])
    for [(items, values)] in batching.run(job, groups):
        result[items] = values
    check_finite(result)
    return result


@functools.partial(parallel.compiled, shared=("alpha",), static_argnames=("q", "feature_cost"))
def _bound_batch(batch1, batch2, alpha, *, q, feature_cost):
    one = lambda a, b: finite_bound(from_graphs(a, b, alpha, q, feature_cost))  # noqa: E731
    return jax.vmap(one)(batch1, batch2)
