"""Fused Gromov-Wasserstein distances: problem, solvers, batched front door."""

from fgw_jax.fgw.distances import Distances, distance, distances, pairwise
from fgw_jax.fgw.iteration import Output, Status
from fgw_jax.fgw.problem import Problem, from_graphs
from fgw_jax.fgw.reference import Reference
from fgw_jax.fgw.relaxed import Decay, Relaxed
from fgw_jax.fgw.scaling import scale_features
from fgw_jax.fgw.strict import Strict

__all__ = [
    "Decay",
    "Distances",
    "Output",
    "Problem",
    "Reference",
    "Relaxed",
    "Status",
    "Strict",
    "distance",
    "distances",
    "from_graphs",
    "pairwise",
    "scale_features",
]
