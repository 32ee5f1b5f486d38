r"""Projections of plans on their marginals: Bregman projections, Sinkhorn, rounding.

Plans are carried as logarithms, so that entries that underflow in one step can come back in a
later one; one exponential per projection is all it costs. Rows and columns of weight zero
(padding among them) get no mass.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

#: Stands for log(0): finite, so that no inf - inf can arise, and below every float32 exponent.
LOG_ZERO = -1e30


def safe_log(x: jax.Array) -> jax.Array:
    """log(x) with :data:`LOG_ZERO` at zero, and a finite gradient there."""
    positive = x > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, x, 1.0)), LOG_ZERO)


def project_rows(
    log_plan: jax.Array, weights1: jax.Array, weights2: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The argmin of KL(pi | exp(log_plan)) over plans whose rows sum to ``weights1`` ``[n]``.

    Rows are divided by their sum (Alg. 2, line 9). Returns the logarithm of the plan and the plan.
    """
    return _project(log_plan, weights1[:, None], _alive(weights1, weights2), axis=1)


def project_columns(
    log_plan: jax.Array, weights1: jax.Array, weights2: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The argmin of KL(pi | exp(log_plan)) over plans whose columns sum to ``weights2`` ``[m]``."""
    return _project(log_plan, weights2[None, :], _alive(weights1, weights2), axis=0)


def _alive(weights1: jax.Array, weights2: jax.Array) -> jax.Array:
    """Cells ``[n, m]`` that may carry mass: a mask, since a live entry may be as small as any."""
    return (weights1 > 0)[:, None] & (weights2 > 0)[None, :]


def _top(log_plan: jax.Array, alive: jax.Array, axis: int) -> jax.Array:
    """Largest live entry along ``axis``; zero where there is none."""
    top = jnp.where(alive, log_plan, -jnp.inf).max(axis, keepdims=True)
    return jnp.where(alive.any(axis, keepdims=True), top, 0.0)


def _project(
    log_plan: jax.Array, weights: jax.Array, alive: jax.Array, axis: int
) -> tuple[jax.Array, jax.Array]:
    top = _top(log_plan, alive, axis)
    scaled = jnp.where(alive, jnp.exp(jnp.where(alive, log_plan - top, 0.0)), 0.0)
    total = scaled.sum(axis, keepdims=True)
    total = jnp.where(total > 0, total, 1.0)
    shift = safe_log(weights) - top - jnp.log(total)
    return jnp.where(alive, log_plan + shift, LOG_ZERO), scaled * (weights / total)


def sinkhorn(
    log_kernel: jax.Array, weights1: jax.Array, weights2: jax.Array, num_sweeps: int
) -> tuple[jax.Array, jax.Array]:
    r"""Move ``exp(log_kernel)`` toward :math:`\arg\min_{\pi \in \Pi(\mu_1,\mu_2)} KL(\pi | K)`.

    ``num_sweeps`` row-and-column scalings of a kernel balanced beforehand so that every row and
    every column has a largest entry of one; columns are exact at the end. Returns the logarithm
    of the plan and the plan, both ``[n, m]``.
    """
    alive = _alive(weights1, weights2)
    balanced = log_kernel - _top(log_kernel, alive, 1)
    balanced = balanced - _top(balanced, alive, 0)
    kernel = jnp.where(alive, jnp.exp(jnp.where(alive, balanced, 0.0)), 0.0)
    tiny = jnp.finfo(kernel.dtype).tiny

    def sweep(_, scales):
        _, v = scales
        u = weights1 / jnp.maximum(kernel @ v, tiny)
        v = weights2 / jnp.maximum(u @ kernel, tiny)
        return u, v

    scales = (jnp.ones_like(weights1), jnp.where(weights2 > 0, 1.0, 0.0).astype(kernel.dtype))
    u, v = jax.lax.fori_loop(0, num_sweeps, sweep, scales)
    plan = u[:, None] * kernel * v[None, :]
    log_plan = balanced + safe_log(u)[:, None] + safe_log(v)[None, :]
    return jnp.where(alive, log_plan, LOG_ZERO), plan


def round_to_feasible(plan: jax.Array, weights1: jax.Array, weights2: jax.Array) -> jax.Array:
    """A plan near ``plan`` with exact marginals (Altschuler et al. 2017, Alg. 2).

    Rows, then columns that are too heavy are scaled down; what is missing comes back as a
    rank-one term. Moves at most twice the L1 marginal error of ``plan``.
    """
    tiny = jnp.finfo(plan.dtype).tiny
    plan = plan * jnp.minimum(1.0, weights1 / jnp.maximum(plan.sum(1), tiny))[:, None]
    plan = plan * jnp.minimum(1.0, weights2 / jnp.maximum(plan.sum(0), tiny))[None, :]
    rows = jnp.maximum(weights1 - plan.sum(1), 0.0)
    columns = jnp.maximum(weights2 - plan.sum(0), 0.0)
    return plan + rows[:, None] * (columns / jnp.maximum(columns.sum(), tiny))[None, :]
