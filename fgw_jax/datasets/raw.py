"""What the files of a dataset say, before any choice of ours, and the graphs made of it."""

from __future__ import annotations

import dataclasses
import hashlib
import os

import numpy as np

from fgw_jax import structure as structures
from fgw_jax.datasets.dataset import Split
from fgw_jax.errors import DataError
from fgw_jax.fields import with_names
from fgw_jax.graphs import Graph
from fgw_jax.inputs import float_dtype


@dataclasses.dataclass(frozen=True)
class Raw:
    """Graphs as flat arrays: nodes of all graphs one after the other, ``n`` in all.

    Attributes:
      sizes: ``[N]`` nodes of each graph.
      edges: ``[m, 2]`` undirected edges ``u < v`` between nodes numbered through all graphs,
        sorted, each once, without self-loops.
      labels: ``[N]`` classes numbered in sorted order of the file's values, or rows ``[N, C]``.
      node_labels: ``[n, k]`` categorical node features, numbered likewise, or ``None``.
      attributes: ``[n, a]`` numeric node features, or ``None`` if not read or not there.
      split: the publisher's split, or ``None``.
    """

    sizes: np.ndarray
    edges: np.ndarray
    labels: np.ndarray
    node_labels: np.ndarray | None = None
    attributes: np.ndarray | None = None
    split: Split | None = None

    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of the parsed content; line ends, edge order and label offsets do not count.

        ``content`` covers graphs, classes, node labels and split; ``attributes``, apart, the
        numeric node features.
        """
        parts = [self.sizes, self.edges, self.labels, self.node_labels]
        if self.split is not None:
            parts += [np.sort(getattr(self.split, p)) for p in ("train", "validation", "test")]
        prints = {"content": _digest(parts)}
        if self.attributes is not None:
            prints["attributes"] = _digest([self.attributes])
        return prints


def ranks(values: np.ndarray) -> np.ndarray:
    """Each value's place among the distinct values, in sorted order.

    >>> ranks(np.array([1, -1, 1, 7])).tolist()
    [1, 0, 1, 2]
    """
    return np.unique(values, return_inverse=True)[1].reshape(values.shape)


def one_hot(columns: np.ndarray) -> np.ndarray:
    """One-hot rows ``[n, sum of widths]`` of categories ``[n, k]`` counted from 0, block by block.

    >>> one_hot(np.array([[0, 1], [2, 0]])).tolist()
    [[1.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0, 0.0]]
    """
    widths = columns.max(0) + 1
    starts = np.concatenate([[0], np.cumsum(widths)])
    check_memory(len(columns) * int(starts[-1]), "one-hot features")
    out = np.zeros((len(columns), starts[-1]), float_dtype())
    np.put_along_axis(out, columns + starts[:-1], 1, axis=1)
    return out


def simple_edges(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """Undirected edges ``u < v``, sorted, each once; self-loops are dropped."""
    low, high = edges.min(1), edges.max(1)
    keys = np.sort((low * num_nodes + high)[low < high])
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return np.stack([keys // num_nodes, keys % num_nodes], 1)


def build(
    sizes: np.ndarray,
    edges: np.ndarray,
    features: np.ndarray,
    structure: str = "adjacency",
    measure: str = "uniform",
) -> list[Graph]:
    """Graphs of flat arrays, as :class:`Raw` holds them; ``features`` ``[n, d]``.

    All adjacencies are written at once into one buffer of which each graph holds a view, and the
    structure ``"adjacency"`` is that same view.
    """
    dtype = float_dtype()
    check_memory(int((sizes**2).sum()), "dense adjacencies")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    corners = np.concatenate([[0], np.cumsum(sizes**2)])
    owner = np.searchsorted(starts, edges[:, 0], side="right") - 1
    u, v = (edges - starts[owner][:, None]).T
    flat = np.zeros(corners[-1], dtype)
    flat[corners[owner] + u * sizes[owner] + v] = 1
    flat[corners[owner] + v * sizes[owner] + u] = 1
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused
        features = features.astype(dtype, copy=False)
    if not np.isfinite(features).all():
        raise DataError(
            f"features: a number is beyond what {dtype} holds; correct the file, or enable float64"
        )
    weights = np.repeat((1 / sizes).astype(dtype), sizes)
    mask = np.ones(starts[-1], bool)
    graphs = []
    for i, n in enumerate(sizes.tolist()):
        nodes = slice(int(starts[i]), int(starts[i + 1]))
        adjacency = flat[corners[i] : corners[i + 1]].reshape(n, n)
        real = mask[nodes]
        matrix = adjacency
        if structure != "adjacency":
            matrix = structures.compute(structure, adjacency, real)
        mu = weights[nodes]
        if measure != "uniform":
            mu = structures.measure(measure, adjacency, real)
        graph = Graph(matrix, features[nodes], mu, adjacency, real)
        graphs.append(with_names(graph, (structure, measure)))
    return graphs


def check_memory(entries: int, what: str) -> None:
    """Refuse arrays larger than this machine before any of it is touched.

    A few kilobytes of a packed file are enough to ask for them: a graph of 100,000 nodes.
    """
    needed = entries * float_dtype().itemsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise DataError(
            f"{what}: would take {needed / 2**30:.1f} GiB where this machine has "
            f"{there / 2**30:.1f}; get the dataset again, or build a Dataset of a part of it"
        )


def _digest(parts: list[np.ndarray | None]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
            continue
        digest.update(repr(part.shape).encode())
        digest.update(part.astype("<f8" if part.dtype.kind == "f" else "<i8").tobytes())
    return digest.hexdigest()
