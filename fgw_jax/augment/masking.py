"""Node attribute masking (You et al., 2020): random features for a share of the nodes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment import drawing
from fgw_jax.augment.base import Augmentation
from fgw_jax.augment.rebuild import rebuild
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttributeMasking(Augmentation):
    """Each node gets, with probability ``ratio``, the features of a node drawn at random.

    The other node comes from the whole batch (or dataset), so that random features are features
    that occur; the structure stays.

    Attributes:
        ratio: expected share of nodes with random features.
    """

    name: ClassVar[str] = "attrmask"
    per_step: ClassVar[bool] = True
    ratio: float = 0.2

    def __post_init__(self) -> None:
        drawing.check_share("ratio", self.ratio)

    def __call__(self, key: jax.Array, dataset: Dataset) -> Dataset:
        """One draw for the whole dataset: every graph replaced by its masked version."""
        rng = drawing.generator(key)
        parts = [np.asarray(graph.unpad().features) for graph in dataset.graphs]
        rows = np.concatenate(parts)
        chosen = np.flatnonzero(rng.random(len(rows)) < self.ratio)
        masked = rows.copy()
        masked[chosen] = rows[rng.integers(len(rows), size=len(chosen))]
        features = np.split(masked, np.cumsum([len(part) for part in parts])[:-1])
        return drawing.replace_graphs(dataset, rebuild(dataset, features=features), self.name)

    def on_graphs(self, key: jax.Array, batch: Batch) -> Batch:
        """Exchange features ``[B, n, d]`` of masked nodes for those of real nodes of the batch."""
        choose, place = jax.random.split(key)
        real = jnp.asarray(batch.mask).ravel()
        order = jnp.argsort(~real, stable=True)  # real nodes first
        draws = jax.random.uniform(place, real.shape)
        count = real.sum()
        # min: the product may round up to the count itself
        other = order[jnp.minimum((draws * count).astype(jnp.int32), jnp.maximum(count - 1, 0))]
        flat = jnp.asarray(batch.features).reshape(-1, batch.features.shape[-1])
        masked = (jax.random.uniform(choose, real.shape) < self.ratio) & real
        features = jnp.where(masked[:, None], flat[other], flat).reshape(batch.features.shape)
        return dataclasses.replace(batch, features=features)
