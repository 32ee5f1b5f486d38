"""Changed graphs on the host: all edges of a dataset in one array, and graphs built again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from fgw_jax import structure as structures
from fgw_jax.augment.drawing import structure_name
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.graphs import Graph


@dataclasses.dataclass(frozen=True, eq=False)
class FlatEdges:
    """Edges of all graphs of a dataset, so that one draw serves them all.

    Attributes:
        entries: adjacency entries of all graphs, one after the other, ``[sum n^2]``; a copy.
        starts: first entry of each graph, ``[N]``.
        sizes: nodes of each graph, ``[N]``.
        graphs: graph of each edge, ``[E]``.
        rows: first node of each edge, counted within its graph, ``[E]``.
        columns: second node, larger than the first, ``[E]``.
    """

    entries: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    graphs: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, dataset: Dataset) -> FlatEdges:
        """The edges of a dataset's real nodes."""
        matrices = [np.asarray(graph.unpad().adjacency) for graph in dataset.graphs]
        sizes = np.array([len(matrix) for matrix in matrices])
        starts = np.concatenate([[0], np.cumsum(sizes**2)[:-1]])
        entries = np.concatenate([matrix.ravel() for matrix in matrices])
        places = np.flatnonzero(entries)
        graphs = np.searchsorted(starts, places, side="right") - 1
        rows, columns = np.divmod(places - starts[graphs], sizes[graphs])
        once = rows < columns
        return cls(entries, starts, sizes, graphs[once], rows[once], columns[once])

    def remove(self, edges: np.ndarray) -> None:
        """Clear the edges at these positions, both ways."""
        start, size = self.starts[self.graphs[edges]], self.sizes[self.graphs[edges]]
        rows, columns = self.rows[edges], self.columns[edges]
        self.entries[start + rows * size + columns] = 0
        self.entries[start + columns * size + rows] = 0

    def matrices(self) -> list[np.ndarray]:
        """Adjacency of each graph, ``[n, n]``, as it is now."""
        return [
            self.entries[start : start + size**2].reshape(size, size)
            for start, size in zip(self.starts, self.sizes, strict=True)
        ]


def rebuild(
    dataset: Dataset,
    adjacencies: Sequence[np.ndarray] | None = None,
    features: Sequence[np.ndarray] | None = None,
    kept: Sequence[np.ndarray] | None = None,
) -> list[Graph]:
    """The dataset's graphs with some fields changed, their structure computed anew if need be.

    Args:
        dataset: the originals; padding is removed.
        adjacencies: new adjacency of each graph, over all its nodes.
        features: new features of each graph, over all its nodes.
        kept: positions of the nodes that stay; the weights are scaled to sum to one again.
    """
    same = adjacencies is None and kept is None
    name = None if same else structure_name(dataset)
    graphs = []
    for i, graph in enumerate(dataset.graphs):
        graph = graph.unpad()
        adjacency = np.asarray(graph.adjacency) if adjacencies is None else adjacencies[i]
        rows = np.asarray(graph.features) if features is None else features[i]
        weights, mask = np.asarray(graph.weights), np.asarray(graph.mask)
        if kept is not None and len(kept[i]) < len(mask):
            stay = kept[i]
            adjacency = adjacency[stay[:, None], stay[None, :]]
            rows, weights, mask = rows[stay], weights[stay], mask[stay]
            total = weights.sum()
            weights = weights / total if total > 0 else structures.uniform(adjacency)
        if name is None:
            structure = graph.structure
        else:
            structure = adjacency if name == "adjacency" else structures.compute(name, adjacency)
        graphs.append(Graph(structure, rows, weights, adjacency, mask))
    return graphs


def connected_part(
    adjacency: np.ndarray, features: np.ndarray, structure: str, measure: str
) -> Graph:
    """A made graph without its isolated nodes; one without any edge keeps its nodes."""
    kept = np.flatnonzero(adjacency.any(1))
    if 0 < len(kept) < len(adjacency):
        adjacency, features = adjacency[np.ix_(kept, kept)], features[kept]
    return Graph.from_adjacency(adjacency, features, structure=structure, measure=measure)
