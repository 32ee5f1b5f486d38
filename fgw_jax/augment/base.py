"""The one signature of all augmentations, and the hooks the training loop calls."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax

from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Batch


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """What every method is: a small frozen dataclass, called on a key and a training set.

    A method overrides one of three hooks; the other two stay identities, so that the
    training loop calls all three and knows no special case:

    - :meth:`__call__`, on the host, once per fold (or every ``refresh_every`` epochs);
    - :meth:`on_graphs`, pure and compiled, on each padded batch inside the training step;
    - :meth:`on_representations`, pure and compiled, after READOUT inside the training step.
    """

    #: epochs between fresh draws of :meth:`__call__` during training; ``None``: once per fold.
    refresh_every: ClassVar[int | None] = None

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """Return the augmented training set; originals keep their place at the front."""
        return dataset

    def on_graphs(self, key: jax.Array, batch: Batch) -> Batch:
        """Change a padded batch of graphs; drawn anew at every step."""
        return batch

    def on_representations(
        self, key: jax.Array, representations: jax.Array, labels: jax.Array, mask: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Change representations ``[B, h]`` and soft labels ``[B, C]``; ``mask`` ``[B]``: real."""
        return representations, labels
