"""Random graphs that several test modules use.

Most of the time of the tests is compilation, and a program is compiled for the padded sizes and the
feature width of its graphs. Solvers pad to 32 nodes, so graphs of up to 32 nodes with ``WIDTH``
features share the programs of all tests; another width, or a ``pad`` of one's own, compiles anew.
"""

import numpy as np

from fgw_jax import Graph

#: feature width shared by the tests
WIDTH = 3


def symmetric_edges(rng, n, p=0.4):
    """Adjacency ``[n, n]`` of a random graph in which each pair is an edge with probability p."""
    upper = np.triu(rng.random((n, n)) < p, 1)
    return (upper | upper.T).astype(float)


def random_graph(rng, n, d=WIDTH, p=0.4, *, weighted=False, **options):
    """Random edges and normally distributed features; edge weights in [0, 1) if ``weighted``."""
    upper = np.triu(rng.random((n, n)) < p, 1) * (rng.random((n, n)) if weighted else 1.0)
    return Graph.from_adjacency(upper + upper.T, rng.normal(size=(n, d)), **options)


def labelled_graph(rng, n, p=0.25, labels=WIDTH):
    """Random edges and one-hot node labels, so that many nodes look alike."""
    return Graph.from_adjacency(
        symmetric_edges(rng, n, p), np.eye(labels)[rng.integers(labels, size=n)]
    )


def generic_graph(rng, n, d=WIDTH, *, diagonal=False, **options):
    """A weight on every pair of nodes and normal features: no two nodes look alike."""
    matrix = rng.uniform(0, 1, (n, n))
    matrix = matrix if diagonal else np.triu(matrix, 1)
    matrix = matrix + matrix.T
    return Graph.from_adjacency(matrix, rng.normal(size=(n, d)), structure=matrix, **options)


def permuted(graph, order):
    """The same graph with its nodes stored in another order."""
    adjacency, features = np.asarray(graph.adjacency), np.asarray(graph.features)
    return Graph.from_adjacency(adjacency[np.ix_(order, order)], features[order])
