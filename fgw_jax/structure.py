"""What the structure A and the weights mu of a graph may be.

Every function takes an adjacency ``[n, n]`` and a mask ``[n]``, gives zero on padding, and works
in two places: numpy in gives numpy out (on the host, where thousands of graphs are prepared), a
traced array gives a traced array. A new structure joins by a row in :data:`STRUCTURES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse.csgraph
from jax.typing import ArrayLike

from fgw_jax.errors import InputError, check


def shortest_path(
    adjacency: ArrayLike, mask: ArrayLike | None = None, *, unreachable: float | None = None
) -> Any:
    """Number of edges on a shortest path between any two nodes, ``[n, n]``.

    Any non-zero entry is an edge of length one. Pairs that no path joins get ``unreachable``, by
    default one more than the longest shortest path of the graph: finite, of the scale of the
    other entries, and equal to none of them. scipy's breadth-first search on the host, a min-plus
    recursion under jit; both give the same integers.

    >>> path_of_three_and_a_node = np.diag([1, 1, 0], 1) + np.diag([1, 1, 0], -1)
    >>> shortest_path(path_of_three_and_a_node)[0].tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    xp, adjacency, real = _prepare(adjacency, mask)
    edges = (adjacency != 0) & real[:, None] & real[None, :]
    if xp is np:
        hops = scipy.sparse.csgraph.shortest_path(edges, directed=False, unweighted=True)
        hops = hops.astype(adjacency.dtype)
    else:
        hops = _min_plus(jnp.where(edges, 1.0, jnp.inf).astype(adjacency.dtype))
    return _fill_unreachable(xp, hops, real, unreachable)


def resistance(
    adjacency: ArrayLike, mask: ArrayLike | None = None, *, unreachable: float | None = None
) -> Any:
    """Resistance distance ``L+_ii + L+_jj - 2 L+_ij`` within each component, ``[n, n]``.

    Entries of the adjacency are conductances (for 0/1 edges, unit resistors) and must not be
    negative. Pairs in different components get ``unreachable``, by default one more than the
    largest finite resistance of the graph.

    >>> resistance(np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]))[0] * 3
    array([0., 2., 2.], dtype=float32)
    """
    xp, adjacency, real = _prepare(adjacency, mask)
    dtype = adjacency.dtype
    both = real[:, None] & real[None, :]
    if xp is np:
        adjacency = np.where(both, adjacency, 0).astype(np.float64)
        check(
            bool((adjacency >= 0).all()),
            "adjacency: resistance takes weights as conductances and found a negative one; "
            "use structure='shortest_path', or weights >= 0",
        )
        component = scipy.sparse.csgraph.connected_components(adjacency != 0, directed=False)[1]
        together = component[:, None] == component[None, :]
    else:
        adjacency = jnp.where(both, adjacency, 0)
        together = _reachable(adjacency != 0)
    laplacian = xp.diag(adjacency.sum(-1)) - adjacency
    # The averaging matrix of each component fills the kernel of L, so that an inverse stands in
    # for the pseudo-inverse; it cancels in the differences below. Padding: its own component.
    averaging = together / together.sum(-1, keepdims=True)
    inverse = xp.linalg.inv(laplacian + averaging)
    diagonal = xp.diagonal(inverse)
    ohms = diagonal[:, None] + diagonal[None, :] - inverse - inverse.T
    ohms = xp.where(together, xp.maximum(ohms, 0), xp.inf).astype(dtype)
    ohms = xp.where(xp.eye(len(ohms), dtype=bool), 0, ohms)
    return _fill_unreachable(xp, ohms, real, unreachable)


def adjacency_structure(adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """The adjacency itself, as in the paper's experiments."""
    _, adjacency, real = _prepare(adjacency, mask)
    return adjacency * (real[:, None] & real[None, :])


def normalized_adjacency(adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """``d_i^(-1/2) A_ij d_j^(-1/2)`` with ``d`` the degrees; rows of isolated nodes stay zero."""
    xp, adjacency, real = _prepare(adjacency, mask)
    adjacency = adjacency * (real[:, None] & real[None, :])
    degree = xp.abs(adjacency).sum(-1)
    scale = xp.where(degree > 0, 1 / xp.sqrt(xp.where(degree > 0, degree, 1)), 0)
    return (scale[:, None] * adjacency * scale[None, :]).astype(adjacency.dtype)


def heat(adjacency: ArrayLike, mask: ArrayLike | None = None, *, time: float = 1.0) -> Any:
    """Heat kernel ``exp(-time L)`` of the graph Laplacian, large for nodes that are close."""
    xp, adjacency, real = _prepare(adjacency, mask)
    both = real[:, None] & real[None, :]
    adjacency = adjacency * both
    values, vectors = xp.linalg.eigh(xp.diag(adjacency.sum(-1)) - adjacency)
    with np.errstate(over="ignore", invalid="ignore"):  # of negative weights: infinite, and told
        kernel = (vectors * xp.exp(-time * values)) @ vectors.T
    return ((kernel + kernel.T) / 2 * both).astype(adjacency.dtype)


def uniform(adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """The same weight on every real node."""
    xp, adjacency, real = _prepare(adjacency, mask)
    return (real / xp.maximum(real.sum(), 1)).astype(adjacency.dtype)


def degree(adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """Weights in proportion to (weighted) degree; uniform on a graph without edges."""
    xp, adjacency, real = _prepare(adjacency, mask)
    degrees = xp.abs(adjacency * (real[:, None] & real[None, :])).sum(-1)
    total = degrees.sum()
    fallback = real / xp.maximum(real.sum(), 1)
    return xp.where(total > 0, degrees / xp.where(total > 0, total, 1), fallback).astype(
        adjacency.dtype
    )


#: name -> function of ``(adjacency, mask)`` giving the structure ``[n, n]``
STRUCTURES: dict[str, Callable[..., Any]] = {
    "adjacency": adjacency_structure,
    "shortest_path": shortest_path,
    "resistance": resistance,
    "normalized_adjacency": normalized_adjacency,
    "heat": heat,
}

#: structures in which a small entry means "close": a midpoint decodes with <= threshold
DISTANCE_LIKE = frozenset({"shortest_path", "resistance"})

#: name -> function of ``(adjacency, mask)`` giving weights ``[n]`` that sum to one
MEASURES: dict[str, Callable[..., Any]] = {"uniform": uniform, "degree": degree}


def compute(name: str, adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """The structure of that name, a row of :data:`STRUCTURES`."""
    return _named("structure", name, STRUCTURES)(adjacency, mask)


def measure(name: str, adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """The node weights of that name, a row of :data:`MEASURES`."""
    return _named("measure", name, MEASURES)(adjacency, mask)


def _named(argument: str, name: str, table: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    if name not in table:
        raise InputError(f"{argument}: no such name {name!r}; choose one of {', '.join(table)}")
    return table[name]


def _prepare(adjacency: ArrayLike, mask: ArrayLike | None) -> tuple[Any, Any, Any]:
    """The module to compute with (numpy unless something is a jax array), floats, bool mask."""
    xp = jnp if isinstance(adjacency, jax.Array) or isinstance(mask, jax.Array) else np
    adjacency = xp.asarray(adjacency)
    check(
        adjacency.ndim == 2 and adjacency.shape[0] == adjacency.shape[1],
        f"adjacency: expected a square matrix, got shape {adjacency.shape}; "
        "pass one graph, [n, n], or use jax.vmap for a batch",
    )
    if not xp.issubdtype(adjacency.dtype, xp.floating):
        adjacency = adjacency.astype(jax.dtypes.canonicalize_dtype(np.float64))
    n = adjacency.shape[0]
    mask = xp.ones(n, bool) if mask is None else xp.asarray(mask).astype(bool)
    check(
        mask.shape == (n,),
        f"mask: expected shape ({n},) to go with the adjacency, got {mask.shape}",
    )
    return xp, adjacency, mask


def _min_plus(lengths: jax.Array) -> jax.Array:
    """All shortest paths: ``D <- min(D, D[:, k] + D[k, :])`` for every node k (Floyd-Warshall)."""
    n = lengths.shape[0]
    start = jnp.where(jnp.eye(n, dtype=bool), 0, lengths)

    def through(k: Any, d: jax.Array) -> jax.Array:
        return jnp.minimum(d, d[:, k, None] + d[k, None, :])

    return jax.lax.fori_loop(0, n, through, start)


def _reachable(edges: jax.Array) -> jax.Array:
    """Transitive closure by repeated squaring; every node reaches itself."""
    n = edges.shape[0]
    reach = (edges | jnp.eye(n, dtype=bool)).astype(jnp.float32)
    for _ in range(math.ceil(math.log2(max(n, 2)))):
        reach = jnp.minimum(reach @ reach, 1)
    return reach > 0


def _fill_unreachable(xp: Any, distances: Any, real: Any, unreachable: float | None) -> Any:
    """Replace infinities by a finite value and clear the padding."""
    finite = xp.isfinite(distances)
    both = real[:, None] & real[None, :]
    longest = xp.where(finite & both, distances, 0).max()
    value = longest + 1 if unreachable is None else unreachable
    return xp.where(both, xp.where(finite, distances, value), 0).astype(distances.dtype)
