"""Fused Gromov-Wasserstein distances, midpoints and graph mixup in JAX.

The public names below are imported when first used, so that ``import fgw_jax`` stays light
and a solver never pays for flax or scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: rooms reachable as ``fgw_jax.<room>``
_ROOMS = (
    "augment", "backbones", "datasets", "errors", "interop", "large", "protocol", "runtime",
    "structure", "training",
)  # fmt: skip

#: modules of rooms that have a name here as well
_ALIASES = {"distributed": "fgw_jax.runtime.processes"}

#: public name -> the module that defines it
_NAMES = {
    "Batch": "fgw_jax.graphs",
    "Dataset": "fgw_jax.datasets.dataset",
    "Graph": "fgw_jax.graphs",
    "Reference": "fgw_jax.fgw",
    "Relaxed": "fgw_jax.fgw",
    "Strict": "fgw_jax.fgw",
    "barycenter": "fgw_jax.midpoint.several",
    "decode": "fgw_jax.midpoint",
    "distance": "fgw_jax.fgw",
    "distances": "fgw_jax.fgw",
    "estimate": "fgw_jax.estimates",
    "keep_programs": "fgw_jax.runtime.program_cache",
    "lower_bound": "fgw_jax.fgw",
    "mixup": "fgw_jax.midpoint",
    "mixups": "fgw_jax.midpoint",
    "pairwise": "fgw_jax.fgw",
    "plot": "fgw_jax.interop",
}

__all__ = ["__version__", *_ROOMS, *_ALIASES, *_NAMES]

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from fgw_jax import augment as augment
    from fgw_jax import backbones as backbones
    from fgw_jax import datasets as datasets
    from fgw_jax import errors as errors
    from fgw_jax import interop as interop
    from fgw_jax import large as large
    from fgw_jax import protocol as protocol
    from fgw_jax import runtime as runtime
    from fgw_jax import structure as structure
    from fgw_jax import training as training
    from fgw_jax.datasets.dataset import Dataset as Dataset
    from fgw_jax.estimates import estimate as estimate
    from fgw_jax.fgw import Reference as Reference
    from fgw_jax.fgw import Relaxed as Relaxed
    from fgw_jax.fgw import Strict as Strict
    from fgw_jax.fgw.certificates import lower_bound as lower_bound
    from fgw_jax.fgw.distances import distance as distance
    from fgw_jax.fgw.distances import distances as distances
    from fgw_jax.fgw.distances import pairwise as pairwise
    from fgw_jax.graphs import Batch as Batch
    from fgw_jax.graphs import Graph as Graph
    from fgw_jax.interop import plot as plot
    from fgw_jax.midpoint.decode import decode as decode
    from fgw_jax.midpoint.mixups import mixup as mixup
    from fgw_jax.midpoint.mixups import mixups as mixups
    from fgw_jax.midpoint.several import barycenter as barycenter
    from fgw_jax.runtime import processes as distributed  # noqa: F401
    from fgw_jax.runtime.program_cache import keep_programs as keep_programs


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _ALIASES:
        return importlib.import_module(_ALIASES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
