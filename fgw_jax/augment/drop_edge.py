"""DropEdge (Rong et al., 2020): edges removed at random, anew at every training step."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.rebuild import FlatEdges, rebuild
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Batch


@dataclasses.dataclass(frozen=True)
class DropEdge(Augmentation):
    """Each edge is removed with probability ``ratio``; nodes, features and weights stay.

    Attributes:
        ratio: expected share of removed edges. The paper does not print its own; 0.2 is the share
            GraphCL removes.

    >>> import jax
    >>> from fgw_jax import datasets
    >>> data = datasets.synthetic(num_graphs=4)
    >>> dropped = DropEdge(ratio=1.0)(jax.random.key(0), data)
    >>> len(dropped), sum(graph.adjacency.sum() for graph in dropped.graphs)
    (4, np.float32(0.0))
    """

    name: ClassVar[str] = "dropedge"
    per_step: ClassVar[bool] = True
    ratio: float = 0.2

    def __post_init__(self) -> None:
        drawing.check_share("ratio", self.ratio)

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """One draw for the whole dataset: every graph replaced by its dropped version."""
        rng = drawing.generator(key)
        edges = FlatEdges.of(dataset)
        removed = np.flatnonzero(rng.random(len(edges.rows)) < self.ratio)
        edges.remove(removed)
        return drawing.replace_graphs(dataset, rebuild(dataset, edges.matrices()), self.name)

    def on_graphs(self, key: jax.Array, batch: Batch) -> Batch:
        """Remove edges of a padded batch ``[B, n, n]``, both directions together."""
        keep = keep_mask(key, batch.adjacency.shape, self.ratio)
        upper = jnp.triu(keep, 1)
        adjacency = batch.adjacency * (upper | jnp.swapaxes(upper, -1, -2))
        return dataclasses.replace(batch, adjacency=adjacency, structure=follow(batch, adjacency))


def keep_mask(key: jax.Array, shape: tuple[int, ...], ratio: float) -> jax.Array:
    """True with probability ``1 - ratio``, from 16 random bits an entry: half the usual work."""
    return jax.random.bits(key, shape, "uint16").astype(jnp.int32) >= round(ratio * 2**16)


def follow(batch: Batch, adjacency: jax.Array) -> jax.Array:
    """Structure of a changed batch: the new adjacency where it was the adjacency, else as it was.

    No backbone reads the structure; other structures are not recomputed inside the step.
    """
    same = (batch.structure == batch.adjacency).all((-2, -1), keepdims=True)
    return jnp.where(same, adjacency, batch.structure)
