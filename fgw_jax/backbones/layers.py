"""Layers of the backbones: a linear map with a fast weight gradient, batch norm, the head."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from fgw_jax.inputs import float_dtype

#: number of rows per piece in the weight gradient
_CHUNK = 128


@jax.custom_vjp
def linear(rows: jax.Array, weight: jax.Array) -> jax.Array:
    """``rows @ weight`` for long ``rows`` ``[M, d]``.

    The gradient of the weight contracts all M rows; as a single product it would neither use
    several cores nor stay in cache. It is summed over pieces of about 128 rows instead.
    """
    return rows @ weight


def _linear_forward(
    rows: jax.Array, weight: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return rows @ weight, (rows, weight)


def _linear_backward(
    saved: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    rows, weight = saved
    pieces = _num_pieces(rows.shape[0])
    left = rows.reshape(pieces, -1, rows.shape[1])
    right = gradient.reshape(pieces, -1, gradient.shape[1])
    return gradient @ weight.T, jnp.einsum("pni,pnj->pij", left, right).sum(0)


linear.defvjp(_linear_forward, _linear_backward)


@functools.cache
def _num_pieces(rows: int) -> int:
    """The divisor of ``rows`` with pieces nearest in ratio to :data:`_CHUNK` rows."""
    divisors = [pieces for pieces in range(1, rows + 1) if rows % pieces == 0]
    return min(divisors, key=lambda pieces: abs(math.log(rows / pieces / _CHUNK)), default=1)


class Linear(nn.Module):
    """``x W + b``, where ``x = scale * rows + shift`` may be the affine map of :class:`BatchNorm`.

    The affine map is folded into the weight, so that normalized rows are never stored.
    """

    width: int
    use_bias: bool = True

    @nn.compact
    def __call__(
        self, rows: jax.Array, affine: tuple[jax.Array, jax.Array] | None = None
    ) -> jax.Array:
        """Rows ``[M, width]``."""
        shape = (rows.shape[-1], self.width)
        weight = self.param("weight", nn.initializers.lecun_normal(), shape, float_dtype())
        bias = None
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, (self.width,), float_dtype())
        if affine is not None:
            scale, shift = affine
            bias = shift @ weight if bias is None else bias + shift @ weight
            weight = scale[:, None] * weight
        out = linear(rows, weight)
        return out if bias is None else out + bias


class BatchNorm(nn.Module):
    """Batch normalization over rows with multiplicities.

    Returned as an affine map ``(scale, shift)``. Running moments are stored in ``batch_stats``
    with the momentum of PyTorch (0.1 for the new value).
    """

    momentum: float = 0.9
    epsilon: float = 1e-5

    @nn.compact
    def __call__(
        self, rows: Sequence[jax.Array], counts: Sequence[jax.Array], train: bool
    ) -> tuple[jax.Array, jax.Array]:
        """``(scale, shift)``, each ``[h]``, of groups of rows ``[M, h]`` with counts ``[M]``."""
        width, dtype = rows[0].shape[-1], float_dtype()
        gain = self.param("scale", nn.initializers.ones, (width,), dtype)
        bias = self.param("bias", nn.initializers.zeros, (width,), dtype)
        mean_ = self.variable("batch_stats", "mean", jnp.zeros, (width,), dtype)
        var_ = self.variable("batch_stats", "var", jnp.ones, (width,), dtype)
        if train:
            total = jnp.maximum(sum(c.sum() for c in counts), 1)  # a batch may be all padding
            mean = sum(c @ r for r, c in zip(rows, counts, strict=True)) / total
            square = sum(c @ (r * r) for r, c in zip(rows, counts, strict=True)) / total
            var = jnp.maximum(square - mean * mean, 0)
            if not self.is_initializing():
                mean_.value = self.momentum * mean_.value + (1 - self.momentum) * mean
                var_.value = self.momentum * var_.value + (1 - self.momentum) * var
        else:
            mean, var = mean_.value, var_.value
        scale = gain * jax.lax.rsqrt(var + self.epsilon)
        return scale, bias - mean * scale


class Head(nn.Module):
    """Dropout, linear, ReLU, dropout, linear: from the virtual node to logits."""

    num_classes: int
    hidden: int
    dropout: float

    @nn.compact
    def __call__(self, representations: jax.Array, train: bool) -> jax.Array:
        """Logits ``[B, C]`` of representations ``[B, h]``."""
        dtype: Any = float_dtype()
        x = nn.Dropout(self.dropout)(representations, deterministic=not train)
        x = jax.nn.relu(nn.Dense(self.hidden, param_dtype=dtype)(x))
        x = nn.Dropout(self.dropout)(x, deterministic=not train)
        return nn.Dense(self.num_classes, param_dtype=dtype)(x)
