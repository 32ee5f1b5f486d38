"""Changed graphs on the host: all edges of a dataset in one array, and graphs built again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from fgw_jax import structure as structures
from fgw_jax.augment.drawing import names_of
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
    """The dataset's graphs with some fields changed; of changed edges the structure is recomputed.

    Args:
        dataset: the originals; padding is removed.
        adjacencies: new adjacency of each graph, over all its nodes.
        features: new features of each graph, over all its nodes.
        kept: positions of the nodes that stay; the weights are scaled to sum to one again.
    """
    same = adjacencies is None and kept is None
    name = None if same else names_of(dataset)[0]
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
    """A made graph without its isolated nodes; one without any edge keeps its nodes.

    Args:
        adjacency: edges ``[n, n]``.
        features: ``[n, d]``.
        structure: name of the structure, computed from the edges that are kept.
        measure: name of the node weights, likewise.
    """
    kept = np.flatnonzero(adjacency.any(1))
    if 0 < len(kept) < len(adjacency):
        adjacency, features = adjacency[np.ix_(kept, kept)], features[kept]
    return Graph.from_adjacency(adjacency, features, structure=structure, measure=measure)


def training_graph(
    matrix: np.ndarray,
    features: np.ndarray,
    sources: tuple[Graph, Graph],
    lam: float,
    structure: str,
    measure: str,
) -> Graph:
    """From a mix of two graphs to a training graph: threshold, drop isolated nodes, recompute.

    Edges are the entries beyond the threshold whose density is closest to lam d1 + (1 - lam) d2.
    Nodes left without an edge are dropped as in preprocessing, unless no edge is left at all
    (edgeless sources).

    Args:
        matrix: real-valued structure of the mix, ``[n, n]``.
        features: its features, ``[n, d]``.
        sources: the two graphs that were mixed.
        lam: weight of the first.
        structure: name of the structure that ``matrix`` mixes.
        measure: name of the node weights.
    """
    from fgw_jax.midpoint.decode import decode  # methods that mix nothing load no solver

    density = lam * sources[0].density + (1 - lam) * sources[1].density
    near = structure in structures.DISTANCE_LIKE
    edges = decode(np.asarray(matrix), float(density), distance_like=near)
    return connected_part(np.asarray(edges), np.asarray(features), structure, measure)
