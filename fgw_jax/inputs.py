"""Validation of arrays that become part of a graph: errors name the argument and the remedy.

Traced arrays pass with the checks their shape allows.
"""

from __future__ import annotations

import numbers
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import InputError, check


def float_dtype() -> np.dtype:
    """float32, or float64 when the user enabled it in jax."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def concrete(x: Any) -> bool:
    """Whether a value is known now, not traced."""
    return not isinstance(x, jax.core.Tracer)


def check_key(key: Any, *, several: bool = False) -> None:
    """Refuse what is not a random key.

    Args:
      key: a typed key (``jax.random.key``) or a raw one (``jax.random.PRNGKey``), traced or not.
      several: also accept an array of keys.

    Raises:
      InputError: for anything else, numbers in arrays included.
    """
    remedy = "pass jax.random.key(0)"
    check(
        isinstance(key, jax.Array | np.ndarray),
        f"key: expected a random key, got {type(key).__name__}; {remedy}",
    )
    typed = jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    raw = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0)))
    check(
        typed or (key.dtype == raw.dtype and key.shape[-1:] == raw.shape),
        f"key: expected a random key, got numbers of type {key.dtype} and shape {key.shape}; "
        f"{remedy}",
    )
    extra = key.ndim if typed else key.ndim - 1
    check(
        extra == 0 or (several and extra == 1),
        f"key: expected one key, got an array of shape {key.shape}; {remedy}",
    )


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is not a whole number of at least ``least``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    check(
        whole and bool(value >= least),
        f"{name}: {value!r} must be a whole number of at least {least}",
    )


def floats(name: str, values: ArrayLike) -> Any:
    """Finite real numbers in the default float type, in a new array."""
    if isinstance(values, jax.core.Tracer):
        whole = not jax.numpy.issubdtype(values.dtype, np.floating)
        return values.astype(float_dtype()) if whole else values
    try:
        given = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: not a numeric array ({error}); pass numbers") from error
    real = given.dtype.kind in "biuf" or jax.numpy.issubdtype(given.dtype, np.floating)
    check(real, f"{name}: not an array of real numbers but of {given.dtype}; pass numbers")
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused below
        array = given.astype(float_dtype())
    check(
        bool(np.isfinite(array).all()),
        f"{name}: NaN or infinite entries; replace them before building the graph",
    )
    return array


def symmetric(name: str, values: ArrayLike) -> Any:
    """A symmetric matrix ``[n, n]``; asymmetry of rounding size is averaged away."""
    array = floats(name, values)
    check(
        array.ndim == 2 and array.shape[0] == array.shape[1],
        f"{name}: expected a square matrix, got shape {array.shape}; pass an [n, n] array",
    )
    check(array.shape[0] > 0, f"{name}: the graph has no node; drop empty graphs")
    if concrete(array) and not np.array_equal(array, array.T):
        check(
            nearly_equal(array, array.T),
            f"{name}: not symmetric; graphs are undirected here: pass (M + M.T) / 2 or "
            "np.maximum(M, M.T)",
        )
        array = array / 2 + array.T / 2  # halved first: the sum of two huge entries overflows
    return array


def nearly_equal(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether arrays differ by rounding only, relative to their own largest entry."""
    largest = np.abs(array).max(initial=0)
    with np.errstate(over="ignore"):
        return bool(np.allclose(array, other, rtol=1e-5, atol=1e-6 * largest))


def without_diagonal(adjacency: Any) -> Any:
    """The matrix with a zero diagonal; a copy only if it had another."""
    if isinstance(adjacency, np.ndarray):
        if not adjacency.diagonal().any():
            return adjacency
        adjacency = adjacency.copy()
        np.fill_diagonal(adjacency, 0)
        return adjacency
    return adjacency * (1 - jax.numpy.eye(adjacency.shape[0], dtype=adjacency.dtype))


def node_weights(values: ArrayLike, n: int) -> Any:
    """Non-negative weights ``[n]``, normalized to sum to one."""
    weights = floats("measure", values)
    check(
        weights.shape == (n,),
        f"measure: expected {n} node weights, got shape {weights.shape}; pass one weight per node",
    )
    if concrete(weights):
        check(bool((weights >= 0).all()), "measure: negative weights; pass weights >= 0")
        check(bool(weights.any()), "measure: weights sum to zero; give at least one node weight")
        if abs(weights.sum(dtype=np.float64) - 1) < 1e-6:
            return weights  # dividing by a sum that is one but for rounding would only add rounding
    weights = weights * safe_scale(weights)
    total = weights.sum()
    if concrete(total):
        return weights / total
    return weights / jax.numpy.where(total > 0, total, 1)


def safe_scale(values: Any, axis: int | None = None) -> Any:
    """A power of two by which huge or tiny ``values`` are multiplied before they are summed.

    Their sum then neither overflows nor underflows. It is 1 for all others, which keep their bits.
    """
    xp = np if isinstance(values, np.ndarray) else jax.numpy
    size = xp.abs(values).max(axis=axis, keepdims=axis is not None, initial=0)
    half = 2.0 ** (np.finfo(values.dtype).maxexp // 2)
    scale = xp.where(size > half, 1 / half, xp.where(size < 1 / half, half, 1.0))
    return scale.astype(values.dtype)


def edge_pairs(edges: ArrayLike, num_nodes: int) -> np.ndarray:
    """Edges ``[m, 2]`` between nodes numbered from 0."""
    check(num_nodes != 0, "num_nodes: a graph needs at least one node, got 0; drop empty graphs")
    check_whole("num_nodes", num_nodes)
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise InputError(f"edges: rows of different lengths; pass [m, 2] ({error})") from error
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    check(
        pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu",
        f"edges: expected whole numbers of shape [m, 2], got {pairs.dtype} {pairs.shape}; "
        "pass one row (u, v) per edge",
    )
    check(
        bool(pairs.min() >= 0 and pairs.max() < num_nodes),
        f"edges: node numbers must lie in 0..{num_nodes - 1}; renumber the nodes from 0",
    )
    return pairs
