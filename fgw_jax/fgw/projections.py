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


def project_rows(log_plan: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The argmin of KL(pi | exp(log_plan)) over plans whose rows sum to ``weights`` ``[n]``.

    Rows are divided by their sum (Alg. 2, line 9). Returns the logarithm of the plan and the plan.
    """
    return _project(log_plan, weights[:, None], axis=1)


def project_columns(log_plan: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The argmin of KL(pi | exp(log_plan)) over plans whose columns sum to ``weights`` ``[m]``."""
    return _project(log_plan, weights[None, :], axis=0)


def _project(log_plan: jax.Array, weights: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    top = log_plan.max(axis, keepdims=True)
    scaled = jnp.exp(log_plan - top)
    total = scaled.sum(axis, keepdims=True)
    # Of a line without weight all entries are LOG_ZERO, too large for the shift to move them.
    shift = safe_log(weights) - top - jnp.log(total)
    return log_plan + shift, scaled * (weights / total)


def sinkhorn(
    log_kernel: jax.Array, weights1: jax.Array, weights2: jax.Array, num_sweeps: int
) -> tuple[jax.Array, jax.Array]:
    r"""Move ``exp(log_kernel)`` toward :math:`\arg\min_{\pi \in \Pi(\mu_1,\mu_2)} KL(\pi | K)`.

    ``num_sweeps`` row-and-column scalings of a kernel balanced beforehand so that every row and
    every column has a largest entry of one; columns are exact at the end. Returns the logarithm
    of the plan and the plan, both ``[n, m]``.
    """
    dead = (weights1 <= 0)[:, None] | (weights2 <= 0)[None, :]
    log_kernel = jnp.where(dead, LOG_ZERO, log_kernel)
    row_top = jnp.maximum(log_kernel.max(1, keepdims=True), 0.5 * LOG_ZERO)
    balanced = log_kernel - row_top
    column_top = jnp.maximum(balanced.max(0, keepdims=True), 0.5 * LOG_ZERO)
    balanced = balanced - column_top
    kernel = jnp.exp(balanced)
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
    return jnp.where(dead, LOG_ZERO, log_plan), plan


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
