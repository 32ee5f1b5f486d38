"""Quotient graphs: nodes that no message-passing network can distinguish share one row.

Color refinement gives two nodes the same color if they have the same features and, in every round,
neighbors of the same colors over edges of the same weights. After t rounds nodes of one color have
equal rows in the first t layers of any message-passing network (Morris et al., 2019; Xu et al.,
2019), so one row represents all of them, with its multiplicity in sums over neighbors and in the
moments of a batch norm. The row of any node of a class can be used: all of them have the same edges
to the classes of the previous round, on which the previous layer is constant. Logits and gradients
are those of the original graph. Molecules keep five of six rows, ego networks of actors one of
four.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from fgw_jax.graphs import Graph

#: maps an adjacency ``[n, n]`` to the operator of the layers
Operator = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Quotient:
    """A graph of n nodes in k classes, and its virtual node.

    Attributes:
        features: ``[k, d]``, one row per class.
        counts: ``[k]`` number of nodes per class.
        operator: ``[1 + k, 1 + k]`` operator of the layers, virtual node first. Entry
            (a, b) is the sum over the nodes of class b of their entries in the row of one node of
            class a: not symmetric.
    """

    features: np.ndarray
    counts: np.ndarray
    operator: np.ndarray

    @property
    def num_nodes(self) -> int:
        """Number of rows, without the virtual node."""
        return len(self.counts)


def quotients(graphs: Sequence[Graph], rounds: int, operator: Operator) -> list[Quotient]:
    """Quotients of graphs by color refinement.

    Args:
        graphs: graphs with equally many features.
        rounds: rounds of refinement. A network of L layers needs L, or L + 1 if ``operator`` uses
            degrees.
        operator: function of the adjacency, with the virtual node connected to all nodes.

    >>> star = Graph.from_edges([(0, 1), (0, 2), (0, 3)], 4)
    >>> quotients([star], rounds=1, operator=lambda adjacency: adjacency)[0].counts
    array([1., 3.], dtype=float32)
    """
    graphs = [graph.unpad() for graph in graphs]
    found = _refine(graphs, rounds)
    return [_quotient(graph, own, operator) for graph, own in zip(graphs, found, strict=True)]


def _quotient(graph: Graph, colors: np.ndarray, operator: Operator) -> Quotient:
    features, adjacency = np.asarray(graph.features), np.asarray(graph.adjacency)
    joined = np.pad(adjacency.astype(features.dtype), (1, 0), constant_values=1)
    joined[0, 0] = 0
    _, nodes, classes, counts = np.unique(
        colors, return_index=True, return_inverse=True, return_counts=True
    )
    # Columns ordered by class after the virtual node, then summed per class.
    order = np.concatenate([[0], 1 + np.argsort(classes, kind="stable")])
    starts = np.concatenate([[0], 1 + np.cumsum(counts) - counts])
    rows = operator(joined)[np.concatenate([[0], 1 + nodes])]
    return Quotient(
        features[nodes],
        counts.astype(features.dtype),
        np.add.reduceat(rows[:, order], starts, axis=1),
    )


def _refine(graphs: Sequence[Graph], rounds: int) -> list[np.ndarray]:
    """Colors ``[n]`` of each graph: 64-bit hashes, comparable within a graph.

    Two different colors of a graph of a thousand nodes collide with a probability below 1e-12.
    """
    sizes = np.array([graph.num_nodes for graph in graphs])
    features = np.concatenate([np.asarray(graph.features) for graph in graphs])
    colors = _hash_rows(features)
    degrees, senders, weights = [], [], []
    for graph, offset in zip(graphs, np.cumsum(sizes) - sizes, strict=True):
        adjacency = np.asarray(graph.adjacency)
        receiver, sender = np.nonzero(adjacency)
        degrees.append(np.bincount(receiver, minlength=len(adjacency)))
        senders.append(sender + offset)
        weights.append(adjacency[receiver, sender])
    ends = np.cumsum(np.concatenate(degrees))
    starts = ends - np.concatenate(degrees)
    sender, along = np.concatenate(senders), _hash_rows(np.concatenate(weights)[:, None])
    for _ in range(rounds):
        # Sums of hashes wrap around; the order of neighbors does not matter.
        messages = _mix(_mix(colors[sender]) + along)
        sums = np.pad(np.cumsum(messages, dtype=np.uint64), (1, 0))
        colors = _mix(colors) + sums[ends] - sums[starts]
    return np.split(colors, np.cumsum(sizes)[:-1])


def _hash_rows(values: np.ndarray) -> np.ndarray:
    """A hash of each row of ``[N, d]`` numbers, by their bits."""
    bits = (np.asarray(values, np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
    column = _mix(np.arange(1, bits.shape[1] + 1, dtype=np.uint64))
    return _mix(bits ^ column).sum(1, dtype=np.uint64)


def _mix(values: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64 (Steele et al., 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
