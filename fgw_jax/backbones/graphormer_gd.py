"""GraphormerGD: attention biased and scaled by shortest paths and resistance distances."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from fgw_jax.backbones.distances import Distances, distances
from fgw_jax.backbones.graphormer import Graphormer, lookup
from fgw_jax.backbones.layers import Linear
from fgw_jax.graphs import Batch
from fgw_jax.inputs import float_dtype

#: range of resistances over which the centers of the Gaussian kernels are initialized
_FARTHEST = 12.0


class PairEncoder(nn.Module):
    """phi_1 and phi_2 of the paper: an MLP of the distance's entry and the resistance's kernels.

    gelu(table[hops] + kernels(resistance) W + b), then one linear map to the bias and the
    multiplier of every head. A table row is the shortest path's embedding times its part of the
    first linear map. The multiplier is initialized around one.
    """

    heads: int
    kernels: int
    entries: int

    @nn.compact
    def __call__(self, found: Distances) -> jax.Array:
        """Values ``[B, T, 2 heads]``: bias first."""
        dtype, k = float_dtype(), self.kernels
        table = self.param("table", nn.initializers.normal(1.0), (self.entries, k), dtype)
        spacing = _FARTHEST / max(k - 1, 1)
        centres = self.param("centres", lambda _: spacing * jnp.arange(k, dtype=dtype))
        log_width = self.param(
            "log_width", nn.initializers.constant(math.log(spacing)), (k,), dtype
        )
        kernels = jnp.exp(
            -(((found.resistance[..., None] - centres) * jnp.exp(-log_width)) ** 2) / 2
        )
        shape = kernels.shape[:2]
        inner = Linear(k)(kernels.reshape(-1, k)) + lookup(table, found.hops).reshape(-1, k)
        out = Linear(2 * self.heads)(jax.nn.gelu(inner)).reshape(*shape, -1)
        return out + jnp.repeat(jnp.array([0.0, 1.0], out.dtype), self.heads)


class GraphormerGD(Graphormer):
    """phi_1(D_sp, D_r) * softmax(Q K^T / sqrt(d) + phi_2(D_sp, D_r)), one encoder per layer.

    Shortest paths by table, resistance by Gaussian kernels, half as many as the width. Edge
    weights are conductances in the resistance.
    """

    title: ClassVar[str] = "GraphormerGD"

    def pairs(self) -> Callable[..., nn.Module]:
        """Constructor of the pair encoder of a layer."""
        return functools.partial(PairEncoder, self.heads, self.hidden // 2, self.cap + 3)

    def prepare(self, batch: Batch) -> Distances:
        """Shortest paths and resistances."""
        return distances(batch, self.cap, resistance=True)
