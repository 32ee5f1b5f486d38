"""Round trips through networkx, jraph and PyG, and foreign graphs read in.

Covers fgw_jax.interop.common, fgw_jax.interop.dgl, fgw_jax.interop.jraph,
fgw_jax.interop.networkx, fgw_jax.interop.pyg.
"""

import dataclasses
import importlib.util

import jax
import jax.numpy as jnp
import jraph
import networkx
import numpy as np
import pytest

from fgw_jax import interop
from fgw_jax.errors import InputError
from fgw_jax.graphs import Batch, Graph

FIELDS = [field.name for field in dataclasses.fields(Graph)]


def random_graphs(count):
    """Graphs of many sizes, densities, structures and weights; every other one padded."""
    rng = np.random.default_rng(0)
    for i in range(count):
        size = int(rng.integers(1, 12))
        upper = np.triu(rng.random((size, size)) < rng.random(), 1)
        upper = upper * (rng.normal(size=(size, size)) if i % 3 else 1)
        structure = ["adjacency", "shortest_path", np.cov(rng.normal(size=(size, 5)))][i % 5 % 3]
        weights = rng.random(size) + (np.arange(size) == 0)
        graph = Graph.from_adjacency(
            upper + upper.T,
            rng.normal(size=(size, int(rng.integers(1, 5)))),
            structure=structure if isinstance(structure, str) else np.atleast_2d(structure),
            measure=["uniform", "degree", weights * (rng.random(size) < 0.8) + 1e-3][i % 7 % 3],
        )
        if i % 2:
            graph = graph.pad(size + int(rng.integers(0, 4)))
        if i % 8 == 7:  # masked nodes in front and in between, as a batch transform may leave them
            order = rng.permutation(len(graph.mask))
            both = np.ix_(order, order)
            graph = Graph(
                graph.structure[both],
                graph.features[order],
                graph.weights[order],
                graph.adjacency[both],
                graph.mask[order],
            )
        yield graph


def assert_equal(one, other):
    for name in FIELDS:
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(a, b, err_msg=name)
        assert a.dtype == b.dtype


@pytest.mark.parametrize("library", ["networkx", "jraph"])
def test_a_round_trip_keeps_every_field_of_200_graphs(library):
    kinds = set()
    for graph in random_graphs(200):
        foreign = getattr(graph, f"to_{library}")()
        assert_equal(getattr(Graph, f"from_{library}")(foreign), graph)
        kinds.add((bool(graph.mask.all()), np.array_equal(graph.structure, graph.adjacency)))
    assert len(kinds) == 4


@pytest.mark.parametrize("library", ["networkx", "jraph"])
def test_double_precision_survives(library, x64, rng):
    graph = Graph.from_adjacency(np.ones((3, 3)), rng.normal(size=(3, 2)), measure=rng.random(3))
    assert graph.features.dtype == np.float64
    assert_equal(getattr(Graph, f"from_{library}")(getattr(graph, f"to_{library}")()), graph)


def test_graphs_of_device_arrays_and_batches():
    graph = Graph.from_edges([(0, 1), (1, 2)], 3).pad(5)
    on_device = jax.tree.map(jnp.asarray, graph)
    assert_equal(Graph.from_networkx(on_device.to_networkx()), graph)
    assert_equal(Graph.from_jraph(on_device.to_jraph()), graph)
    with pytest.raises(InputError, match="unstack"):
        interop.to_networkx(Batch.stack([graph]))
    with pytest.raises(InputError, match="unstack"):
        interop.to_jraph(Batch.stack([graph]))


def test_networkx_sees_the_graph_we_mean():
    graph = Graph.from_edges([(0, 1), (1, 2)], 4, edge_weights=[2, 3], measure=[1, 1, 1, 5]).pad(9)
    foreign = graph.to_networkx()
    assert sorted(foreign.nodes) == [0, 1, 2, 3]
    assert sorted(foreign.edges(data="weight")) == [(0, 1, 2.0), (1, 2, 3.0)]
    assert foreign.nodes[3]["weight"] == 0.625
    np.testing.assert_array_equal(foreign.nodes[0]["features"], [1])
    assert networkx.number_connected_components(foreign) == 2


def test_a_foreign_networkx_graph_with_options():
    karate = networkx.karate_club_graph()
    plain = Graph.from_networkx(karate, edge_weight=None)
    np.testing.assert_array_equal(plain.adjacency, networkx.to_numpy_array(karate, weight=None))
    np.testing.assert_array_equal(plain.features, np.ones((34, 1)))
    weighted = Graph.from_networkx(karate, structure="resistance", measure="degree")
    np.testing.assert_array_equal(weighted.adjacency, networkx.to_numpy_array(karate))
    assert weighted.structure[0, 33] == pytest.approx(
        networkx.resistance_distance(karate, 0, 33, weight="weight", invert_weight=False), rel=1e-4
    )
    named = networkx.Graph([("b", "a"), ("a", "c"), ("a", "a")])
    networkx.set_node_attributes(named, {"a": [1.0, 0], "b": [0, 1.0], "c": [2, 2]}, "colour")
    graph = Graph.from_networkx(named, features="colour")
    assert graph.features.tolist() == [[0, 1], [1, 0], [2, 2]]  # order of named.nodes: b, a, c
    assert graph.adjacency.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    numbers = networkx.path_graph(2)
    networkx.set_node_attributes(numbers, {0: 3, 1: 4}, "features")
    assert Graph.from_networkx(numbers).features.tolist() == [[3], [4]]
    assert Graph.from_networkx(numbers, features=np.eye(2)).features.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("foreign", "named"),
    [
        (networkx.DiGraph([(0, 1)]), "graph: expected an undirected networkx.Graph, got DiGraph"),
        (networkx.MultiGraph([(0, 1)]), "graph: expected an undirected .* got MultiGraph"),
        (networkx.Graph(), "graph: it has no node"),
        ([(0, 1)], "graph: expected an undirected networkx.Graph, got list"),
    ],
)
def test_networkx_objects_we_do_not_read(foreign, named):
    with pytest.raises(InputError, match=named):
        Graph.from_networkx(foreign)


def test_uneven_attributes_are_refused():
    path = networkx.path_graph(3)
    path.nodes[0]["features"] = [1.0]
    with pytest.raises(InputError, match=r"features: nodes \[1, 2\] have no attribute"):
        Graph.from_networkx(path)
    path.nodes[1]["features"], path.nodes[2]["features"] = [1.0], [1.0, 2.0]
    with pytest.raises(InputError, match="features: the attribute 'features' has different shapes"):
        Graph.from_networkx(path)


def test_a_graph_cut_after_export_asks_for_its_structure_again():
    cut = Graph.from_edges([(0, 1), (1, 2)], 3, structure="shortest_path").to_networkx()
    cut.remove_node(0)
    with pytest.raises(InputError, match="pass measure= and structure="):
        Graph.from_networkx(cut)
    cut.add_edge(2, 3)
    with pytest.raises(InputError, match=r"measure: nodes \[3\] have no attribute 'weight'"):
        Graph.from_networkx(cut, features=None)
    cut.remove_node(3)
    graph = Graph.from_networkx(cut, measure="uniform", structure="shortest_path")
    assert graph.structure.tolist() == [[0, 1], [1, 0]]


def test_jraph_sees_the_padding():
    graph = Graph.from_edges([(0, 1), (1, 2)], 3).pad(5)
    foreign = graph.to_jraph()
    assert jraph.get_node_padding_mask(foreign).tolist() == graph.mask.tolist()
    alone = jraph.unpad_with_graphs(foreign)
    assert (alone.n_node.tolist(), alone.n_edge.tolist()) == ([3], [4])
    assert_equal(Graph.from_jraph(alone), graph.unpad())


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_foreign_graphs_tuple(both_ways):
    senders, receivers = np.array([0, 1]), np.array([1, 2])
    if both_ways:
        senders, receivers = np.r_[senders, receivers], np.r_[receivers, senders]
    weights = np.tile([2.0, 3.0], 2)[: len(senders)]
    foreign = jraph.GraphsTuple(
        nodes=jnp.eye(3),
        edges=weights[:, None],
        senders=senders,
        receivers=receivers,
        n_node=np.array([3]),
        n_edge=np.array([len(senders)]),
        globals=None,
    )
    graph = Graph.from_jraph(foreign, structure="shortest_path", measure="degree")
    assert graph.adjacency.tolist() == [[0, 2, 0], [2, 0, 3], [0, 3, 0]]
    assert graph.features.tolist() == np.eye(3).tolist()
    assert graph.structure[0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(graph.weights, [0.2, 0.5, 0.3])
    assert Graph.from_jraph(foreign, edge_weight=None).adjacency.max() == 1
    bare = Graph.from_jraph(foreign._replace(nodes=None, edges=None))
    assert bare.features.tolist() == [[1], [1], [1]]
    assert bare.adjacency.max() == 1
    keyed = foreign._replace(nodes={"colour": jnp.eye(3)}, edges={"length": weights})
    read = Graph.from_jraph(keyed, features="colour", edge_weight="length")
    assert_equal(read, Graph.from_jraph(foreign))
    with pytest.raises(InputError, match="edge_weight: expected one number an edge"):
        Graph.from_jraph(foreign._replace(edges=np.ones((len(senders), 2))))
    with pytest.raises(InputError, match=r"graph: holds 2 graphs; take one with jraph\.unbatch"):
        Graph.from_jraph(jraph.batch([foreign, foreign]))
    with pytest.raises(InputError, match=r"features: nodes have no 'features', only \['colour'\]"):
        Graph.from_jraph(keyed)
    ours = graph.to_jraph()
    with pytest.raises(InputError, match="graph: holds 2 graphs"):
        Graph.from_jraph(jraph.batch([ours, ours]))
    padded = Graph.from_jraph(jraph.pad_with_graphs(ours, 5, 10, 2))
    assert_equal(padded.unpad(), graph)


@pytest.mark.parametrize(
    ("library", "convert"), [("torch_geometric", Graph.to_pyg), ("dgl", Graph.to_dgl)]
)
def test_optional_libraries_get_the_graph_or_the_user_gets_advice(library, convert):
    graph = Graph.from_edges([(0, 1), (1, 2)], 3, edge_weights=[2, 3]).pad(5)
    if importlib.util.find_spec(library) is None:
        with pytest.raises(InputError, match=f"{library}: .*pip install {library}"):
            convert(graph)
    else:
        foreign = convert(graph)
        counts = [foreign.num_nodes, foreign.num_edges]  # properties of PyG, methods of DGL
        assert [count() if callable(count) else count for count in counts] == [3, 4]


def test_a_pyg_round_trip_keeps_every_field_of_the_real_nodes():
    for graph in random_graphs(20):
        if importlib.util.find_spec("torch_geometric") is None:
            with pytest.raises(InputError, match="torch_geometric"):
                graph.to_pyg()
            continue
        data = graph.to_pyg(label=1)
        assert data.y.tolist() == [1]
        assert graph.to_pyg(label=[0.2, 0.8]).y.shape == (1, 2)
        assert not data.is_directed()
        assert_equal(Graph.from_pyg(data), graph.unpad())
        data.x.requires_grad_()
        assert_equal(Graph.from_pyg(data), graph.unpad())
        two = importlib.import_module("torch_geometric.data").Batch.from_data_list([data, data])
        with pytest.raises(InputError, match="data: holds 2 graphs"):
            Graph.from_pyg(two)


def test_a_stored_structure_follows_its_nodes_and_not_other_edges():
    path = Graph.from_edges([(0, 1), (1, 2)], 3, [[1.0], [2.0], [3.0]], structure="shortest_path")
    written = path.to_networkx()
    turned = networkx.Graph(**written.graph)
    turned.add_nodes_from((node, written.nodes[node]) for node in (2, 0, 1))
    turned.add_edges_from(written.edges(data=True))
    read = Graph.from_networkx(turned)
    np.testing.assert_array_equal(read.features[:, 0], [3, 1, 2])
    np.testing.assert_array_equal(read.structure, [[0, 2, 1], [2, 0, 1], [1, 1, 0]])
    assert Graph.from_networkx(written, edge_weight=None).structure[0, 2] == 2
    written.add_edge(0, 2)
    with pytest.raises(InputError, match="nodes or edges changed after to_networkx"):
        Graph.from_networkx(written)
    assert Graph.from_networkx(written, structure="shortest_path").structure.max() == 1
