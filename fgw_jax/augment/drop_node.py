"""DropNode (You et al., 2020): nodes removed with their edges, again at every training step."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.drop_edge import follow, random_round
from fgw_jax.augment.rebuild import rebuild
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class DropNode(Augmentation):
    """``ratio`` of a graph's nodes are removed with their edges.

    The number of removed nodes is ``ratio n``, rounded up or down at random so that its mean is
    exact, and at most n - 1: a graph is never emptied. The remaining weights are scaled to sum to
    one.

    Attributes:
        ratio: share of removed nodes. The paper does not print its own; 0.2 is the share of
            GraphCL.

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
        owner = np.repeat(np.arange(len(sizes)), sizes)
        keep = np.ones(len(owner), bool)
        keep[drawing.choose(drawing.generator(key), owner, len(sizes), self.ratio, leave=1)] = False
        kept = [np.flatnonzero(part) for part in np.split(keep, np.cumsum(sizes)[:-1])]
        return drawing.replace_graphs(dataset, rebuild(dataset, kept=kept), self.name)

    def on_graphs(self, key: jax.Array, batch: Batch) -> Batch:
        """Mask nodes of a padded batch and clear their weights, features and edges."""
        draw_key, round_key = jax.random.split(key)
        mask = jnp.asarray(batch.mask)
        draws = jnp.where(mask, jax.random.uniform(draw_key, mask.shape), 2.0)
        rank = jnp.argsort(jnp.argsort(draws, axis=-1), axis=-1)
        sizes = mask.sum(-1)
        removed = jnp.minimum(random_round(round_key, self.ratio * sizes), sizes - 1)
        return keep_nodes(batch, mask & (rank >= removed[:, None]))


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
