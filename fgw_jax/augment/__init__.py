"""Augmentations: a dataset in, a dataset out, one signature.

>>> import jax
>>> from fgw_jax import augment, datasets
>>> train = datasets.synthetic(num_graphs=10)
>>> more = augment.make("ifmixup", ratio=0.5)(jax.random.key(0), train)
>>> len(more), more.labels.shape
(15, (15, 2))
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fgw_jax.augment.base import Augmentation
from fgw_jax.errors import InputError

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from fgw_jax.augment.drop_edge import DropEdge as DropEdge
    from fgw_jax.augment.drop_node import DropNode as DropNode
    from fgw_jax.augment.fgw_mixup import FGWMixup as FGWMixup
    from fgw_jax.augment.g_mixup import GMixup as GMixup
    from fgw_jax.augment.geodesic_mixup import GeodesicMixup as GeodesicMixup
    from fgw_jax.augment.if_mixup import IfMixup as IfMixup
    from fgw_jax.augment.manifold_mixup import ManifoldMixup as ManifoldMixup
    from fgw_jax.augment.masking import AttributeMasking as AttributeMasking
    from fgw_jax.augment.soft_alignment import SoftAlignment as SoftAlignment
    from fgw_jax.augment.subgraph import Subgraph as Subgraph
    from fgw_jax.augment.vanilla import Vanilla as Vanilla

#: class -> its file; a file is read when its class is first asked for
_CLASSES = {
    "AttributeMasking": "masking",
    "DropEdge": "drop_edge",
    "DropNode": "drop_node",
    "FGWMixup": "fgw_mixup",
    "GMixup": "g_mixup",
    "GeodesicMixup": "geodesic_mixup",
    "IfMixup": "if_mixup",
    "ManifoldMixup": "manifold_mixup",
    "SoftAlignment": "soft_alignment",
    "Subgraph": "subgraph",
    "Vanilla": "vanilla",
}

__all__ = ["METHODS", "Augmentation", "make", *_CLASSES]


def _class(name: str) -> Callable[..., Augmentation]:
    return getattr(importlib.import_module(f"{__name__}.{_CLASSES[name]}"), name)


def _build(class_name: str, /, **fields: Any) -> Augmentation:
    return _class(class_name)(**fields)


def _build_fgw_mixup(*, relaxed: bool, **fields: Any) -> Augmentation:
    from fgw_jax.fgw import Relaxed, Strict

    fields.setdefault("solver", Relaxed() if relaxed else Strict())
    return _class("FGWMixup")(**fields)


#: flag spelling -> function of the method's fields
METHODS: dict[str, Callable[..., Augmentation]] = {
    "vanilla": functools.partial(_build, "Vanilla"),
    "dropedge": functools.partial(_build, "DropEdge"),
    "dropnode": functools.partial(_build, "DropNode"),
    "mmixup": functools.partial(_build, "ManifoldMixup"),
    "ifmixup": functools.partial(_build, "IfMixup"),
    "gmixup": functools.partial(_build, "GMixup"),
    "gmixup_gw": functools.partial(_build, "GMixup", estimator="gw"),
    "gmixup_gw_star": functools.partial(_build, "GMixup", estimator="gw_star"),
    "gmixup_fgw": functools.partial(_build, "GMixup", estimator="fgw"),
    "fgwmixup": functools.partial(_build_fgw_mixup, relaxed=False),
    "fgwmixup_star": functools.partial(_build_fgw_mixup, relaxed=True),
    "smixup": functools.partial(_build, "SoftAlignment"),
    "geomix": functools.partial(_build, "GeodesicMixup"),
    "attrmask": functools.partial(_build, "AttributeMasking"),
    "subgraph": functools.partial(_build, "Subgraph"),
}


def make(name: str, **fields: Any) -> Augmentation:
    """The method of that flag spelling, a row of :data:`METHODS`, with some fields set.

    >>> make("dropedge", ratio=0.1)
    DropEdge(ratio=0.1)
    """
    if name not in METHODS:
        raise InputError(f"augment: no such method {name!r}; choose one of {', '.join(METHODS)}")
    try:
        return METHODS[name](**fields)
    except TypeError as error:
        known = [field.name for field in dataclasses.fields(METHODS[name]())]  # type: ignore[arg-type]
        unknown = sorted(set(fields) - set(known))
        if not unknown:
            raise
        raise InputError(
            f"{', '.join(unknown)}: no field of {name}; it has {', '.join(known) or 'none'}"
        ) from error


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        value = _class(name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
