"""Attributed graphs and their padded, masked batches.

A graph is the tuple (mu, X, A) of the paper, plus its adjacency and a mask that separates real
nodes from padding. Graphs built on the host hold numpy arrays, so that thousands are cheap to make;
the same class holds jax arrays, traced or not, inside a user's jit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, overload

import jax
import numpy as np
from jax.typing import ArrayLike

from fgw_jax import structure as structures
from fgw_jax.errors import InputError, check
from fgw_jax.fields import FIELDS, GraphArrays, counted, is_single, kinds, with_names
from fgw_jax.inputs import (
    check_whole,
    concrete,
    edge_pairs,
    float_dtype,
    floats,
    node_weights,
    symmetric,
    without_diagonal,
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Graph(GraphArrays):
    """An undirected attributed graph with ``n`` nodes, padding included.

    Attributes:
        structure: ``[n, n]`` symmetric matrix A compared by the transport (adjacency by default).
        features: ``[n, d]`` node features X.
        weights: ``[n]`` node weights mu, a probability vector; zero on padding.
        adjacency: ``[n, n]`` symmetric edge weights with zero diagonal, read by the backbones.
        mask: ``[n]`` bool, true on real nodes. Zero weight alone does not mark padding.

    >>> g = Graph.from_adjacency([[0, 1], [1, 0]], [[1.0], [2.0]])
    >>> g.num_nodes, g.pad(4).num_nodes, g.pad(4).structure.shape
    (2, 2, (4, 4))
    >>> g
    Graph(2 nodes, 1 edge, 1 feature, float32)
    """

    def __repr__(self) -> str:
        size = self.mask.shape[-1]
        known = concrete(self.mask) and concrete(self.adjacency)
        if not known or self.mask.ndim != 1:
            return f"Graph({kinds(self)}, traced or stacked, mask {self.mask.shape})"
        n = self.num_nodes
        padded = f" padded to {size}" if size != n else ""
        edges = np.count_nonzero(np.triu(np.asarray(self.adjacency)))
        return f"Graph({counted(n, 'node')}{padded}, {counted(edges, 'edge')}, {kinds(self)})"

    @classmethod
    def from_adjacency(
        cls,
        adjacency: ArrayLike,
        features: ArrayLike | None = None,
        *,
        measure: str | ArrayLike = "uniform",
        structure: str | ArrayLike = "adjacency",
    ) -> Graph:
        """Build a graph from an adjacency matrix ``[n, n]`` and features ``[n, d]``.

        Self-loops are dropped from ``adjacency`` (a given ``structure`` matrix is kept as it is).
        Without features every node gets the single constant feature 1.

        Args:
            adjacency: symmetric edge weights, ``[n, n]``.
            features: node features, ``[n, d]`` or ``[n]``.
            measure: a name of :data:`fgw_jax.structure.MEASURES` or weights
                ``[n]``, normalized here.
            structure: a name of :data:`fgw_jax.structure.STRUCTURES` or a matrix ``[n, n]``.

        Raises:
            InputError: naming the argument, for wrong shapes, asymmetric matrices, entries that are
                not finite, weights that are no measure, and unknown names.
        """
        adjacency = symmetric("adjacency", adjacency)
        n = adjacency.shape[0]
        adjacency = without_diagonal(adjacency)
        if features is None:
            features = np.ones((n, 1), adjacency.dtype)
        features = floats("features", features)
        features = features[:, None] if features.ndim == 1 else features
        check(
            features.ndim == 2 and features.shape[0] == n,
            f"features: expected one row for each of the {n} nodes, got shape {features.shape}; "
            "pass an [n, d] array in the node order of the adjacency",
        )
        mask = np.ones(n, bool)
        if isinstance(structure, str) and structure == "adjacency":
            matrix = adjacency  # the same array: a dataset's worth of matrices is held once
        elif isinstance(structure, str):
            matrix = structures.compute(structure, adjacency, mask)
            check(
                not concrete(matrix) or bool(np.isfinite(matrix).all()),
                f"structure: {structure} of this adjacency is not finite; use smaller weights",
            )
        else:
            matrix = symmetric("structure", structure)
            check(
                matrix.shape[0] == n,
                f"structure: expected a [{n}, {n}] matrix to go with the adjacency, got shape "
                f"{matrix.shape}; pass one row and column for each node",
            )
        if isinstance(measure, str):
            weights = structures.measure(measure, adjacency, mask)
        else:
            weights = node_weights(measure, n)
        names = (
            structure if isinstance(structure, str) else None,
            measure if isinstance(measure, str) else None,
        )
        return with_names(cls(matrix, features, weights, adjacency, mask), names)

    @classmethod
    def from_edges(
        cls,
        edges: ArrayLike,
        num_nodes: int,
        features: ArrayLike | None = None,
        *,
        edge_weights: ArrayLike | None = None,
        **options: Any,
    ) -> Graph:
        """Build a graph from undirected edges; one listed twice or both ways counts once.

        Args:
            edges: pairs of node numbers from 0, ``[m, 2]``.
            num_nodes: number of nodes ``n``.
            features: node features, ``[n, d]`` or ``[n]``; the constant 1 by default.
            edge_weights: ``[m]``; ones by default.
            options: ``measure`` and ``structure`` of :meth:`from_adjacency`.

        Raises:
            InputError: naming the argument, for numbers outside 0..n-1, wrong shapes, or an edge
                listed with different weights.

        >>> Graph.from_edges([(0, 1), (1, 0), (1, 2)], 3).adjacency.sum()
        np.float32(4.0)
        """
        pairs = edge_pairs(edges, num_nodes)
        values = np.ones(len(pairs), float_dtype())
        if edge_weights is not None:
            values = floats("edge_weights", edge_weights)
        check(
            values.shape == (len(pairs),),
            f"edge_weights: expected {len(pairs)} values, one per edge, got shape {values.shape}; "
            "pass one weight for each row of edges",
        )
        adjacency = np.zeros((num_nodes, num_nodes), float_dtype())
        adjacency[pairs[:, 0], pairs[:, 1]] = values
        adjacency[pairs[:, 1], pairs[:, 0]] = values
        check(
            bool((adjacency[pairs[:, 0], pairs[:, 1]] == values).all()),
            "edge_weights: an edge is listed twice with different weights; list each edge once",
        )
        return cls.from_adjacency(adjacency, features, **options)

    def unpad(self) -> Graph:
        """Drop the masked nodes (on the host: the result's shape depends on the mask)."""
        check(self.mask.ndim == 1, "unpad: the fields are stacked; unpad one graph at a time")
        keep = np.flatnonzero(np.asarray(self.mask))
        if len(keep) == self.mask.shape[-1]:
            return self
        both = np.ix_(keep, keep)
        structure, features, weights, adjacency, mask = (
            np.asarray(getattr(self, name)) for name in FIELDS
        )
        kept = adjacency[both]
        shared = structure is adjacency
        graph = Graph(
            kept if shared else structure[both], features[keep], weights[keep], kept, mask[keep]
        )
        return with_names(graph, self.names)

    def to_networkx(self) -> Any:
        """A ``networkx.Graph`` of the real nodes; :meth:`from_networkx` gives every field back."""
        from fgw_jax import interop

        return interop.to_networkx(self)

    @classmethod
    def from_networkx(cls, graph: Any, **options: Any) -> Graph:
        """Read a ``networkx.Graph``; see :func:`fgw_jax.interop.from_networkx`."""
        from fgw_jax import interop

        return interop.from_networkx(graph, **options)

    def to_jraph(self) -> Any:
        """A ``jraph.GraphsTuple`` of one graph; :meth:`from_jraph` gives every field back."""
        from fgw_jax import interop

        return interop.to_jraph(self)

    @classmethod
    def from_jraph(cls, graph: Any, **options: Any) -> Graph:
        """Read a ``jraph.GraphsTuple`` of one graph; see :func:`fgw_jax.interop.from_jraph`."""
        from fgw_jax import interop

        return interop.from_jraph(graph, **options)

    def to_pyg(self, label: ArrayLike | None = None) -> Any:
        """A ``torch_geometric.data.Data`` of the real nodes (needs torch and torch_geometric)."""
        from fgw_jax import interop

        return interop.to_pyg(self, label)

    @classmethod
    def from_pyg(cls, data: Any, **options: Any) -> Graph:
        """Read a ``torch_geometric.data.Data``; see :func:`fgw_jax.interop.from_pyg`."""
        from fgw_jax import interop

        return interop.from_pyg(data, **options)

    def to_dgl(self) -> Any:
        """A ``dgl.DGLGraph`` of the real nodes (needs torch and dgl)."""
        from fgw_jax import interop

        return interop.to_dgl(self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Batch(GraphArrays):
    """Graphs padded to one size and stacked: the fields of :class:`Graph` with a leading axis.

    ``jax.vmap`` over a batch hands each lane to the mapped function as a single graph.

    >>> small, large = Graph.from_edges([(0, 1)], 2), Graph.from_edges([(0, 1), (1, 2)], 3)
    >>> batch = Batch.stack([small, large])
    >>> len(batch), batch.structure.shape, batch[0].num_nodes
    (2, (2, 3, 3), 2)
    >>> batch
    Batch(2 graphs padded to 3 nodes, 1 feature, float32)
    """

    def __repr__(self) -> str:
        if np.ndim(self.mask) != 2:  # one lane of it, under vmap, or a batch of batches
            return f"Batch({kinds(self)}, mask {self.mask.shape})"
        count, size = self.mask.shape
        return f"Batch({counted(count, 'graph')} padded to {counted(size, 'node')}, {kinds(self)})"

    @classmethod
    def stack(cls, graphs: Sequence[Graph], size: int | None = None) -> Batch:
        """Stack graphs of one feature width.

        Args:
            graphs: the graphs, at least one.
            size: number of nodes to pad all of them to; the largest by default.

        Returns:
            The batch, in the order of ``graphs``.

        Raises:
            InputError: for an empty list, entries that are no single graphs, different feature
                widths, or a ``size`` below the largest graph.
        """
        check_list("graphs", graphs)
        largest = max(g.mask.shape[-1] for g in graphs)
        n = largest if size is None else size
        check_whole("size", n)
        check(
            n >= largest,
            f"size: the largest graph has {largest} nodes, got size={size}; "
            f"pass at least {largest}",
        )
        if any(not concrete(leaf) for leaf in jax.tree.leaves(list(graphs))):
            padded = [g.pad(n) for g in graphs]
            return cls(*(jax.numpy.stack([getattr(g, f) for g in padded]) for f in FIELDS))
        fields = {f: _stack_field([getattr(g, f) for g in graphs], f, n) for f in FIELDS[1:]}
        structure = fields["adjacency"]
        if any(g.structure is not g.adjacency for g in graphs):
            structure = _stack_field([g.structure for g in graphs], "structure", n)
        return cls(structure, **fields)

    def __len__(self) -> int:
        """Number of graphs, padding graphs (no real node) included."""
        return self.mask.shape[0]

    @overload
    def __getitem__(self, index: int) -> Graph: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> Batch: ...

    def __getitem__(self, index: Any) -> Graph | Batch:
        """Graph ``index``, still padded; a :class:`Batch` for a slice or an array of positions."""
        kind = Batch if isinstance(index, slice) or np.ndim(index) else Graph
        return kind(*(getattr(self, name)[index] for name in FIELDS))

    def __iter__(self) -> Iterator[Graph]:
        """Iterate over the padded graphs."""
        return (self[i] for i in range(len(self)))

    def unstack(self) -> list[Graph]:
        """The graphs without their padding, in order."""
        return [graph.unpad() for graph in jax.tree.map(np.asarray, self)]


def check_list(name: str, graphs: Sequence[Graph]) -> None:
    """Refuse an empty list, things that are not graphs, and mixed feature widths."""
    check(len(graphs) > 0, f"{name}: the list is empty; pass at least one graph")
    for i, g in enumerate(graphs):
        if not is_single(g):
            raise InputError(
                f"{name}: item {i} is a {type(g).__name__}, not a single Graph; "
                "build it with Graph.from_adjacency, or unstack the Batch"
            )
    widths = {g.features.shape[-1] for g in graphs}
    check(
        len(widths) == 1,
        f"{name}: feature widths differ ({sorted(widths)}); "
        "give every graph the same number of features",
    )


def _stack_field(values: list[Any], name: str, n: int) -> np.ndarray:
    arrays = [np.asarray(v) for v in values]
    square = name in ("structure", "adjacency")
    width = () if arrays[0].ndim == 1 else ((n,) if square else arrays[0].shape[1:])
    out = np.zeros((len(arrays), n, *width), np.result_type(*{a.dtype for a in arrays}))
    for row, a in zip(out, arrays, strict=True):
        row[tuple(slice(k) for k in a.shape)] = a
    return out
