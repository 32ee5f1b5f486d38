"""M-Mixup (Wang et al., 2021): representations mixed after READOUT, inside the training step."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifoldMixup(Augmentation):
    """``lam h_i + (1 - lam) h_j`` for every graph of a batch and a random partner.

    The partners are a random permutation of the batch's real graphs; one lam ~ Beta(k, k) per step.

    Attributes:
        beta_k: parameter of the Beta distribution; 0.2 as for all mixups of the paper.
    """

    name: ClassVar[str] = "mmixup"
    beta_k: float = 0.2

    def __post_init__(self) -> None:
        drawing.check_mixing(0.0, self.beta_k)

    def on_representations(
        self, key: jax.Array, representations: jax.Array, labels: jax.Array, mask: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Mix ``[B, h]`` and ``[B, C]``; rows outside ``mask`` ``[B]`` are unchanged."""
        order_key, lam_key = jax.random.split(key)
        representations, labels = jnp.asarray(representations), jnp.asarray(labels)
        mask = jnp.asarray(mask).astype(bool)
        draws = jnp.where(mask, jax.random.uniform(order_key, mask.shape), 2.0)
        shuffled = jnp.argsort(draws)  # the real rows first, in random order
        partner = jnp.where(mask, shuffled[jnp.cumsum(mask) - 1], jnp.arange(len(mask)))
        lam = jax.random.beta(lam_key, self.beta_k, self.beta_k, dtype=representations.dtype)
        mix = lambda rows: lam * rows + (1 - lam) * rows[partner]  # noqa: E731
        return mix(representations), mix(labels).astype(labels.dtype)
