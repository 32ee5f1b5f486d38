"""Nodes that are one row change neither logits nor gradients."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from fgw_jax import Batch, Graph, backbones
from fgw_jax.backbones import quotients


def plain(adjacency):
    return adjacency


def classes(graph, rounds):
    return sorted(quotients.quotients([graph], rounds, plain)[0].counts.astype(int).tolist())


def test_classes_are_those_of_networkx():
    """A Weisfeiler-Lehman hash of each node, after as many rounds."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        graph = nx.gnp_random_graph(14, 0.18, seed=seed)
        labels = rng.integers(0, 2, 14)
        nx.set_node_attributes(graph, {v: str(labels[v]) for v in graph}, "label")
        ours = Graph.from_adjacency(nx.to_numpy_array(graph), np.eye(2)[labels])
        for rounds in (1, 2, 5):
            hashes = nx.weisfeiler_lehman_subgraph_hashes(graph, None, "label", rounds)
            last = [hashes[v][-1] for v in graph]
            expected = sorted(np.unique(last, return_counts=True)[1].tolist())
            assert classes(ours, rounds) == expected


def test_known_graphs():
    assert classes(Graph.from_networkx(nx.cycle_graph(9)), 9) == [9]
    assert classes(Graph.from_networkx(nx.path_graph(5)), 3) == [1, 2, 2]
    assert classes(Graph.from_networkx(nx.star_graph(4)), 1) == [1, 4]
    assert classes(Graph.from_edges([], 1), 3) == [1]
    assert classes(Graph.from_edges([], 6), 3) == [6]
    # weights and features tell nodes apart, the sign of zero does not
    assert classes(Graph.from_adjacency([[0, 0.5, 0], [0.5, 0, 0.25], [0, 0.25, 0]]), 1) == [
        1,
        1,
        1,
    ]
    assert classes(Graph.from_edges([(0, 1)], 2, np.array([[0.0], [1.0]])), 1) == [1, 1]
    assert classes(Graph.from_edges([(0, 1)], 2, np.array([[0.0], [-0.0]])), 1) == [2]


def test_rounds_are_no_deeper_than_asked():
    """The ends of a path of eight hear of each other's sides layer by layer."""
    path = Graph.from_networkx(nx.path_graph(8))
    assert [len(classes(path, rounds)) for rounds in range(5)] == [1, 2, 3, 4, 4]


def test_the_operator_keeps_its_row_sums():
    graph = Graph.from_networkx(nx.barbell_graph(5, 3))
    (reduced,) = quotients.quotients([graph], 6, plain)
    degrees = np.asarray(graph.adjacency).sum(1) + 1
    assert reduced.operator[0].sum() == graph.num_nodes
    np.testing.assert_array_equal(reduced.operator[0, 1:], reduced.counts)
    found = np.repeat(reduced.operator[1:].sum(1), reduced.counts.astype(int))
    np.testing.assert_array_equal(np.sort(found), np.sort(degrees))


def symmetric_graphs():
    """Graphs with many nodes alike, some of them weighted."""
    rng = np.random.default_rng(1)
    shapes = [nx.cycle_graph(6), nx.star_graph(5), nx.barbell_graph(4, 2), nx.path_graph(7)]
    graphs = []
    for i, shape in enumerate(shapes):
        adjacency = nx.to_numpy_array(shape) * (0.5 if i == 1 else 1.0)
        labels = np.array([d for _, d in shape.degree]) % 3
        graphs.append(Graph.from_adjacency(adjacency, np.eye(3)[labels] + 0.1 * (i == 2)))
    noisy = nx.to_numpy_array(nx.gnp_random_graph(9, 0.4, seed=2))
    graphs.append(Graph.from_adjacency(noisy, rng.normal(size=(9, 3))))
    return graphs


@pytest.mark.parametrize("name", ["vgcn", "vgin"])
@pytest.mark.parametrize(
    "num_layers",
    [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(6, marks=pytest.mark.slow)],
)
def test_training_on_quotients_is_training_on_whole_ones(name, num_layers, x64):
    """Logits, moments and gradients, virtual nodes and batch norms included."""
    graphs = symmetric_graphs()
    model = backbones.make(name, 3, hidden=8, num_layers=num_layers, dropout=0.0)
    reduced = model.quotients(graphs)
    assert sum(f.num_nodes for f in reduced) < 0.7 * sum(g.num_nodes for g in graphs)
    whole = Batch.stack(graphs, 12)
    packed = [model.pack([reduced[:3], reduced[3:]], 40, 3)]
    order = np.array([0, 1, 2, 3, 4])  # the last slot of the second block is empty
    variables = model.init(jax.random.key(0), whole)
    labels = jnp.asarray(np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1]])

    def loss(params, inputs, extras):
        state = {"params": params, "batch_stats": variables["batch_stats"]}
        logits, changed = model.apply(
            state, inputs, extras, train=True, mutable=["batch_stats"],
            rngs={"dropout": jax.random.key(1)},
        )  # fmt: skip
        logits = logits[order]
        return -(labels * jax.nn.log_softmax(logits)).sum(), (logits, changed)

    gradient = jax.jit(jax.grad(loss, has_aux=True))
    expected = gradient(variables["params"], whole, None)
    found = gradient(variables["params"], [None], packed)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9), found, expected
    )
