"""Graphons of a class of graphs: step functions on a grid, from degree-aligned graphs.

Node ``i`` of a sorted graph of ``n`` nodes owns the interval [i/n, (i+1)/n); graphs of all sizes
are averaged over the cells of one grid, each pair of distinct nodes counting by the area it covers.
Features are averaged the same way, which is the feature extension of G-Mixup (Han et al., 2022).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from fgw_jax.graphs import Graph


@dataclasses.dataclass(frozen=True, eq=False)
class Graphon:
    """Edge probabilities between ``K`` cells of equal width, and a feature vector for each.

    Attributes:
        edges: ``[K, K]`` symmetric, in [0, 1]; the diagonal is the probability within a cell.
        features: ``[K, d]`` mean features.
        num_graphs: how many graphs it was estimated from.
    """

    edges: np.ndarray
    features: np.ndarray
    num_graphs: int

    def resample(self, cells: int) -> Graphon:
        """The same step function read at the middles of ``cells`` cells."""
        place = ((np.arange(cells) + 0.5) * len(self.edges) / cells).astype(np.int64)
        return Graphon(self.edges[np.ix_(place, place)], self.features[place], self.num_graphs)


def degree_order(adjacency: np.ndarray) -> np.ndarray:
    """Nodes by falling degree, ties in the order they are stored."""
    return np.argsort(-np.abs(adjacency).sum(1), kind="stable")


def overlaps(cells: int, nodes: int) -> np.ndarray:
    """Length of the overlap of each of the equal ``cells`` and ``nodes`` of [0, 1], ``[K, n]``.

    Also the monotone coupling between the two: rows sum to 1/K, columns to 1/n.
    """
    right = np.minimum(np.arange(1, cells + 1)[:, None] / cells, np.arange(1, nodes + 1) / nodes)
    left = np.maximum(np.arange(cells)[:, None] / cells, np.arange(nodes) / nodes)
    return np.maximum(right - left, 0.0)


class Accumulator:
    """Running averages of graphs carried onto ``K`` cells by plans ``[K, n]``.

    >>> total = Accumulator(cells=2, width=1)
    >>> total.add(overlaps(2, 2), np.array([[0, 1], [1, 0]]), np.array([[1.0], [3.0]]))
    >>> total.graphon().edges[0, 1], total.graphon().features.ravel().tolist()
    (np.float64(1.0), [1.0, 3.0])
    """

    def __init__(self, cells: int, width: int) -> None:
        self.edges = np.zeros((cells, cells))
        self.area = np.zeros((cells, cells))
        self.features = np.zeros((cells, width))
        self.mass = np.zeros(cells)
        self.count = 0

    def add(self, plan: np.ndarray, adjacency: np.ndarray, features: np.ndarray) -> None:
        """Add one graph; the diagonal does not count."""
        rows = plan.sum(1)
        self.edges += plan @ adjacency @ plan.T
        self.area += rows[:, None] * rows[None, :] - plan @ plan.T
        self.features += plan @ features
        self.mass += rows
        self.count += 1

    def graphon(self) -> Graphon:
        """The averages; cells that saw no pair take the mean of their neighbors."""
        seen = self.area > 1e-3 * self.area.mean()
        edges = np.where(seen, self.edges / np.where(seen, self.area, 1.0), np.nan)
        edges = np.clip(_fill(edges), 0.0, 1.0)
        features = self.features / np.maximum(self.mass, np.finfo(float).tiny)[:, None]
        return Graphon((edges + edges.T) / 2, features, self.count)


def align(graphs: Sequence[Graph], cells: int) -> Graphon:
    """Average of degree-aligned graphs on a grid of ``cells``, before any smoothing.

    A pair of nodes is placed by the degrees its nodes have without each other. With the pair's own
    edge counted, the nodes that chance gave more edges come first and look denser than they are:
    with 100 nodes that alone doubles the error.
    """
    total = Accumulator(cells, graphs[0].features.shape[-1])
    for graph in graphs:
        adjacency = np.clip(np.asarray(graph.adjacency, np.float64), 0.0, 1.0)
        order = degree_order(adjacency)
        adjacency = adjacency[np.ix_(order, order)]
        degrees, n = adjacency.sum(1), len(order)
        others = (n - 1) / max(n - 2, 1)  # degrees without one neighbor, brought to full scale
        joined = _places(cells, degrees, (degrees - 1) * others)
        apart = _places(cells, degrees, degrees * others)
        plan = overlaps(cells, n)
        edges = joined @ adjacency @ joined.T
        rows = apart.sum(1)
        others_area = np.outer(rows, rows) - apart @ apart.T - apart @ adjacency @ apart.T
        total.edges += edges
        total.area += edges + others_area
        total.features += plan @ np.asarray(graph.features)[order]
        total.mass += plan.sum(1)
        total.count += 1
    return total.graphon()


def usvt(mean: Graphon, factor: float = 2.02) -> np.ndarray:
    """Universal singular value thresholding (Chatterjee, 2015) of the averaged graphs.

    Singular values below ``factor`` sqrt(K v) are noise and dropped, v being the variance of an
    averaged entry, the mean of w (1 - w) / num_graphs; the largest one always stays.
    """
    left, values, right = np.linalg.svd(mean.edges)
    variance = (mean.edges * (1 - mean.edges)).mean() / mean.num_graphs
    keep = values >= min(factor * np.sqrt(len(values) * variance), values[0])
    return np.clip((left[:, keep] * values[keep]) @ right[keep], 0.0, 1.0)


def stochastic_blocks(mean: Graphon, distance: float = 0.1) -> np.ndarray:
    """SBA (Airoldi et al., 2013): cells whose rows are close share a block, blocks are averaged.

    Cells join the first pivot whose row differs, in root mean square, by at most ``distance``
    times the largest entry.
    """
    rows = mean.edges
    block = np.full(len(rows), -1)
    for number in range(len(rows)):
        free = np.flatnonzero(block < 0)
        if not len(free):
            break
        apart = np.sqrt(((rows[free] - rows[free[0]]) ** 2).mean(1))
        block[free[apart <= distance * rows.max()]] = number
    return _block_means(rows, block)


def largest_gap(mean: Graphon, blocks: int | None = None) -> np.ndarray:
    """LG (Channarond et al., 2012): blocks cut at the largest gaps between sorted degrees.

    About sqrt(K) ``blocks`` unless given.
    """
    degrees = mean.edges.mean(1)
    order = np.argsort(-degrees, kind="stable")
    count = round(np.sqrt(len(order))) if blocks is None else blocks
    gaps = degrees[order][:-1] - degrees[order][1:]
    cuts = np.sort(np.argsort(-gaps, kind="stable")[: max(count - 1, 0)])
    block = np.empty(len(order), np.int64)
    block[order] = np.searchsorted(cuts, np.arange(len(order)))
    return _block_means(mean.edges, block)


def sort_and_smooth(mean: Graphon, weight: float = 0.02) -> np.ndarray:
    """SAS (Chan and Airoldi, 2014): sorted by degree, averaged over log K cells, TV-smoothed."""
    cells = len(mean.edges)
    coarse = max(1, -(-cells // max(1, round(np.log(cells)))))
    plan = overlaps(coarse, cells) * coarse
    smooth = _total_variation(plan @ mean.edges @ plan.T, weight)
    back = (np.arange(cells) * coarse) // cells
    return np.clip(smooth[np.ix_(back, back)], 0.0, 1.0)


#: estimators that read nothing but the degree-aligned average
ESTIMATORS: dict[str, Callable[[Graphon], np.ndarray]] = {
    "usvt": usvt,
    "sba": stochastic_blocks,
    "lg": largest_gap,
    "sas": sort_and_smooth,
}


def estimate(graphs: Sequence[Graph], cells: int, estimator: str = "usvt") -> Graphon:
    """The graphon of unpadded graphs by a row of :data:`ESTIMATORS`."""
    mean = align(graphs, cells)
    edges = ESTIMATORS[estimator](mean)
    return dataclasses.replace(mean, edges=(edges + edges.T) / 2)


def _places(cells: int, degrees: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Overlap ``[K, n]`` of cells and the intervals nodes of degrees ``wanted`` would own.

    ``degrees`` are those of the graph, falling; equal ones share the middle of their
    intervals.
    """
    n = len(degrees)
    distinct, first, counts = np.unique(-degrees, return_index=True, return_counts=True)
    middle = np.interp(-wanted, distinct, (first + counts / 2) / n)
    left = np.clip(middle - 0.5 / n, 0.0, 1.0 - 1.0 / n)
    edges = np.arange(cells + 1)[:, None] / cells
    inside = np.minimum(left + 1.0 / n, edges[1:]) - np.maximum(left, edges[:-1])
    return np.maximum(inside, 0.0)


def _fill(edges: np.ndarray) -> np.ndarray:
    """Missing cells from the mean of their neighbors, then of all cells, then zero."""
    for _ in range(2):
        missing = np.isnan(edges)
        if not missing.any():
            return edges
        padded = np.pad(edges, 1, constant_values=np.nan)
        around = np.stack(
            [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
        )
        known = ~np.isnan(around)
        mean = np.where(known, around, 0.0).sum(0) / np.maximum(known.sum(0), 1)
        edges = np.where(missing & known.any(0), mean, edges)
    known = ~np.isnan(edges)
    return np.where(known, edges, edges[known].mean() if known.any() else 0.0)


def _block_means(edges: np.ndarray, block: np.ndarray) -> np.ndarray:
    member = np.eye(block.max() + 1)[block]
    counts = member.sum(0)
    means = member.T @ edges @ member / np.outer(counts, counts)
    return means[np.ix_(block, block)]


def _total_variation(image: np.ndarray, weight: float, steps: int = 100) -> np.ndarray:
    """argmin_u |u - image|^2 / 2 + weight TV(u), by Chambolle's projection (2004)."""
    dual = np.zeros((2, *image.shape))

    def divergence() -> np.ndarray:
        out = dual.sum(0)
        out[1:] -= dual[0, :-1]
        out[:, 1:] -= dual[1, :, :-1]
        return out

    for _ in range(steps):
        residual = divergence() - image / weight
        gradient = np.zeros_like(dual)
        gradient[0, :-1] = np.diff(residual, axis=0)
        gradient[1, :, :-1] = np.diff(residual, axis=1)
        dual = (dual + 0.125 * gradient) / (1 + 0.125 * np.sqrt((gradient**2).sum(0)))
    return image - weight * divergence()
