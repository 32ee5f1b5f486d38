"""Vanilla: the training set as it is."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from fgw_jax.augment.base import Augmentation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vanilla(Augmentation):
    """No augmentation; labels become one-hot rows like those of every other method."""

    name: ClassVar[str] = "vanilla"
