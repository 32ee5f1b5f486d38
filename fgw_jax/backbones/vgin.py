"""vGIN: graph isomorphism network with a virtual node."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from fgw_jax.backbones import nodes
from fgw_jax.backbones.layers import Linear, real_dtype
from fgw_jax.backbones.model import MessagePassing


class Isomorphism(nn.Module):
    """``MLP((1 + eps) x_v + sum_u A_uv x_u)`` with a two-layer ReLU MLP and learnable eps.

    The first linear map commutes with the sum over neighbours and goes first: the sum is then as
    wide as the layer whatever the features are, and takes a pending batch norm with it.
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
        eps = self.param("eps", nn.initializers.zeros, (), real_dtype())
        bias = self.param("bias", nn.initializers.zeros, (self.width,), real_dtype())
        rows = Linear(self.width, use_bias=False)(rows, affine)
        # One eps a column, so that its gradient is a sum over rows that vectorises.
        itself = 1 + jnp.broadcast_to(eps, (self.width,))
        rows = jax.nn.relu(adjacency.apply(rows) + itself * rows + bias)
        return Linear(self.width)(rows)


class VGIN(MessagePassing):
    """X <- BatchNorm(ReLU(MLP((1 + eps) X + A X))), virtual edges included."""

    def convolution(self) -> nn.Module:
        """One isomorphism layer."""
        return Isomorphism(self.hidden)
