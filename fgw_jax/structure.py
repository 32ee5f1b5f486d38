"""Structures A and node weights mu that can be computed from an adjacency.

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
from fgw_jax.inputs import safe_scale


def shortest_path(
    adjacency: ArrayLike, mask: ArrayLike | None = None, *, unreachable: float | None = None
) -> Any:
    """Number of edges on a shortest path between any two nodes, ``[n, n]``.

    Any non-zero entry is an edge of length one. Pairs that no path joins get ``unreachable``, by
    default one more than the longest shortest path of the graph: finite, of the scale of the
    other entries, and equal to none of them. scipy's breadth-first search on the host, a min-plus
    recursion under jit; both give the same integers.

    Args:
        adjacency: ``[n, n]``, symmetric.
        mask: ``[n]``, true on real nodes; all by default.
        unreachable: value for pairs that no path joins.

    Returns:
        ``[n, n]``, zero on padding.

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

    Entries of the adjacency are conductances (for 0/1 edges, unit resistors), of any range, and
    must not be negative. Pairs in different components get ``unreachable``, by default one more
    than the largest finite resistance of the graph.

    Args:
        adjacency: ``[n, n]``, symmetric.
        mask: ``[n]``, true on real nodes; all by default.
        unreachable: value for pairs in different components.

    Returns:
        ``[n, n]``, zero on padding.

    Raises:
        InputError: for negative conductances, and for resistances beyond the float type.

    >>> resistance(np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]))[0] * 3
    array([0., 2., 2.], dtype=float32)
    """
    xp, adjacency, real = _prepare(adjacency, mask)
    dtype = adjacency.dtype
    adjacency = xp.where(real[:, None] & real[None, :], adjacency, 0)
    if xp is np:
        check(
            bool((adjacency >= 0).all()),
            "adjacency: resistance takes weights as conductances and found a negative one; "
            "use structure='shortest_path', or weights >= 0",
        )
        adjacency = adjacency.astype(np.float64)
        component = scipy.sparse.csgraph.connected_components(adjacency != 0, directed=False)[1]
        together = component[:, None] == component[None, :]
    else:
        together = _reachable(adjacency != 0)
    unit = safe_scale(adjacency)
    with np.errstate(over="ignore"):  # what the type cannot hold is refused
        ohms = (_eliminate if xp is np else _eliminate_traced)(adjacency * unit) * unit
        ohms = ohms.astype(dtype)
    check(
        xp is jnp or bool(np.isfinite(ohms[together]).all()),
        f"adjacency: resistances of conductances this small are not finite in {dtype}; scale the "
        "weights up",
    )
    return _fill_unreachable(xp, xp.where(together, ohms, xp.inf), real, unreachable)


#: Beyond this exponent the rounding of eigenvalues (2e-16 of it) shows in the heat kernel.
HEAT_LIMIT = 1e9


def adjacency_structure(adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """The adjacency itself, as in the paper's experiments.

    Args:
        adjacency: ``[n, n]``, symmetric.
        mask: ``[n]``, true on real nodes; all by default.

    Returns:
        ``[n, n]``, zero on padding.
    """
    _, adjacency, real = _prepare(adjacency, mask)
    return adjacency * (real[:, None] & real[None, :])


def normalized_adjacency(adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """``d_i^(-1/2) A_ij d_j^(-1/2)`` with ``d`` the degrees; rows of isolated nodes stay zero.

    Args:
        adjacency: ``[n, n]``, symmetric.
        mask: ``[n]``, true on real nodes; all by default.

    Returns:
        ``[n, n]``, zero on padding.
    """
    xp, adjacency, real = _prepare(adjacency, mask)
    adjacency = adjacency * (real[:, None] & real[None, :])
    unit = safe_scale(adjacency, axis=-1)
    degree = xp.abs(adjacency * unit).sum(-1)
    scale = xp.where(degree > 0, xp.sqrt(unit[:, 0]) / xp.sqrt(xp.where(degree > 0, degree, 1)), 0)
    return (scale[:, None] * adjacency * scale[None, :]).astype(adjacency.dtype)


def heat(adjacency: ArrayLike, mask: ArrayLike | None = None, *, time: float = 1.0) -> Any:
    """Heat kernel ``exp(-time L)`` of the graph Laplacian, large for nodes that are close.

    Args:
        adjacency: ``[n, n]``, symmetric.
        mask: ``[n]``, true on real nodes; all by default.
        time: diffusion time.

    Returns:
        ``[n, n]``, zero on padding.

    Raises:
        InputError: for degrees so large that rounding would decide the exponent.
    """
    xp, adjacency, real = _prepare(adjacency, mask)
    both = real[:, None] & real[None, :]
    dtype = adjacency.dtype
    adjacency = adjacency * both
    if xp is np:
        adjacency = adjacency.astype(np.float64)
    with np.errstate(over="ignore"):
        laplacian = xp.diag(adjacency.sum(-1)) - adjacency
    if xp is np:
        largest = float(np.abs(laplacian).max())
        check(
            abs(time) * largest <= HEAT_LIMIT,
            f"adjacency: degrees up to {largest:.3g} are too large for the heat kernel, whose "
            "exponent rounding would decide; scale the weights down",
        )
    values, vectors = xp.linalg.eigh(laplacian)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite for negative weights: refused
        kernel = (vectors * xp.exp(-time * values)) @ vectors.T
        return ((kernel + kernel.T) / 2 * both).astype(dtype)


def uniform(adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """The same weight on every real node.

    Args:
        adjacency: ``[n, n]``, symmetric.
        mask: ``[n]``, true on real nodes; all by default.

    Returns:
        ``[n]``, zero on padding.
    """
    xp, adjacency, real = _prepare(adjacency, mask)
    return (real / xp.maximum(real.sum(), 1)).astype(adjacency.dtype)


def degree(adjacency: ArrayLike, mask: ArrayLike | None = None) -> Any:
    """Weights in proportion to (weighted) degree; uniform on a graph without edges.

    Args:
        adjacency: ``[n, n]``, symmetric.
        mask: ``[n]``, true on real nodes; all by default.

    Returns:
        ``[n]``, zero on padding.
    """
    xp, adjacency, real = _prepare(adjacency, mask)
    adjacency = adjacency * (real[:, None] & real[None, :])
    degrees = xp.abs(adjacency * safe_scale(adjacency)).sum(-1)
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


def _eliminate(conductances: np.ndarray) -> np.ndarray:
    r"""Resistance distances for conductances of any range, ``[n, n]``.

    Nodes are eliminated one by one: removing node k, whose conductances :math:`c_j` sum to c, adds
    :math:`c_i c_j / c` between its neighbors (star-mesh transform) and keeps all resistances
    between the others. Put back in reverse order, with :math:`p = c_j / c`,

    .. math::  R_{ki} = 1/c + \sum_j p_j R_{ji} - \tfrac12 \sum_{jl} p_j p_l R_{jl}.

    Nothing is subtracted but the last term, which is at most the number of neighbors times 1/c,
    so that digits are not lost however small one conductance is beside another. Entries between
    components are meaningless.
    """
    n = len(conductances)
    rest = conductances.copy()
    shares, totals = np.zeros((n, n)), np.zeros(n)
    for k in range(n - 1, 0, -1):
        row = rest[k, :k]
        totals[k] = row.sum()
        if totals[k] > 0:
            shares[k, :k] = row / totals[k]
            rest[:k, :k] += shares[k, :k, None] * row[None, :]
    ohms = np.zeros((n, n))
    for k in range(1, n):
        if totals[k] > 0:
            p = shares[k, :k]
            onward = p @ ohms[:k, :k]
            ohms[k, :k] = ohms[:k, k] = 1 / totals[k] + onward - (onward @ p) / 2
    return ohms


def _eliminate_traced(conductances: jax.Array) -> jax.Array:
    """:func:`_eliminate` under jit."""
    n = len(conductances)
    nodes = jnp.arange(n)

    def remove(step: Any, state: Any) -> Any:
        rest, shares, inverses = state
        k = n - 1 - step
        row = jnp.where(nodes < k, rest[k], 0)
        total = row.sum()
        inverse = jnp.where(total > 0, 1 / jnp.where(total > 0, total, 1), 0)
        share = row * inverse
        rest = rest + share[:, None] * row[None, :]
        return rest, shares.at[k].set(share), inverses.at[k].set(inverse)

    def put_back(k: Any, ohms: jax.Array) -> jax.Array:
        onward = shares[k] @ ohms
        new = jnp.where(nodes < k, inverses[k] + onward - (onward @ shares[k]) / 2, 0)
        new = jnp.where(inverses[k] > 0, new, 0)
        return ohms.at[k].set(new).at[:, k].set(new)

    start = (conductances, jnp.zeros_like(conductances), jnp.zeros_like(conductances[0]))
    _, shares, inverses = jax.lax.fori_loop(0, n, remove, start)
    return jax.lax.fori_loop(0, n, put_back, jnp.zeros_like(conductances))


def _fill_unreachable(xp: Any, distances: Any, real: Any, unreachable: float | None) -> Any:
    """Replace infinities by a finite value and clear the padding."""
    finite = xp.isfinite(distances)
    both = real[:, None] & real[None, :]
    longest = xp.where(finite & both, distances, 0).max()
    value = longest + 1 if unreachable is None else unreachable
    return xp.where(both, xp.where(finite, distances, value), 0).astype(distances.dtype)
