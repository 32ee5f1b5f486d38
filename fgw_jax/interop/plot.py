"""Plots of graphs, midpoints, plans and histories (needs matplotlib and networkx).

Corresponding nodes have corresponding places: the midpoint is laid out once, and a source node is
placed at the midpoint nodes that carry its mass, pushed apart until no two nodes overlap.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.graphs import Graph
from fgw_jax.midpoint import decode
from fgw_jax.midpoint.barycenter import Midpoint
from fgw_jax.runtime import files

#: Least distance between two nodes, in units of the mean edge of a layout.
_SPACING = 0.9


def midpoint(graph1: Graph, graph2: Graph, mid: Midpoint, lam: float) -> Any:
    """Both sources and their decoded midpoint side by side, as in the paper's qualitative figure.

    Nodes are colored by their largest feature, sources titled with their mixing ratio.

    Args:
        graph1: first source.
        graph2: second source.
        mid: what :func:`fgw_jax.mixup` returned for them.
        lam: the weight of the first.

    Returns:
        A matplotlib figure.

    >>> from fgw_jax import Graph, mixup, plot
    >>> path, star = Graph.from_edges([(0, 1), (1, 2)], 3), Graph.from_edges([(0, 1), (0, 2)], 3)
    >>> figure = plot.midpoint(path, star, mixup(path, star, 0.5), 0.5)
    >>> len(figure.axes)
    3
    """
    from matplotlib.figure import Figure

    mixed = decoded(graph1, graph2, mid, lam)
    places = layout(mixed)
    plans = [
        np.asarray(plan)[np.ix_(*(np.flatnonzero(g.mask) for g in (mid.graph, source)))]
        for plan, source in zip(mid.plans, (graph1, graph2), strict=True)
    ]
    graph1, graph2 = graph1.unpad(), graph2.unpad()
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    axes = figure.subplots(1, 3)
    panels = (
        (graph1, carried(places, plans[0]), f"$G_1$, {lam:.2f}"),
        (graph2, carried(places, plans[1]), f"$G_2$, {1 - lam:.2f}"),
        (mixed, places, f"midpoint, {mixed.num_nodes} nodes"),
    )
    colors = palette([graph for graph, _, _ in panels])
    for axis, (graph, where, title) in zip(axes, panels, strict=True):
        draw(axis, graph, where, colors)
        axis.set_title(title)
    _legend(figure, colors)
    return figure


def decoded(graph1: Graph, graph2: Graph, mid: Midpoint, lam: float) -> Graph:
    """The midpoint with 0/1 edges at the lam-weighted density of its sources."""
    density = lam * graph1.density + (1 - lam) * graph2.density
    mixed = mid.graph.unpad()
    adjacency = np.asarray(decode(mixed.adjacency, density))
    return Graph.from_adjacency(adjacency, mixed.features)


def plan(values: ArrayLike, title: str = "transport plan") -> Any:
    """A transport plan as a heat map.

    Args:
        values: the plan, ``[n, m]``.
        title: title of the axes.

    Returns:
        A matplotlib figure.

    Raises:
        InputError: if ``values`` is no matrix.
    """
    from matplotlib.figure import Figure

    matrix = np.asarray(values)
    check(matrix.ndim == 2, f"values: expected a plan of two dimensions, got shape {matrix.shape}")
    figure = Figure(figsize=(5, 4), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(matrix, cmap="viridis", aspect="auto", interpolation="nearest")
    axis.set(title=title, xlabel="nodes of the second graph", ylabel="nodes of the first graph")
    figure.colorbar(image, ax=axis, label="mass")
    return figure


def history(mid: Midpoint) -> Any:
    """Objective of a midpoint over its outer steps, with its lower bound."""
    from matplotlib.figure import Figure

    values = np.asarray(mid.history)
    values = values[np.isfinite(values)]
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axis = figure.subplots()
    axis.plot(np.arange(len(values)), values, marker="o", markersize=3, label="objective")
    axis.axhline(float(mid.bound), color="grey", linestyle="--", label="lower bound")
    axis.set(xlabel="outer step", ylabel="objective")
    axis.legend()
    return figure


def save(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure to a file, atomically.

    Args:
        figure: a matplotlib figure.
        path: the file; its suffix is the format, png without one.

    Returns:
        The path.
    """
    target = Path(path)
    with files.whole_file(target) as file:
        figure.savefig(file, format=target.suffix[1:] or "png", dpi=130)
    return target


def layout(graph: Graph) -> np.ndarray:
    """Places ``[n, 2]`` of the nodes: Kamada-Kawai for each component, components side by side."""
    import networkx as nx

    network = nx.from_numpy_array(np.asarray(graph.unpad().adjacency))
    places = np.zeros((len(network), 2))
    left = 0.0
    for component in sorted(nx.connected_components(network), key=len, reverse=True):
        nodes = sorted(component)
        spots = np.zeros((1, 2))
        if len(nodes) > 1:
            found = nx.kamada_kawai_layout(network.subgraph(nodes))
            spots = np.array([found[node] for node in nodes]) * np.sqrt(len(nodes))
        spots = spots - [spots[:, 0].min(), spots[:, 1].mean()]
        places[nodes] = spots + np.array([left, 0.0])
        left += np.ptp(spots[:, 0]) + 2 * _SPACING
    return spread(places)


def carried(places: np.ndarray, plan: ArrayLike) -> np.ndarray:
    """Places of source nodes: the mean place of the midpoint nodes that carry their mass."""
    matrix = np.asarray(plan, np.float64)
    mass = np.maximum(matrix.sum(0), np.finfo(np.float64).tiny)
    return spread((matrix.T @ places[: matrix.shape[0]]) / mass[:, None])


def spread(places: np.ndarray, num_rounds: int = 300) -> np.ndarray:
    """Push nodes apart until all pairs are at least :data:`_SPACING` away from each other."""
    count = len(places)
    # Nodes on one spot need a direction each; a spiral gives the same ones at every call.
    angles = np.arange(count) * 2.399963
    places = places + 1e-3 * np.stack([np.cos(angles), np.sin(angles)], 1)
    for _ in range(num_rounds):
        offsets = places[:, None] - places[None]
        gaps = np.linalg.norm(offsets, axis=-1) + np.eye(count) * 1e9
        missing = np.maximum(_SPACING - gaps, 0.0)
        if not missing.any():
            break
        places = places + 0.5 * ((missing / gaps)[..., None] * offsets).sum(1)
    return places


def palette(graphs: Sequence[Graph]) -> dict[int, Any]:
    """A color for each feature that is the largest of some node."""
    from matplotlib import colormaps

    shown = sorted({int(label) for graph in graphs for label in _labels(graph)})
    name = "tab10" if len(shown) <= 10 else "tab20" if len(shown) <= 20 else "turbo"
    table = colormaps[name].resampled(len(shown)) if name == "turbo" else colormaps[name]
    return {label: table(number) for number, label in enumerate(shown)}


def draw(axis: Any, graph: Graph, places: np.ndarray, colors: dict[int, Any]) -> None:
    """Edges, then nodes colored by their largest feature."""
    from matplotlib.collections import LineCollection

    graph = graph.unpad()
    rows, columns = np.nonzero(np.triu(np.asarray(graph.adjacency)))
    lines = np.stack([places[rows], places[columns]], 1)
    axis.add_collection(LineCollection(list(lines), colors="#888888", linewidths=1.2, zorder=1))
    size = np.clip(1800.0 / max(graph.num_nodes, 1), 14.0, 150.0)
    axis.scatter(
        places[:, 0], places[:, 1], s=size, c=[colors[int(k)] for k in _labels(graph)],
        edgecolors="black", linewidths=0.6, zorder=2,
    )  # fmt: skip
    axis.set_aspect("equal")
    axis.margins(0.08)
    axis.axis("off")


def _labels(graph: Graph) -> np.ndarray:
    return np.asarray(graph.unpad().features).argmax(1)


def _legend(figure: Any, colors: dict[int, Any]) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], marker="o", linestyle="", color=color, markeredgecolor="black")
        for color in colors.values()
    ]
    figure.legend(
        marks, [f"feature {label}" for label in colors], loc="outside lower center",
        ncols=min(len(colors), 8), frameon=False,
    )  # fmt: skip
