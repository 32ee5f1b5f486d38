"""From a midpoint's real-valued structure to 0/1 edges: the threshold search of Alg. 3, line 8."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.inputs import concrete

#: edges by which two errors may differ and count as equal: rounding must not decide
_TIE = 1e-3


def decode(
    structure: ArrayLike,
    density: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    distance_like: bool = False,
) -> Any:
    r"""0/1 adjacency ``[n, n]``: symmetric, zero diagonal, of density close to ``density``.

    .. math::

        \arg\min_{\theta \in [\min A, \max A]} \left| \mathrm{density}(A \ge \theta)
            - \mathrm{density} \right|

    over the entries above the diagonal, exactly: every threshold that changes the result is one of
    the entries, so sorting them finds the best one. Entries of equal value are edges together, and
    of two thresholds equally close (to a thousandth of an edge) the one with fewer edges is taken.
    A density of zero gives no edge; any other at least the strongest ones.

    numpy in gives numpy out, on the host; jax arrays work under ``jit`` and ``vmap``, where NaN or
    infinite entries, which cannot raise there, give a matrix of NaN.

    Args:
        structure: symmetric matrix ``[n, n]``; only entries above the diagonal are read.
        density: wanted 2|E| / (n (n - 1)), in [0, 1].
        mask: ``[n]``, true on real nodes; padding gets no edge.
        distance_like: small entries mean close (shortest path): edges are entries <= threshold.

    Returns:
        The adjacency, in the type of ``structure``.

    Raises:
        InputError: for arrays of other shapes, a density outside [0, 1], or entries between real
            nodes that are not finite.

    >>> import numpy as np
    >>> decode(np.array([[0, 0.9, 0.2], [0.9, 0, 0.4], [0.2, 0.4, 0]]), 2 / 3)
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    xp: Any = jnp if any(isinstance(x, jax.Array) for x in (structure, density, mask)) else np
    a = xp.asarray(structure)
    a = a if xp.issubdtype(a.dtype, xp.floating) else a.astype(jnp.result_type(float))
    check(
        a.ndim == 2 and a.shape[0] == a.shape[1],
        f"structure: expected one square matrix, got shape {a.shape}; use jax.vmap for a batch",
    )
    n = a.shape[0]
    valid: Any = np.triu(np.ones((n, n), bool), 1)
    if mask is not None:
        real = xp.asarray(mask).astype(bool)
        check(real.shape == (n,), f"mask: expected shape ({n},), got {real.shape}")
        valid = real[:, None] & real[None, :] & valid
    if concrete(density):
        number = np.asarray(density)
        ok = number.shape == () and number.dtype.kind in "biuf" and bool(0 <= number <= 1)
        check(ok, f"density: must be one number in [0, 1], got {density!r}")
    finite = xp.where(valid, xp.isfinite(a), True).all()
    check(
        not concrete(finite) or bool(finite),
        "structure: NaN or infinite entries; look at the midpoint's status",
    )
    if n < 2:
        return xp.zeros_like(a)
    strength = xp.where(valid, -a if distance_like else a, -xp.inf)
    threshold = (_by_selection if xp is np else _by_sorting)(strength, valid, density)
    edges = valid & (strength >= threshold) & (xp.asarray(density) > 0)
    edges = (edges | edges.T).astype(a.dtype)
    return edges if concrete(finite) else jnp.where(finite, edges, jnp.nan)


def _by_sorting(strength: jax.Array, valid: jax.Array, density: Any) -> jax.Array:
    """The entry that leaves the share of edges closest to ``density``; of equals the larger."""
    rows, columns = np.triu_indices(strength.shape[0], 1)
    order = jnp.sort(strength[rows, columns])[::-1]
    # Cutting after position k leaves k + 1 edges; a cut between equal entries is no threshold.
    total = jnp.maximum(valid.sum(), 1).astype(order.dtype)
    count = np.arange(1, len(rows) + 1, dtype=order.dtype)
    wanted = jnp.asarray(density).astype(order.dtype) * total
    following = jnp.concatenate([order[1:], jnp.full(1, -jnp.inf, order.dtype)])
    allowed = (order > following) & (count <= total)
    error = jnp.where(allowed, jnp.abs(count - wanted), jnp.inf)
    margin = _TIE + 4 * jnp.finfo(order.dtype).eps * total
    return order[jnp.argmax(error <= error.min() + margin)]


def _by_selection(strength: np.ndarray, valid: np.ndarray, density: Any) -> Any:
    """The same in linear time, on the host: one of the two cuts around the wanted number."""
    entries = strength[valid]
    total = len(entries)
    if total == 0:
        return np.inf
    place = int(np.clip(np.ceil(float(density) * total), 1, total))
    # Behind the cut nothing is weaker than its entry, before it nothing stronger.
    cut = total - place
    entries.partition(cut)
    entry = entries[cut]
    stronger = entries[cut:][entries[cut:] > entry]
    with_it = place + np.count_nonzero(entries[:cut] == entry)
    error = [abs(count - float(density) * total) for count in (len(stronger), with_it)]
    return stronger.min() if len(stronger) and error[0] <= error[1] + _TIE else entry
