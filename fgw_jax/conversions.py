"""Graphs from and to networkx, jraph, PyTorch Geometric and DGL, on the host.

What another library has no place for (node weights, a structure that is not the adjacency, the
mask of a padded graph) travels as attributes of the same names as the fields, so that a round
trip through networkx or jraph gives every field back. A graph that carries none of them is read
as :meth:`fgw_jax.Graph.from_adjacency` reads an adjacency.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import InputError, check
from fgw_jax.graphs import Graph


def to_networkx(graph: Graph) -> Any:
    """A ``networkx.Graph`` of the real nodes, numbered by their place in ``graph``.

    Nodes carry ``features`` ``[d]`` and ``weight``, edges ``weight`` (their entry of the
    adjacency), and the graph itself ``mask`` and ``structure`` (a matrix, with the ``edges`` it is
    of, or ``"adjacency"``).
    """
    networkx = _library("networkx")
    arrays = _host(graph)
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
    networkx = _library("networkx")
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
    read = _from_adjacency(adjacency, rows, measure, structure)
    return _spread(read, np.asarray(stored)) if ours else read


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


def to_jraph(graph: Graph) -> Any:
    """A ``jraph.GraphsTuple`` holding every edge in both directions.

    ``nodes`` is a dictionary: ``features`` ``[n, d]``, ``weights`` ``[n]``, ``mask`` ``[n]`` and,
    unless it is the adjacency, ``structure`` ``[n, n]``; ``edges`` is ``{"weight": [m]}``. Padding
    at the end becomes a second graph, as in jraph's own padding, so that jraph's masks apply.
    """
    jraph = _library("jraph")
    arrays = _host(graph)
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
        return _from_adjacency(adjacency, rows, mu, matrix)
    mask = np.asarray(mask, bool)
    real = np.flatnonzero(mask)
    adjacency = Graph.from_edges(pairs, n, edge_weights=weights).adjacency
    read = _from_adjacency(
        adjacency[np.ix_(real, real)],
        None if rows is None else np.asarray(rows)[real],
        mu if mu is None or isinstance(mu, str) else np.asarray(mu)[real],
        matrix
        if matrix is None or isinstance(matrix, str)
        else np.asarray(matrix)[np.ix_(real, real)],
    )
    return _spread(read, mask)


def to_pyg(graph: Graph, label: ArrayLike | None = None) -> Any:
    """A ``torch_geometric.data.Data`` of the real nodes, every edge in both directions.

    ``x`` holds the features, ``edge_weight`` the adjacency's entries, ``weights`` the node weights,
    ``y`` the label if given, and ``structure`` the structure unless it is the adjacency.
    """
    data = _library("torch_geometric.data", "torch_geometric")
    arrays = _host(graph.unpad())
    sources, targets = np.nonzero(arrays.adjacency)
    out = data.Data(
        x=_tensor(arrays.features),
        edge_index=_tensor(np.stack([sources, targets])),
        edge_weight=_tensor(arrays.adjacency[sources, targets]),
        weights=_tensor(arrays.weights),
    )
    if not np.array_equal(arrays.structure, arrays.adjacency):
        out.structure = _tensor(arrays.structure)
    if label is not None:
        label = np.asarray(label)
        out.y = _tensor(label[None] if label.ndim else label.reshape(1))
    return out


def from_pyg(
    data: Any,
    *,
    measure: str | ArrayLike | None = None,
    structure: str | ArrayLike | None = None,
) -> Graph:
    """Read a ``torch_geometric.data.Data``: ``x``, ``edge_index`` and, if there, ``edge_weight``.

    ``measure`` and ``structure`` as in :func:`from_networkx`; by default what :func:`to_pyg` wrote.
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
    return _from_adjacency(
        graph.adjacency,
        stored["x"],
        stored["weights"] if measure is None else measure,
        stored["structure"] if structure is None else structure,
    )


def to_dgl(graph: Graph) -> Any:
    """A ``dgl.DGLGraph`` of the real nodes, every edge in both directions.

    ``ndata`` holds ``feat`` and ``weight`` (and ``structure``, row by row, unless it is the
    adjacency), ``edata`` ``weight``.
    """
    dgl = _library("dgl")
    arrays = _host(graph.unpad())
    sources, targets = np.nonzero(arrays.adjacency)
    out = dgl.graph((_tensor(sources), _tensor(targets)), num_nodes=len(arrays.mask))
    out.ndata["feat"] = _tensor(arrays.features)
    out.ndata["weight"] = _tensor(arrays.weights)
    out.edata["weight"] = _tensor(arrays.adjacency[sources, targets])
    if not np.array_equal(arrays.structure, arrays.adjacency):
        out.ndata["structure"] = _tensor(arrays.structure)
    return out


def _library(module: str, package: str | None = None) -> Any:
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: installed, but not for this torch
        name = package or module
        raise InputError(
            f"{name}: this conversion needs it ({error}); pip install {name}"
        ) from error


def _host(graph: Graph) -> Graph:
    """The graph with numpy fields; refuses a batch."""
    arrays = Graph(
        *(
            np.asarray(field)
            for field in (
                graph.structure,
                graph.features,
                graph.weights,
                graph.adjacency,
                graph.mask,
            )
        )
    )
    check(arrays.mask.ndim == 1, "graph: this is a batch; convert the graphs of Batch.unstack()")
    return arrays


def _structure(arrays: Graph, real: np.ndarray) -> str | np.ndarray:
    if np.array_equal(arrays.structure, arrays.adjacency):
        return "adjacency"
    return arrays.structure[np.ix_(real, real)]


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


def _from_adjacency(
    adjacency: Any,
    features: Any,
    measure: str | ArrayLike | None,
    structure: str | ArrayLike | None,
) -> Graph:
    return Graph.from_adjacency(
        adjacency,
        features,
        measure="uniform" if measure is None else measure,
        structure="adjacency" if structure is None else structure,
    )


def _spread(graph: Graph, mask: np.ndarray) -> Graph:
    """Put the nodes of ``graph`` where ``mask`` is true, padding elsewhere."""
    if mask.all():
        return graph
    real = np.flatnonzero(mask)
    n, both = len(mask), np.ix_(real, real)
    structure, adjacency = np.zeros((2, n, n), graph.structure.dtype)
    structure[both], adjacency[both] = graph.structure, graph.adjacency
    features = np.zeros((n, graph.features.shape[1]), graph.features.dtype)
    weights = np.zeros(n, graph.weights.dtype)
    features[real], weights[real] = graph.features, graph.weights
    return Graph(structure, features, weights, adjacency, mask.astype(bool))


def _tensor(array: np.ndarray) -> Any:
    return _library("torch").as_tensor(np.array(array))
