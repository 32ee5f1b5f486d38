"""SYNTHETIC: graphs whose class depends on structure and features jointly."""

from __future__ import annotations

import numpy as np

from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import check
from fgw_jax.graphs import Graph

_COMMUNITIES = 3
_INSIDE, _ACROSS = 0.5, 0.12


def synthetic(
    num_graphs: int = 300,
    size: int = 20,
    noise: float = 0.25,
    num_classes: int = 2,
    seed: int = 0,
    *,
    structure: str = "adjacency",
    measure: str = "uniform",
) -> Dataset:
    """Planted communities whose nodes are colored with or against them.

    Every graph has three planted communities (edges with probability 0.5 inside, 0.12 across) of
    random sizes, and as many nodes of each color (one-hot features) as the communities have
    members. Class ``c`` of ``C`` keeps the colors of a share ``(1 - noise) (1 - c / (C - 1))`` of
    the nodes on their own community and shuffles the colors of the others among themselves.
    Structure and color counts thus have the same distribution in all classes: both structure and
    features are needed to predict the class, and small graphs do not determine it.

    Args:
      num_graphs: number of graphs, classes balanced.
      size: mean number of nodes; the numbers are even over ``[0.6 size, 1.4 size]``.
      noise: from 0 (as clear as the family gets) to 1 (classes are the same).
      num_classes: number of classes, levels of alignment.
      seed: same seed, same dataset.
      structure: a name of :data:`fgw_jax.structure.STRUCTURES`.
      measure: a name of :data:`fgw_jax.structure.MEASURES`.

    >>> data = synthetic(num_graphs=6, seed=1)
    >>> len(data), data.num_classes, data.num_features, data.name
    (6, 2, 3, 'SYNTHETIC')
    """
    check(num_classes >= 2, f"num_classes: {num_classes} is too few; use at least 2")
    check(
        num_graphs >= num_classes,
        f"num_graphs: {num_graphs} cannot hold {num_classes} classes; ask for more graphs",
    )
    check(size >= 5, f"size: {size} nodes cannot hold three communities; use at least 5")
    check(0 <= noise <= 1, f"noise: {noise} is not a share; use a number from 0 to 1")
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(num_graphs) % num_classes)
    aligned = (1 - noise) * (1 - labels / (num_classes - 1))
    drawn = [_colored_graph(rng, size, share) for share in aligned]
    graphs = [
        Graph.from_adjacency(adjacency, features, structure=structure, measure=measure)
        for adjacency, features in drawn
    ]
    return Dataset(graphs, labels, name="SYNTHETIC", num_classes=num_classes)


def _colored_graph(
    rng: np.random.Generator, size: int, aligned: float
) -> tuple[np.ndarray, np.ndarray]:
    """Adjacency and features."""
    n = int(rng.integers(round(0.6 * size), round(1.4 * size) + 1))
    # The first three nodes make sure that no community is empty.
    community = np.concatenate(
        [np.arange(_COMMUNITIES), rng.integers(_COMMUNITIES, size=n - _COMMUNITIES)]
    )
    same = community[:, None] == community[None, :]
    upper = np.triu(rng.random((n, n)) < np.where(same, _INSIDE, _ACROSS), 1)
    color = community.copy()
    moved = np.flatnonzero(rng.random(n) >= aligned)
    color[moved] = rng.permutation(color[moved])
    order = rng.permutation(n)
    adjacency = (upper | upper.T)[np.ix_(order, order)]
    return adjacency, np.eye(_COMMUNITIES)[color[order]]
