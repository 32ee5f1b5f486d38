"""Graphs from and to networkx, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.graphs import Graph
from fgw_jax.interop.common import from_adjacency, host_arrays, library, spread


def to_networkx(graph: Graph) -> Any:
    """A ``networkx.Graph`` of the real nodes, numbered by their place in ``graph``.

    Nodes carry ``features`` ``[d]`` and ``weight``, edges ``weight`` (their entry of the
    adjacency), and the graph itself ``mask`` and ``structure`` (a matrix, with the ``edges`` it is
    of, or ``"adjacency"``).
    """
    networkx = library("networkx")
    arrays = host_arrays(graph)
    real = np.flatnonzero(arrays.mask)
    structure = _structure(arrays, real)
    out = networkx.Graph(mask=arrays.mask, structure=structure)
    if not isinstance(structure, str):  # of these edges and no others
        out.graph["edges"] = arrays.adjacency[np.ix_(real, real)]
    for i in real.tolist():
        out.add_node(i, features=arrays.features[i], weight=float(arrays.weights[i]))
    rows, columns = np.nonzero(np.triu(arrays.adjacency))
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        out.add_edge(i, j, weight=float(arrays.adjacency[i, j]))
    return out


def from_networkx(
    graph: Any,
    *,
    features: str | ArrayLike | None = "features",
    edge_weight: str | None = "weight",
    measure: str | ArrayLike | None = None,
    structure: str | ArrayLike | None = None,
) -> Graph:
    """Read an undirected ``networkx.Graph``; nodes keep the order of ``graph.nodes``.

    Args:
      graph: the graph; self-loops are dropped.
      features: name of a node attribute (a number or a vector), or rows ``[n, d]`` in node order.
        When no node has the attribute, or with ``None``, every node gets the constant feature 1.
      edge_weight: name of an edge attribute, 1 where it is missing; ``None``: every edge counts 1.
      measure: as in :meth:`fgw_jax.Graph.from_adjacency`; by default the weights written by
        :func:`to_networkx`, or uniform.
      structure: likewise; by default what :func:`to_networkx` wrote, or the adjacency.

    >>> import networkx
    >>> from_networkx(networkx.path_graph(3), structure="shortest_path").structure[0].tolist()
    [0.0, 1.0, 2.0]
    """
    networkx = library("networkx")
    check(
        isinstance(graph, networkx.Graph) and not graph.is_directed() and not graph.is_multigraph(),
        f"graph: expected an undirected networkx.Graph, got {type(graph).__name__}; "
        "use networkx.Graph(graph), or graph.to_undirected()",
    )
    nodes = list(graph.nodes)
    check(len(nodes) > 0, "graph: it has no node; drop empty graphs")
    adjacency = networkx.to_numpy_array(graph, nodes, weight=edge_weight)
    rows = _attribute(graph, nodes, features) if isinstance(features, str) else features
    stored = graph.graph.get("mask")
    ours = stored is not None and np.asarray(stored).sum() == len(nodes)
    check(
        ours or stored is None or (measure is not None and structure is not None),
        "graph: its nodes changed after to_networkx, so the stored mask and structure do not fit; "
        "pass measure= and structure=",
    )
    if ours and measure is None:
        measure = _attribute(graph, nodes, "weight", "measure")
        measure = None if measure is None else measure[:, 0]
    if ours and structure is None:
        written = networkx.to_numpy_array(graph, nodes)
        structure = _stored_structure(graph, nodes, np.asarray(stored), written)
    read = from_adjacency(adjacency, rows, measure, structure)
    return spread(read, np.asarray(stored)) if ours else read


def _structure(arrays: Graph, real: np.ndarray) -> str | np.ndarray:
    if np.array_equal(arrays.structure, arrays.adjacency):
        return "adjacency"
    return arrays.structure[np.ix_(real, real)]


def _stored_structure(
    graph: Any, nodes: list[Any], mask: np.ndarray, adjacency: np.ndarray
) -> str | np.ndarray:
    """What :func:`to_networkx` stored, in the order of ``nodes``; of other edges it is refused."""
    structure = graph.graph["structure"]
    if isinstance(structure, str):
        return structure
    places = {place: i for i, place in enumerate(np.flatnonzero(mask).tolist())}
    edges = graph.graph.get("edges")
    order = [places.get(node, -1) for node in nodes]
    known = sorted(order) == list(range(len(nodes)))
    same = known and edges is not None and np.allclose(edges[np.ix_(order, order)], adjacency)
    check(
        same,
        "graph: its nodes or edges changed after to_networkx, so the stored structure does not "
        "fit; pass structure=",
    )
    return structure[np.ix_(order, order)]


def _attribute(
    graph: Any, nodes: list[Any], name: str, argument: str = "features"
) -> np.ndarray | None:
    """A node attribute as rows ``[n, d]``, or ``None`` when no node has it."""
    values = [graph.nodes[node].get(name) for node in nodes]
    without = [node for node, value in zip(nodes, values, strict=True) if value is None]
    if len(without) == len(nodes):
        return None
    check(
        not without,
        f"{argument}: nodes {without[:3]} have no attribute {name!r}; give it to all, or to none",
    )
    widths = {np.shape(value) for value in values}
    check(
        len(widths) == 1,
        f"{argument}: the attribute {name!r} has different shapes {sorted(widths)}; "
        "give every node a vector of the same length",
    )
    return np.array(values).reshape(len(nodes), -1)
