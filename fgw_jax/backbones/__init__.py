"""Backbones: vGCN, vGIN, Graphormer, GraphormerGD, all with a virtual node as READOUT."""

from __future__ import annotations

from typing import Any

from fgw_jax.backbones.graphormer import Graphormer
from fgw_jax.backbones.graphormer_gd import GraphormerGD
from fgw_jax.backbones.model import Backbone, MessagePassing
from fgw_jax.backbones.vgcn import VGCN
from fgw_jax.backbones.vgin import VGIN
from fgw_jax.errors import InputError, check

#: flag spelling -> class; a new backbone is one more row
BACKBONES: dict[str, type[Backbone]] = {
    "vgcn": VGCN,
    "vgin": VGIN,
    "graphormer": Graphormer,
    "graphormer_gd": GraphormerGD,
}
#: names of the message-passing networks, and of those that attend over shortest paths
MPNNS = tuple(name for name, kind in BACKBONES.items() if issubclass(kind, MessagePassing))
GRAPHORMERS = tuple(name for name, kind in BACKBONES.items() if issubclass(kind, Graphormer))


def make(
    name: str, num_classes: int, hidden: int = 64, num_layers: int = 6, **options: Any
) -> Backbone:
    """Create a backbone by name.

    Args:
        name: one of :data:`BACKBONES`.
        num_classes: number of logits.
        hidden: width; by default the paper's.
        num_layers: number of layers; by default the paper's.
        options: further fields of its class, such as ``dropout``.

    Returns:
        The flax module.

    Raises:
        InputError: if the name is unknown or a number is out of range.

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
        check(0 <= rate < 1, f"{argument}: {rate} is not a dropout rate; use one from 0 to below 1")
    return BACKBONES[name](num_classes, hidden, num_layers, **options)


__all__ = [
    "BACKBONES", "GRAPHORMERS", "MPNNS", "VGCN", "VGIN", "Backbone", "Graphormer", "GraphormerGD",
    "make",
]  # fmt: skip
