"""DropNode (You et al., 2020): nodes removed with their edges, anew at every training step."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.drop_edge import follow
from fgw_jax.augment.rebuild import rebuild
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Batch


@dataclasses.dataclass(frozen=True)
class DropNode(Augmentation):
    """Each node is removed, edges included, with probability ``ratio``.

    A graph is never emptied: the node with the largest draw stays. The remaining weights are
    scaled to sum to one.

    Attributes:
        ratio: expected share of removed nodes. The paper does not print its own; 0.2 is the share
            of GraphCL.

    >>> import jax
    >>> from fgw_jax import datasets
    >>> data = datasets.synthetic(num_graphs=4)
    >>> [graph.num_nodes for graph in DropNode(ratio=1.0)(jax.random.key(0), data).graphs]
    [1, 1, 1, 1]
    """

    name: ClassVar[str] = "dropnode"
    per_step: ClassVar[bool] = True
    ratio: float = 0.2

    def __post_init__(self) -> None:
        drawing.check_share("ratio", self.ratio)

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """One draw for the whole dataset: every graph replaced by its dropped version."""
        sizes = np.array([graph.num_nodes for graph in dataset.graphs])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        draws = drawing.generator(key).random(sizes.sum())
        keep = (draws >= self.ratio) | (
            draws == np.repeat(np.maximum.reduceat(draws, starts), sizes)
        )
        kept = [np.flatnonzero(part) for part in np.split(keep, starts[1:])]
        return drawing.replace_graphs(dataset, rebuild(dataset, kept=kept), self.name)

    def on_graphs(self, key: jax.Array, batch: Batch) -> Batch:
        """Mask nodes of a padded batch and clear their weights, features and edges."""
        draws = jnp.where(batch.mask, jax.random.uniform(key, batch.mask.shape), -1.0)
        keep = (draws >= self.ratio) | (draws == draws.max(-1, keepdims=True))
        return keep_nodes(batch, keep & batch.mask)


def keep_nodes(batch: Batch, keep: jax.Array) -> Batch:
    """The batch with nodes outside ``keep`` ``[B, n]`` turned into padding."""
    both = keep[:, :, None] & keep[:, None, :]
    adjacency = jnp.where(both, batch.adjacency, 0)
    structure = jnp.where(both, follow(batch, adjacency), 0)
    weights = jnp.where(keep, batch.weights, 0)
    total = weights.sum(-1, keepdims=True)
    # Nodes may weigh nothing: what is left of a graph can have no weight to scale.
    even = keep / jnp.maximum(keep.sum(-1, keepdims=True), 1)
    weights = jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), even)
    features = jnp.where(keep[..., None], batch.features, 0)
    return Batch(structure, features, weights.astype(batch.weights.dtype), adjacency, keep)
