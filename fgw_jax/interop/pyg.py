"""Graphs from and to PyTorch Geometric, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.graphs import Graph
from fgw_jax.interop.common import from_adjacency, host_arrays, library, tensor


def to_pyg(graph: Graph, label: ArrayLike | None = None) -> Any:
    """A ``torch_geometric.data.Data`` of the real nodes, every edge in both directions.

    ``x`` holds the features, ``edge_weight`` the adjacency's entries, ``weights`` the node weights,
    ``y`` the label if given, and ``structure`` the structure unless it is the adjacency.

    Args:
        graph: the graph; padding is left out.
        label: a class index, or a row of soft labels.

    Raises:
        InputError: if torch or torch_geometric cannot be imported.
    """
    data = library("torch_geometric.data", "torch_geometric")
    arrays = host_arrays(graph.unpad())
    sources, targets = np.nonzero(arrays.adjacency)
    out = data.Data(
        x=tensor(arrays.features),
        edge_index=tensor(np.stack([sources, targets])),
        edge_weight=tensor(arrays.adjacency[sources, targets]),
        weights=tensor(arrays.weights),
    )
    if not np.array_equal(arrays.structure, arrays.adjacency):
        out.structure = tensor(arrays.structure)
    if label is not None:
        label = np.asarray(label)
        out.y = tensor(label[None] if label.ndim else label.reshape(1))
    return out


def from_pyg(
    data: Any,
    *,
    measure: str | ArrayLike | None = None,
    structure: str | ArrayLike | None = None,
) -> Graph:
    """Read a ``torch_geometric.data.Data``: ``x``, ``edge_index`` and, if there, ``edge_weight``.

    Args:
        data: one graph, not a batch of several.
        measure: as in :meth:`fgw_jax.Graph.from_adjacency`; by default what :func:`to_pyg` wrote.
        structure: likewise.

    Raises:
        InputError: if ``data`` holds several graphs, or no ``edge_index`` beside ``adj_t``.
    """
    count = getattr(data, "num_graphs", 1)
    check(count == 1, f"data: holds {count} graphs; read each of data.to_data_list()")
    check(
        getattr(data, "adj_t", None) is None or getattr(data, "edge_index", None) is not None,
        "data: has adj_t and no edge_index, as ToSparseTensor leaves it; keep edge_index",
    )
    stored = {
        name: None
        if getattr(data, name, None) is None
        else getattr(data, name).detach().cpu().numpy()
        for name in ("x", "edge_index", "edge_weight", "weights", "structure")
    }
    graph = Graph.from_edges(
        np.zeros((0, 2), int) if stored["edge_index"] is None else stored["edge_index"].T,
        data.num_nodes,
        edge_weights=stored["edge_weight"],
    )
    return from_adjacency(
        graph.adjacency,
        stored["x"],
        stored["weights"] if measure is None else measure,
        stored["structure"] if structure is None else structure,
    )
