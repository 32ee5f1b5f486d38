"""DropEdge (Rong et al., 2020): edges removed at random, again at every training step."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.rebuild import FlatEdges, rebuild
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class DropEdge(Augmentation):
    """``ratio`` of a graph's edges are removed; nodes, features and weights stay.

    The number of removed edges is ``ratio |E|``, rounded up or down at random so that its mean is
    exact; which ones, is drawn evenly.

    Attributes:
        ratio: share of removed edges. The paper does not print its own; 0.2 is the share GraphCL
            removes.

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
        edges = FlatEdges.of(dataset)
        rng = drawing.generator(key)
        edges.remove(drawing.choose(rng, edges.graphs, len(dataset), self.ratio))
        return drawing.replace_graphs(dataset, rebuild(dataset, edges.matrices()), self.name)

    def on_graphs(self, key: jax.Array, batch: Batch) -> Batch:
        """Remove edges of a padded batch ``[B, n, n]``, both directions together."""
        draw_key, round_key = jax.random.split(key)
        edges = jnp.triu(batch.adjacency != 0, 1)
        # 16 random bits an entry: half the work of a float, and thresholds by bisection below.
        draws = jax.random.bits(draw_key, edges.shape, "uint16").astype(jnp.int32)
        draws = jnp.where(edges, draws, 2**16)
        wanted = random_round(round_key, self.ratio * edges.sum((1, 2)))
        upper = edges & (draws >= _threshold(draws, wanted)[:, None, None])
        adjacency = batch.adjacency * (upper | jnp.swapaxes(upper, 1, 2))
        return dataclasses.replace(batch, adjacency=adjacency, structure=follow(batch, adjacency))


def random_round(key: jax.Array, values: jax.Array) -> jax.Array:
    """Whole numbers next to ``values``, up or down at random, whose mean is ``values``."""
    return jnp.floor(values + jax.random.uniform(key, values.shape)).astype(jnp.int32)


def follow(batch: Batch, adjacency: jax.Array) -> jax.Array:
    """Structure of a changed batch: the new adjacency where it was the adjacency, else as it was.

    No backbone reads the structure; other structures are not recomputed inside the step.
    """
    same = (batch.structure == batch.adjacency).all((-2, -1), keepdims=True)
    return jnp.where(same, adjacency, batch.structure)


def _threshold(draws: jax.Array, wanted: jax.Array) -> jax.Array:
    """Smallest number that ``wanted`` of the draws ``[B, n, n]`` lie below, ``[B]``."""

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) // 2
        enough = (draws < middle[:, None, None]).sum((1, 2)) >= wanted
        return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

    # Every draw of an edge lies below 2^16, and none below 0.
    low = jnp.full(wanted.shape, -1, jnp.int32)
    high = jnp.full(wanted.shape, 2**16, jnp.int32)
    return jax.lax.fori_loop(0, 17, halve, (low, high))[1]
