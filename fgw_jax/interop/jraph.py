"""Graphs from and to jraph, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.graphs import Graph
from fgw_jax.interop.common import from_adjacency, host_arrays, library, spread


def to_jraph(graph: Graph) -> Any:
    """A ``jraph.GraphsTuple`` holding every edge in both directions.

    ``nodes`` is a dictionary: ``features`` ``[n, d]``, ``weights`` ``[n]``, ``mask`` ``[n]`` and,
    unless it is the adjacency, ``structure`` ``[n, n]``; ``edges`` is ``{"weight": [m]}``. Padding
    at the end becomes a second graph, as in jraph's own padding, so that jraph's masks apply.
    """
    jraph = library("jraph")
    arrays = host_arrays(graph)
    senders, receivers = np.nonzero(arrays.adjacency)
    nodes = {"features": arrays.features, "weights": arrays.weights, "mask": arrays.mask}
    if not np.array_equal(arrays.structure, arrays.adjacency):
        nodes["structure"] = arrays.structure
    n, real = len(arrays.mask), int(arrays.mask.sum())
    padding_last = 0 < real < n and bool(arrays.mask[:real].all())
    return jraph.GraphsTuple(
        nodes=nodes,
        edges={"weight": arrays.adjacency[senders, receivers]},
        senders=senders.astype(np.int32),
        receivers=receivers.astype(np.int32),
        n_node=np.array([real, n - real] if padding_last else [n], np.int32),
        n_edge=np.array([len(senders), 0] if padding_last else [len(senders)], np.int32),
        globals=None,
    )


def from_jraph(
    graph: Any,
    *,
    features: str | None = "features",
    edge_weight: str | None = "weight",
    measure: str | ArrayLike | None = None,
    structure: str | ArrayLike | None = None,
) -> Graph:
    """Read a ``jraph.GraphsTuple`` of one graph; edges may be listed in one direction or both.

    Args:
      graph: what :func:`to_jraph` wrote, or any other: its ``nodes`` are an array ``[n, d]``, a
        dictionary of arrays, or ``None`` (constant feature 1); its ``edges`` an array ``[m]`` or
        ``[m, 1]`` of weights, a dictionary of arrays, or ``None`` (every edge counts 1).
      features: key of the features, where ``nodes`` is a dictionary.
      edge_weight: key of the weights, where ``edges`` is a dictionary; ``None``: edges count 1.
      measure: as in :func:`from_networkx`.
      structure: likewise.
    """
    nodes = graph.nodes if isinstance(graph.nodes, dict) else {features: graph.nodes}
    mask = nodes.get("mask")
    check(
        features is None or features in nodes or set(nodes) <= {"weights", "mask", "structure"},
        f"features: nodes have no {features!r}, only {sorted(map(str, nodes))}; name the features, "
        "or pass None for a constant one",
    )
    # Further graphs are padding, as jraph and to_jraph append it, or they are not to be read.
    further = np.sum(graph.n_node[1:]) > 0
    check(
        not further or (mask is not None and not np.any(mask[int(graph.n_node[0]) :])),
        f"graph: holds {len(graph.n_node)} graphs; take one with jraph.unbatch, "
        "after jraph.unpad_with_graphs if it is padded",
    )
    n = int(np.sum(graph.n_node))
    weights = graph.edges
    if isinstance(weights, dict) or edge_weight is None:
        weights = weights.get(edge_weight) if isinstance(weights, dict) else None
    if weights is not None:
        weights = np.asarray(weights)
        check(
            weights.size == len(graph.senders),
            f"edge_weight: expected one number an edge, got shape {weights.shape}; "
            "pass edge_weight=None to count every edge once",
        )
        weights = weights.reshape(-1)
    pairs = np.stack([np.asarray(graph.senders), np.asarray(graph.receivers)], 1)
    matrix = nodes.get("structure") if structure is None else structure
    mu = nodes.get("weights") if measure is None else measure
    rows = nodes.get(features)
    if mask is None:
        adjacency = Graph.from_edges(pairs, n, edge_weights=weights).adjacency
        return from_adjacency(adjacency, rows, mu, matrix)
    mask = np.asarray(mask, bool)
    real = np.flatnonzero(mask)
    adjacency = Graph.from_edges(pairs, n, edge_weights=weights).adjacency
    read = from_adjacency(
        adjacency[np.ix_(real, real)],
        None if rows is None else np.asarray(rows)[real],
        mu if mu is None or isinstance(mu, str) else np.asarray(mu)[real],
        matrix
        if matrix is None or isinstance(matrix, str)
        else np.asarray(matrix)[np.ix_(real, real)],
    )
    return spread(read, mask)
