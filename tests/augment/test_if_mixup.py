"""ifMixup: node by node, dummy nodes for the smaller graph."""

import jax
import numpy as np

from fgw_jax import Dataset, Graph, augment


def test_features_edges_and_weights_are_mixed_node_by_node(rng):
    graphs = []
    for n in (3, 5, 4, 6):
        upper = np.triu(rng.random((n, n)) < 0.6, 1)
        graphs.append(Graph.from_adjacency(upper | upper.T, rng.normal(size=(n, 2))))
    data = Dataset(graphs, [0, 1, 0, 1])
    out = augment.IfMixup(ratio=3.0, beta_k=1.0)(jax.random.key(0), data)
    assert len(out) == 16
    for graph, origin in zip(out.graphs[4:], out.origins[4:], strict=True):
        first, second = (graphs[i] for i in origin.parents)
        size = max(first.num_nodes, second.num_nodes)
        first, second, lam = first.pad(size), second.pad(size), origin.lam
        for field in ("adjacency", "features", "weights", "structure"):
            expected = lam * getattr(first, field) + (1 - lam) * getattr(second, field)
            np.testing.assert_allclose(getattr(graph, field), expected, atol=1e-6)
    assert any(0 < w < 1 for g in out.graphs[4:] for w in g.adjacency.ravel())


def test_other_structures_are_mixed_beside_the_edges():
    path = Graph.from_edges([(0, 1), (1, 2)], 3, structure="shortest_path")
    cliques = Graph.from_edges([(0, 1), (1, 2), (0, 2)], 3, structure="shortest_path")
    out = augment.IfMixup(ratio=0.5)(jax.random.key(0), Dataset([path, cliques], [0, 1]))
    lam = out.origins[2].lam
    np.testing.assert_allclose(out.graphs[2].structure[0, 2], lam * 2 + (1 - lam), atol=1e-6)
    np.testing.assert_allclose(out.graphs[2].adjacency[0, 2], 1 - lam, atol=1e-6)
