"""vGIN: graph isomorphism network with a virtual node."""

from __future__ import annotations

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from fgw_jax.backbones import nodes
from fgw_jax.backbones.layers import Linear
from fgw_jax.backbones.model import MessagePassing
from fgw_jax.inputs import float_dtype


class Isomorphism(nn.Module):
    """``MLP((1 + eps) x_v + sum_u A_uv x_u)`` with a two-layer ReLU MLP and learnable eps.

    The first linear map commutes with the sum over neighbors. It is applied first, fused with a
    pending batch norm, unless the rows are features narrower than the layer: their sum does not
    depend on the weights, and has no backward pass.
    """

    width: int

    @nn.compact
    def __call__(
        self,
        rows: jax.Array,
        affine: tuple[jax.Array, jax.Array] | None,
        adjacency: nodes.Dense | nodes.Sparse,
    ) -> jax.Array:
        """New rows ``[M, width]``."""
        eps = self.param("eps", nn.initializers.zeros, (), float_dtype())
        bias = self.param("bias", nn.initializers.zeros, (self.width,), float_dtype())
        weigh = Linear(self.width, use_bias=False)
        # One eps per column, so that its gradient is a vectorized sum over rows.
        itself = 1 + jnp.broadcast_to(eps, (self.width,))
        if affine is None and rows.shape[-1] <= self.width:
            rows = weigh(adjacency.apply(rows) + itself[: rows.shape[-1]] * rows)
        else:
            rows = weigh(rows, affine)
            rows = adjacency.apply(rows) + itself * rows
        return Linear(self.width)(jax.nn.relu(rows + bias))


class VGIN(MessagePassing):
    """X <- BatchNorm(ReLU(MLP((1 + eps) X + A X))), virtual edges included."""

    title: ClassVar[str] = "vGIN"

    def convolution(self) -> nn.Module:
        """One isomorphism layer."""
        return Isomorphism(self.hidden)
