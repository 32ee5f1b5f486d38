"""Parts with gradients of their own, against plain formulas.

Covers fgw_jax.backbones.distances, fgw_jax.backbones.nodes.
"""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from fgw_jax import Batch, Graph
from fgw_jax.backbones import distances, layers, nodes


@pytest.mark.parametrize("rows", [1, 7, 128, 300, 1021])
def test_linear_has_the_gradients_of_a_product(rows, rng):
    x, w, g = (rng.normal(size=s).astype(np.float32) for s in ((rows, 5), (5, 4), (rows, 4)))
    out, back = jax.vjp(layers.linear, x, w)
    np.testing.assert_allclose(out, x @ w, rtol=1e-5, atol=1e-5)
    dx, dw = back(jnp.asarray(g))
    np.testing.assert_allclose(dx, g @ w.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dw, x.T @ g, rtol=1e-4, atol=1e-4)


def test_rows_of_a_batch_are_the_renormalised_graph_with_a_virtual_node(rng):
    graph = nx.gnp_random_graph(7, 0.4, seed=1)
    ours = Graph.from_networkx(graph)
    rows = nodes.prepare(Batch.stack([ours], 9)).nodes()
    graph.add_edges_from([("virtual", v) for v in range(7)])
    graph.add_edges_from((v, v) for v in graph)
    order = ["virtual", *range(7)]
    adjacency = nx.to_numpy_array(graph, order)
    degree = adjacency.sum(1)
    expected = adjacency / np.sqrt(np.outer(degree, degree))
    x = rng.normal(size=(10, 4)).astype(np.float32)
    np.testing.assert_allclose(
        rows.adjacency.renormalized().apply(jnp.asarray(x))[:8], expected @ x[:8], atol=1e-5
    )
    assert rows.counts.tolist() == [1] * 8 + [0] * 2
    assert rows.virtual.tolist() == [0]


def test_distances_are_those_of_networkx():
    cap = 4
    graph = nx.disjoint_union(nx.path_graph(7), nx.cycle_graph(3))
    batch = Batch.stack([Graph.from_networkx(graph)], 12)
    host = distances.distances(batch, cap, resistance=True)
    device = jax.jit(lambda b: distances.distances(b, cap, resistance=True))(batch)
    np.testing.assert_array_equal(host.hops, device.hops)
    np.testing.assert_allclose(host.resistance, device.resistance, atol=1e-4)
    hops = np.asarray(distances.unfold(jnp.asarray(host.hops)[..., None], 13))[0, ..., 0]
    ohms = np.asarray(distances.unfold(jnp.asarray(host.resistance)[..., None], 13))[0, ..., 0]
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    for part in nx.connected_components(graph):
        known = nx.resistance_distance(graph.subgraph(part))
        for u in part:
            for v in graph:
                expected = min(lengths[u][v], cap) if v in part else cap + 1
                assert hops[u + 1, v + 1] == expected
                np.testing.assert_allclose(ohms[u + 1, v + 1], known[u].get(v, 0.0), atol=1e-4)
    assert (hops[0] == cap + 2).all() and (ohms[0] == 0).all()


def test_unfold_has_the_gradient_of_a_gather(rng):
    pairs = rng.normal(size=(2, 15, 3)).astype(np.float32)
    weights = rng.normal(size=(2, 5, 5, 3)).astype(np.float32)
    unfolded = np.asarray(distances.unfold(jnp.asarray(pairs), 5))
    np.testing.assert_array_equal(unfolded, unfolded.transpose(0, 2, 1, 3))
    gradient = jax.grad(lambda p: (distances.unfold(p, 5) * weights).sum())(jnp.asarray(pairs))
    both = weights + weights.transpose(0, 2, 1, 3)
    both[:, range(5), range(5)] /= 2
    np.testing.assert_allclose(distances.unfold(gradient, 5), both, atol=1e-6)
