"""Fused Gromov-Wasserstein distances: problem, solvers, batched front door."""

from fgw_jax.fgw.arrays import solve
from fgw_jax.fgw.certificates import lower_bound, lower_bounds
from fgw_jax.fgw.conditional_gradient import ConditionalGradient
from fgw_jax.fgw.distances import Distances, distance, distances, pairwise, trace
from fgw_jax.fgw.iteration import Output, Solver, Status
from fgw_jax.fgw.mirror_descent import MirrorDescent
from fgw_jax.fgw.problem import Problem, from_graphs
from fgw_jax.fgw.reference import Reference
from fgw_jax.fgw.relaxed import AlternatingMirror, Relaxed, Schedule, ScheduledMirror
from fgw_jax.fgw.scaling import scale_features
from fgw_jax.fgw.strict import Strict

__all__ = [
    "AlternatingMirror",
    "ConditionalGradient",
    "Distances",
    "MirrorDescent",
    "Output",
    "Problem",
    "Reference",
    "Relaxed",
    "Schedule",
    "ScheduledMirror",
    "Solver",
    "Status",
    "Strict",
    "distance",
    "distances",
    "from_graphs",
    "lower_bound",
    "lower_bounds",
    "pairwise",
    "scale_features",
    "solve",
    "trace",
]
