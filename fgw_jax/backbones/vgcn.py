"""vGCN: graph convolutions with a virtual node."""

from __future__ import annotations

from typing import ClassVar

import flax.linen as nn
import jax

from fgw_jax.backbones import nodes
from fgw_jax.backbones.layers import Linear
from fgw_jax.backbones.model import MessagePassing
from fgw_jax.inputs import float_dtype


class GraphConvolution(nn.Module):
    """``A X W + b`` with ``A`` the renormalized adjacency.

    ``A`` multiplies the narrower of ``X`` and ``X W``. In the first layer that is ``X``, which does
    not depend on the weights, so that the backward pass there has no product with ``A``.
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
        bias = self.param("bias", nn.initializers.zeros, (self.width,), float_dtype())
        weigh = Linear(self.width, use_bias=False)
        if affine is None and rows.shape[-1] <= self.width:
            return weigh(adjacency.apply(rows)) + bias
        return adjacency.apply(weigh(rows, affine)) + bias


class VGCN(MessagePassing):
    """X <- BatchNorm(ReLU(A X W)), A = D^(-1/2) (A + I) D^(-1/2) over real and virtual nodes.

    The virtual node has zero features and an edge of weight one to every real node.
    """

    title: ClassVar[str] = "vGCN"

    def convolution(self) -> nn.Module:
        """One graph convolution."""
        return GraphConvolution(self.hidden)

    def operator(self, adjacency: nodes.Dense | nodes.Sparse) -> nodes.Dense | nodes.Sparse:
        """The renormalized adjacency."""
        return adjacency.renormalized()
