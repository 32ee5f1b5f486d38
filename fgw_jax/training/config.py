"""Hyperparameters of a training run."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fgw_jax.errors import check
from fgw_jax.inputs import check_whole
from fgw_jax.training.metrics import METRICS


@dataclasses.dataclass(frozen=True)
class Config:
    """Hyperparameters of a training run; by default those of the paper's text.

    Attributes:
        epochs: passes over the training set; the paper has 400, and 300 for Graphormers.
        batch_size: graphs per step.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        clip_norm: maximum norm of the gradient; ``None`` disables clipping.
        decay_every: number of epochs after which the learning rate is multiplied by
            ``decay_factor``, repeatedly; ``None`` keeps it constant.
        decay_factor: see ``decay_every``.
        patience: number of epochs without a better validation score (or an equal score at a lower
            loss) after which training stops early; ``None`` disables early stopping.
        patience_from: first epoch at which training may stop early.
        select: validation metric that selects the best epoch: accuracy, auroc or loss. Ties are
            broken by the lower validation loss.
        max_shapes: maximum number of block sizes.
        max_pairs: bound on the padded pairs of nodes per step, beside one block of each size.
            Larger batches, as with many large graphs, are cut so that memory stays bounded.
        checkpoint_every: epochs between checkpoints.

    Raises:
        InputError: if a value is out of range.

    >>> Config(epochs=300).learning_rate
    0.001
    """

    epochs: int = 400
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    clip_norm: float | None = None
    decay_every: int | None = None
    decay_factor: float = 0.5
    patience: int | None = None
    patience_from: int = 100
    select: str = "accuracy"
    max_shapes: int = 7
    max_pairs: int = 2**22
    checkpoint_every: int = 10

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "max_shapes", "max_pairs", "checkpoint_every"):
            check_whole(name, getattr(self, name))
        for name in ("decay_every", "patience"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        check_whole("patience_from", self.patience_from, 0)
        check(
            self.clip_norm is None or self.clip_norm > 0,
            f"clip_norm: {self.clip_norm} must be above 0, or None",
        )
        check(
            self.decay_factor is not None and self.decay_factor > 0,
            f"decay_factor: {self.decay_factor} must be above 0; decay_every=None turns decay off",
        )
        check(self.learning_rate > 0, f"learning_rate: {self.learning_rate} must be above 0")
        check(self.weight_decay >= 0, f"weight_decay: {self.weight_decay} must be 0 or above")
        check(
            self.select in METRICS,
            f"select: no such metric {self.select!r}; choose one of {', '.join(METRICS)}",
        )

    @classmethod
    def authors(cls, **changes: Any) -> Config:
        """The hyperparameters of the authors' code, which go beyond the text.

        Learning rate halved every 50 epochs, gradients clipped at 5, early stopping with patience
        50 from epoch 100.
        """
        added = {"clip_norm": 5.0, "decay_every": 50, "patience": 50, "patience_from": 100}
        return cls(**{**added, **changes})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedHyperparameters:
    """The fields of a :class:`Config` that are traced: new values compile nothing."""

    learning_rate: jax.Array
    weight_decay: jax.Array
    clip_norm: jax.Array
    decay_every: jax.Array
    decay_factor: jax.Array
    patience: jax.Array
    patience_from: jax.Array

    @classmethod
    def of(cls, config: Config) -> TracedHyperparameters:
        """Convert a config; disabled options become numbers without effect."""
        never = 2**30
        return cls(
            jnp.asarray(config.learning_rate),
            jnp.asarray(config.weight_decay),
            jnp.asarray(jnp.inf if config.clip_norm is None else config.clip_norm),
            jnp.asarray(config.decay_every or never, jnp.int32),
            jnp.asarray(config.decay_factor),
            jnp.asarray(config.patience or never, jnp.int32),
            jnp.asarray(config.patience_from, jnp.int32),
        )
