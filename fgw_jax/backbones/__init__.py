"""Backbones: vGCN, vGIN, Graphormer, GraphormerGD, all with a virtual node as READOUT."""

from __future__ import annotations

from typing import Any

from fgw_jax.backbones.graphormer import Graphormer
from fgw_jax.backbones.graphormer_gd import GraphormerGD
from fgw_jax.backbones.model import Backbone
from fgw_jax.backbones.vgcn import VGCN
from fgw_jax.backbones.vgin import VGIN
from fgw_jax.errors import InputError, check

#: flag spelling -> class; a new backbone joins by a row
BACKBONES: dict[str, type[Backbone]] = {
    "vgcn": VGCN,
    "vgin": VGIN,
    "graphormer": Graphormer,
    "graphormer_gd": GraphormerGD,
}


def make(
    name: str, num_classes: int, hidden: int = 64, num_layers: int = 6, **options: Any
) -> Backbone:
    """The backbone of that name (:data:`BACKBONES`), by default as wide and deep as the paper's.

    ``options`` are the further fields of its class, such as ``dropout``.

    >>> make("vgin", num_classes=2, hidden=32).hidden
    32
    """
    if name not in BACKBONES:
        raise InputError(f"name: no such backbone {name!r}; choose one of {', '.join(BACKBONES)}")
    for argument, value in (
        ("num_classes", num_classes),
        ("hidden", hidden),
        ("num_layers", num_layers),
    ):
        check(value >= 1, f"{argument}: {value} must be at least 1")
    for argument in ("dropout", "attention_dropout"):
        rate = options.get(argument, 0.0)
        check(0 <= rate < 1, f"{argument}: {rate} is no rate; use one from 0 to below 1")
    return BACKBONES[name](num_classes, hidden, num_layers, **options)


__all__ = ["BACKBONES", "VGCN", "VGIN", "Backbone", "Graphormer", "GraphormerGD", "make"]
