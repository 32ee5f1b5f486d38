"""From a midpoint's real-valued structure to 0/1 edges: the threshold search of Alg. 3, line 8."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.inputs import concrete


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
    of two thresholds equally close the one with fewer edges is taken. A density of zero gives no
    edge; any other at least the strongest ones.

    numpy in gives numpy out, on the host; traced or jax arrays go under jit and vmap.

    Args:
        structure: symmetric matrix ``[n, n]``; only entries above the diagonal are read.
        density: wanted 2|E| / (n (n - 1)), in [0, 1].
        mask: ``[n]``, true on real nodes; padding gets no edge.
        distance_like: small entries mean close (shortest path): edges are entries <= threshold.

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
    real = xp.ones(n, bool) if mask is None else xp.asarray(mask).astype(bool)
    check(real.shape == (n,), f"mask: expected shape ({n},), got {real.shape}")
    if concrete(density):
        ok = bool((np.asarray(density) >= 0).all() and (np.asarray(density) <= 1).all())
        check(ok, f"density: must lie in [0, 1], got {density}")
    if n < 2:
        return xp.zeros_like(a)
    rows, columns = np.triu_indices(n, 1)
    strength = -a[rows, columns] if distance_like else a[rows, columns]
    valid = real[rows] & real[columns]
    strength = xp.where(valid, strength, -xp.inf)
    order = xp.sort(strength)[::-1]
    # Cutting after position k leaves k + 1 edges; a cut between equal entries is no threshold.
    total = xp.maximum(valid.sum(), 1)
    count = np.arange(1, len(rows) + 1)
    following = xp.concatenate([order[1:], xp.full(1, -xp.inf, order.dtype)])
    allowed = (order > following) & (count <= total)
    error = xp.where(allowed, xp.abs(count / total - density), xp.inf)
    threshold = order[xp.argmin(error)]
    edges = valid & (strength >= threshold) & (xp.asarray(density) > 0)
    upper = edges.astype(a.dtype)
    if xp is np:
        out = np.zeros_like(a)
        out[rows, columns] = upper
        return out + out.T
    out = jnp.zeros_like(a).at[rows, columns].set(upper)
    return out + out.T
