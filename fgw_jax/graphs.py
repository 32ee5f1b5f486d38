"""Attributed graphs and their padded, masked batches.

A graph is the tuple (mu, X, A) of the paper, plus its adjacency and a mask that tells real nodes
from padding. Graphs built on the host hold numpy arrays, so that thousands are cheap to make; the
same class holds jax arrays, traced or not, inside a user's jit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from fgw_jax import structure as structures
from fgw_jax.errors import InputError, check

_FIELDS = ("structure", "features", "weights", "adjacency", "mask")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
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
    """

    structure: Any
    features: Any
    weights: Any
    adjacency: Any
    mask: Any

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
            measure: a name of :data:`fgw_jax.structure.MEASURES` or weights ``[n]``, normalised here.
            structure: a name of :data:`fgw_jax.structure.STRUCTURES` or a matrix ``[n, n]``.
        """
        adjacency = _symmetric("adjacency", adjacency)
        n = adjacency.shape[0]
        adjacency = _without_diagonal(adjacency)
        if features is None:
            features = np.ones((n, 1), adjacency.dtype)
        features = _floats("features", features)
        features = features[:, None] if features.ndim == 1 else features
        check(
            features.ndim == 2 and features.shape[0] == n,
            f"features: expected one row for each of the {n} nodes, got shape {features.shape}; "
            "pass an [n, d] array in the node order of the adjacency",
        )
        mask = np.ones(n, bool)
        if isinstance(structure, str):
            matrix = structures.compute(structure, adjacency, mask)
        else:
            matrix = _symmetric("structure", structure)
            check(
                matrix.shape[0] == n,
                f"structure: expected a [{n}, {n}] matrix to go with the adjacency, got shape "
                f"{matrix.shape}; pass one row and column for each node",
            )
        if isinstance(measure, str):
            weights = structures.measure(measure, adjacency, mask)
        else:
            weights = _weights(measure, n)
        return cls(matrix, features, weights, adjacency, mask)

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
        """Build a graph from undirected edges ``[m, 2]``; listed twice or both ways counts once.

        ``edge_weights`` ``[m]`` (ones by default) and the ``options`` of :meth:`from_adjacency`.

        >>> Graph.from_edges([(0, 1), (1, 0), (1, 2)], 3).adjacency.sum()
        np.float32(4.0)
        """
        pairs = np.asarray(edges, np.int64).reshape(-1, 2)
        check(
            num_nodes >= 1,
            f"num_nodes: a graph needs at least one node, got {num_nodes}; drop empty graphs",
        )
        check(
            pairs.size == 0 or (pairs.min() >= 0 and pairs.max() < num_nodes),
            f"edges: node numbers must lie in 0..{num_nodes - 1}; renumber the nodes from 0",
        )
        values = np.ones(len(pairs)) if edge_weights is None else np.asarray(edge_weights)
        check(
            values.shape == (len(pairs),),
            f"edge_weights: expected {len(pairs)} values, one an edge, got shape {values.shape}",
        )
        adjacency = np.zeros((num_nodes, num_nodes), _float_dtype())
        adjacency[pairs[:, 0], pairs[:, 1]] = values
        adjacency[pairs[:, 1], pairs[:, 0]] = values
        return cls.from_adjacency(adjacency, features, **options)

    @property
    def num_nodes(self) -> Any:
        """Number of real nodes: an int, or a traced scalar under jit."""
        if isinstance(self.mask, jax.core.Tracer):
            return self.mask.sum(-1)
        count = np.asarray(self.mask).sum(-1)
        return int(count) if count.ndim == 0 else count

    @property
    def density(self) -> Any:
        """Share of present edges, 2|E| / (n (n - 1)); 0 for one node. Edges are non-zero entries."""
        xp = jax.numpy if isinstance(self.adjacency, jax.Array) else np
        n = self.mask.sum(-1)
        entries = (self.adjacency != 0).sum((-2, -1))
        return xp.where(n > 1, entries / xp.maximum(n * (n - 1), 1), 0.0)

    def pad(self, size: int) -> Graph:
        """Append masked nodes of weight zero up to ``size`` nodes."""
        extra = size - self.mask.shape[-1]
        check(
            extra >= 0,
            f"size: cannot pad a graph of {self.mask.shape[-1]} nodes to {size}; pass at least its own size",
        )
        return jax.tree.map(lambda x, axes: _pad(x, extra, axes), self, _PAD_AXES)

    def unpad(self) -> Graph:
        """Drop the masked nodes (on the host: the result's shape depends on the mask)."""
        keep = np.flatnonzero(np.asarray(self.mask))
        if len(keep) == self.mask.shape[-1]:
            return self
        both = np.ix_(keep, keep)
        structure, features, weights, adjacency, mask = (
            np.asarray(getattr(self, name)) for name in _FIELDS
        )
        return Graph(structure[both], features[keep], weights[keep], adjacency[both], mask[keep])

    def to_networkx(self) -> Any:
        """A ``networkx.Graph`` of the real nodes that :meth:`from_networkx` reads back unchanged."""
        from fgw_jax import conversions

        return conversions.to_networkx(self)

    @classmethod
    def from_networkx(cls, graph: Any, **options: Any) -> Graph:
        """Read a ``networkx.Graph``; see :func:`fgw_jax.conversions.from_networkx`."""
        from fgw_jax import conversions

        return conversions.from_networkx(graph, **options)

    def to_jraph(self) -> Any:
        """A ``jraph.GraphsTuple`` of one graph that :meth:`from_jraph` reads back unchanged."""
        from fgw_jax import conversions

        return conversions.to_jraph(self)

    @classmethod
    def from_jraph(cls, graph: Any, **options: Any) -> Graph:
        """Read a ``jraph.GraphsTuple`` of one graph; see :func:`fgw_jax.conversions.from_jraph`."""
        from fgw_jax import conversions

        return conversions.from_jraph(graph, **options)

    def to_pyg(self, label: ArrayLike | None = None) -> Any:
        """A ``torch_geometric.data.Data`` of the real nodes (needs torch and torch_geometric)."""
        from fgw_jax import conversions

        return conversions.to_pyg(self, label)

    def to_dgl(self) -> Any:
        """A ``dgl.DGLGraph`` of the real nodes (needs torch and dgl)."""
        from fgw_jax import conversions

        return conversions.to_dgl(self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Batch(Graph):
    """Graphs padded to one size and stacked: the fields of :class:`Graph` with a leading axis.

    ``jax.vmap`` over a batch hands each lane to the mapped function as a single graph.

    >>> small, large = Graph.from_edges([(0, 1)], 2), Graph.from_edges([(0, 1), (1, 2)], 3)
    >>> batch = Batch.stack([small, large])
    >>> len(batch), batch.structure.shape, batch[0].num_nodes
    (2, (2, 3, 3), 2)
    """

    @classmethod
    def stack(cls, graphs: Sequence[Graph], size: int | None = None) -> Batch:
        """Stack graphs of one feature width, padded to ``size`` (the largest by default)."""
        check_list("graphs", graphs)
        largest = max(g.mask.shape[-1] for g in graphs)
        n = largest if size is None else size
        check(
            n >= largest,
            f"size: the largest graph has {largest} nodes, got size={size}; pass at least {largest}",
        )
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(list(graphs))):
            padded = [g.pad(n) for g in graphs]
            return cls(*(jax.numpy.stack([getattr(g, f) for g in padded]) for f in _FIELDS))
        return cls(*(_stack_field([getattr(g, f) for g in graphs], f, n) for f in _FIELDS))

    def __len__(self) -> int:
        """Number of graphs, padding graphs (no real node) included."""
        return self.mask.shape[0]

    def __getitem__(self, index: int) -> Graph:
        """Graph ``index``, still padded."""
        return Graph(*(getattr(self, name)[index] for name in _FIELDS))

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
        if not isinstance(g, Graph):
            raise InputError(
                f"{name}: item {i} is a {type(g).__name__}, not a Graph; "
                "build it with Graph.from_adjacency or Graph.from_networkx"
            )
    widths = {g.features.shape[-1] for g in graphs}
    check(
        len(widths) == 1,
        f"{name}: feature widths differ ({sorted(widths)}); give every graph the same number of features",
    )


_PAD_AXES = Graph((-2, -1), (-2,), (-1,), (-2, -1), (-1,))  # type: ignore[arg-type]


def _pad(x: Any, extra: int, axes: tuple[int, ...]) -> Any:
    widths = [(0, 0)] * x.ndim
    for axis in axes:
        widths[axis] = (0, extra)
    return (np if isinstance(x, np.ndarray) else jax.numpy).pad(x, widths)


def _stack_field(values: list[Any], name: str, n: int) -> np.ndarray:
    arrays = [np.asarray(v) for v in values]
    square = name in ("structure", "adjacency")
    width = () if arrays[0].ndim == 1 else ((n,) if square else arrays[0].shape[1:])
    out = np.zeros((len(arrays), n, *width), arrays[0].dtype)
    for row, a in zip(out, arrays, strict=True):
        row[tuple(slice(k) for k in a.shape)] = a
    return out


def _float_dtype() -> np.dtype:
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def _concrete(x: Any) -> bool:
    return not isinstance(x, jax.core.Tracer)


def _floats(name: str, values: ArrayLike) -> Any:
    if not _concrete(values):
        return values
    try:
        array = np.asarray(values, _float_dtype())
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: not a numeric array ({error}); pass numbers") from error
    check(
        bool(np.isfinite(array).all()),
        f"{name}: NaN or infinite entries; replace them before building the graph",
    )
    return array


def _symmetric(name: str, values: ArrayLike) -> Any:
    array = _floats(name, values)
    check(
        array.ndim == 2 and array.shape[0] == array.shape[1],
        f"{name}: expected a square matrix, got shape {array.shape}; pass an [n, n] array",
    )
    check(array.shape[0] > 0, f"{name}: the graph has no node; drop empty graphs")
    if _concrete(array):
        check(
            bool(np.allclose(array, array.T, rtol=1e-5, atol=1e-6)),
            f"{name}: not symmetric; graphs are undirected here: pass (M + M.T) / 2 or np.maximum(M, M.T)",
        )
    return array


def _without_diagonal(adjacency: Any) -> Any:
    if isinstance(adjacency, np.ndarray):
        if not adjacency.diagonal().any():
            return adjacency
        adjacency = adjacency.copy()
        np.fill_diagonal(adjacency, 0)
        return adjacency
    return adjacency * (1 - jax.numpy.eye(adjacency.shape[0], dtype=adjacency.dtype))


def _weights(values: ArrayLike, n: int) -> Any:
    weights = _floats("measure", values)
    check(
        weights.shape == (n,),
        f"measure: expected {n} node weights, got shape {weights.shape}; pass one weight a node",
    )
    if _concrete(weights):
        check(bool((weights >= 0).all()), "measure: negative weights; pass weights >= 0")
        check(weights.sum() > 0, "measure: weights sum to zero; give at least one node weight")
    return weights / weights.sum()
