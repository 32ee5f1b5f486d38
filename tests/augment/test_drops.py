"""DropEdge, DropNode, masking and subgraph: rates, and what they leave alone.

Covers fgw_jax.augment.drop_edge, fgw_jax.augment.drop_node, fgw_jax.augment.masking,
fgw_jax.augment.subgraph.
"""

import jax
import numpy as np
import pytest

from fgw_jax import Dataset, Graph, augment
from fgw_jax.errors import InputError
from fgw_jax.graphs import Batch

RATIO = 0.3


@pytest.fixture(scope="module")
def thousand():
    """1,000 graphs of 20 to 24 nodes; node i of graph g has the feature (g, i)."""
    rng = np.random.default_rng(0)
    graphs = []
    for g in range(1000):
        n = int(rng.integers(20, 25))
        upper = np.triu(rng.random((n, n)) < 0.5, 1)
        features = np.stack([np.full(n, g), np.arange(n)], 1)
        graphs.append(Graph.from_adjacency(upper | upper.T, features))
    return Dataset(graphs, np.arange(1000) % 2)


def on_host(method, data):
    return method(jax.random.key(0), data).graphs


def in_step(method, data):
    return jax.jit(method.on_graphs)(jax.random.key(0), Batch.stack(data.graphs)).unstack()


both = pytest.mark.parametrize("hook", [on_host, in_step])


@both
def test_drop_edge_removes_its_share_of_edges_and_nothing_else(hook, thousand):
    out = hook(augment.DropEdge(ratio=RATIO), thousand)
    before = sum(g.adjacency.sum() for g in thousand.graphs)
    after = sum(g.adjacency.sum() for g in out)
    assert 1 - after / before == pytest.approx(RATIO, rel=0.01)
    for old, new in zip(thousand.graphs, out, strict=True):
        assert (new.adjacency <= old.adjacency).all()
        np.testing.assert_array_equal(new.structure, new.adjacency)
        np.testing.assert_array_equal(new.features, old.features)
        np.testing.assert_allclose(new.weights, old.weights)


@both
def test_drop_edge_drops_edges_one_by_one(hook, thousand):
    # Of the pairs of edges at node 0, (nearly) the share (1 - ratio)^2 survives together.
    out = hook(augment.DropEdge(ratio=RATIO), thousand)
    pairs = kept = 0.0
    for old, new in zip(thousand.graphs, out, strict=True):
        pairs += old.adjacency[0].sum() * (old.adjacency[0].sum() - 1)
        kept += new.adjacency[0].sum() * (new.adjacency[0].sum() - 1)
    assert kept / pairs == pytest.approx((1 - RATIO) ** 2, rel=0.02)


@both
def test_drop_node_removes_its_share_of_nodes_with_their_edges(hook, thousand):
    out = hook(augment.DropNode(ratio=RATIO), thousand)
    before = sum(g.num_nodes for g in thousand.graphs)
    after = sum(g.num_nodes for g in out)
    assert 1 - after / before == pytest.approx(RATIO, rel=0.01)
    assert len({g.num_nodes - h.num_nodes for g, h in zip(thousand.graphs, out, strict=True)}) > 1
    for old, new in zip(thousand.graphs, out, strict=True):
        kept = new.features[:, 1].astype(int)
        np.testing.assert_array_equal(new.adjacency, old.adjacency[np.ix_(kept, kept)])
        np.testing.assert_allclose(new.weights, 1 / len(kept), rtol=1e-5)


@both
@pytest.mark.parametrize("name", ["dropnode", "subgraph"])
def test_a_graph_is_never_emptied(hook, name, thousand):
    sizes = [g.num_nodes for g in hook(augment.make(name, ratio=1.0), thousand[:50])]
    assert sizes == [1] * 50


@both
def test_drop_node_scales_weights_that_are_not_even(hook):
    edges = [(0, i) for i in range(1, 8)]
    star = Graph.from_edges(edges, 8, np.arange(8.0), measure="degree")
    out = hook(augment.DropNode(ratio=0.5), Dataset([star] * 20, [0, 1] * 10))
    for graph in out:
        kept = graph.features[:, 0].astype(int)
        expected = star.weights[kept] / star.weights[kept].sum()
        np.testing.assert_allclose(graph.weights, expected, rtol=1e-5)
    assert len({graph.features.tobytes() for graph in out}) > 1


@both
def test_masking_exchanges_features_of_its_share_of_nodes(hook, thousand):
    out = hook(augment.AttributeMasking(ratio=RATIO), thousand)
    changed = total = 0
    for old, new in zip(thousand.graphs, out, strict=True):
        np.testing.assert_array_equal(new.adjacency, old.adjacency)
        changed += (new.features != old.features).any(1).sum()
        total += old.num_nodes
    # drawn node by node: 22,000 draws have a deviation of 0.003
    assert changed / total == pytest.approx(RATIO, abs=0.012)
    # Random features are features that occur, of all graphs alike.
    rows = {tuple(row) for g in thousand.graphs for row in g.features}
    assert all(tuple(row) in rows for g in out[:100] for row in g.features)


@both
def test_subgraph_keeps_its_share_of_a_connected_graph_connected(hook):
    rng = np.random.default_rng(0)
    graphs = []
    for _ in range(30):
        parents = [(int(rng.integers(i)), i) for i in range(1, 20)]
        graphs.append(Graph.from_edges(parents, 20, np.arange(20.0)))
    for graph in hook(augment.Subgraph(ratio=0.4), Dataset(graphs, [0, 1] * 15)):
        assert graph.num_nodes == 12
        assert graph.adjacency.sum() == 2 * 11  # a part of a tree with n - 1 edges is connected


@both
def test_subgraph_goes_on_elsewhere_when_a_component_is_used_up(hook):
    pairs = Graph.from_edges([(0, 1), (2, 3), (4, 5), (6, 7)], 8)
    for graph in hook(augment.Subgraph(ratio=0.5), Dataset([pairs] * 10, [0, 1] * 5)):
        assert graph.num_nodes == 4
        assert graph.adjacency.sum() == 4  # two whole components


@pytest.mark.parametrize("name", ["dropedge", "dropnode", "attrmask", "subgraph"])
def test_shares_outside_zero_and_one_are_refused_and_zero_changes_nothing(name, thousand):
    for ratio in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="ratio"):
            augment.make(name, ratio=ratio)
    few = thousand[:5]
    out = augment.make(name, ratio=0.0)(jax.random.key(0), few)
    assert out.fingerprint() == few.replace(labels=few.soft_labels()).fingerprint()
