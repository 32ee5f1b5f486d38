"""The one signature of all augmentations, and the hooks the training loop calls."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax

from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What every method is: a small frozen dataclass, called on a key and a training set.

    A method overrides one of three hooks; the other two stay identities, so that the
    training loop calls all three and knows no special case:

    - :meth:`__call__`, on the host, once per fold (or every ``refresh_every`` epochs);
    - :meth:`on_graphs`, pure and compiled, on each padded batch inside the training step;
    - :meth:`on_representations`, pure and compiled, after READOUT inside the training step.

    Methods with ``per_step`` set (DropEdge, DropNode, masking, subgraph) are redrawn at every
    step by :meth:`on_graphs`; calling them performs the same change once, for users without our
    loop. The loop therefore prepares a fold by :meth:`prepare`, never by :meth:`__call__`, or it
    would drop twice. Whatever a backbone derives from the adjacency (degrees, shortest paths) must
    be derived after :meth:`on_graphs`.
    """

    #: flag spelling, and the name written into :class:`~fgw_jax.datasets.dataset.Origin`.
    name: ClassVar[str] = "vanilla"

    #: epochs between fresh draws of :meth:`__call__` during training; ``None``: once per fold.
    refresh_every: ClassVar[int | None] = None

    #: whether the change belongs to :meth:`on_graphs`, redrawn at every training step.
    per_step: ClassVar[bool] = False

    #: whether made graphs carry continuous edge weights, which Graphormers cannot read.
    continuous_edges: ClassVar[bool] = False

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """Return the augmented training set; originals keep their place at the front."""
        return dataset.replace(labels=dataset.soft_labels())

    def prepare(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """What the loop trains on: the call's result, or for ``per_step`` methods the originals."""
        if self.per_step:
            return dataset.replace(labels=dataset.soft_labels())
        return self(key, dataset)

    def on_graphs(self, key: jax.Array, batch: Batch) -> Batch:
        """Change a padded batch of graphs; redrawn at every step."""
        return batch

    def on_representations(
        self, key: jax.Array, representations: jax.Array, labels: jax.Array, mask: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Change representations ``[B, h]`` and soft labels ``[B, C]``; ``mask`` ``[B]``: real."""
        return representations, labels
