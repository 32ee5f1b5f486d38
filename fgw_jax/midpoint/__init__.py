"""Midpoints of graphs: barycenters, starts, sizes, decoding, batched front door."""

from fgw_jax.midpoint.barycenter import Midpoint
from fgw_jax.midpoint.decode import decode
from fgw_jax.midpoint.descent import RelaxedDescent, VertexDescent
from fgw_jax.midpoint.mixups import Midpoints, mixup, mixups
from fgw_jax.midpoint.sizes import Median

__all__ = [
    "Median",
    "Midpoint",
    "Midpoints",
    "RelaxedDescent",
    "VertexDescent",
    "decode",
    "mixup",
    "mixups",
]
