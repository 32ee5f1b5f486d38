"""Subgraph (You et al., 2020; Wang et al., 2020): a connected part grown from a random node."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.drop_node import keep_nodes
from fgw_jax.augment.rebuild import rebuild
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subgraph(Augmentation):
    """round((1 - ratio) n) nodes stay, at least one: a region grown from a random node.

    One random neighbor of the region joins it at a time; when a component is used up the region
    goes on from a random node elsewhere.

    Attributes:
        ratio: share of removed nodes; 0.2 as in GraphCL.
    """

    name: ClassVar[str] = "subgraph"
    per_step: ClassVar[bool] = True
    ratio: float = 0.2

    def __post_init__(self) -> None:
        drawing.check_share("ratio", self.ratio)

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """One draw for the whole dataset: every graph replaced by a part of it."""
        rng = drawing.generator(key)
        kept = []
        for graph in dataset.graphs:
            edges = np.asarray(graph.unpad().adjacency) != 0
            size = max(1, round((1 - self.ratio) * len(edges)))
            kept.append(_grow(rng.random(len(edges)), edges, size))
        return drawing.replace_graphs(dataset, rebuild(dataset, kept=kept), self.name)

    def on_graphs(self, key: jax.Array, batch: Batch) -> Batch:
        """Grow a region in every graph of a padded batch at once, one node per round."""
        edges = jnp.asarray(batch.adjacency) != 0
        mask = jnp.asarray(batch.mask)
        draws = jax.random.uniform(key, mask.shape)
        sizes = jnp.maximum(1, jnp.round((1 - self.ratio) * mask.sum(-1)))
        lanes = jnp.arange(mask.shape[0])

        def grow(count, state):
            keep, reached = state
            open_ = mask & ~keep
            # Neighbors of the region come first, then any other node; padding never.
            chosen = jnp.where(open_, draws + reached, -1.0).argmax(-1)
            joins = open_[lanes, chosen] & (count < sizes)
            keep = keep.at[lanes, chosen].max(joins)
            return keep, reached | (edges[lanes, chosen] & joins[:, None])

        start = jnp.zeros_like(mask), jnp.zeros_like(mask)
        keep, _ = jax.lax.fori_loop(0, mask.shape[-1], grow, start)
        return keep_nodes(batch, keep)


def _grow(draws: np.ndarray, edges: np.ndarray, size: int) -> np.ndarray:
    """Positions of ``size`` nodes, in order: the region of :class:`Subgraph` in one graph."""
    score = draws.copy()
    reached = np.zeros(len(draws), bool)
    for _ in range(size):
        chosen = int(score.argmax())
        new = edges[chosen] & ~reached
        reached |= new
        score[new] += 1
        score[chosen] = -2  # a later neighbor lifts it by one at most, and stays below any other
    return np.flatnonzero(score < 0)
