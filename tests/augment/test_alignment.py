"""Soft alignment and geodesic mixup: what the plan carries where.

Covers fgw_jax.augment.aligned, fgw_jax.augment.soft_alignment, fgw_jax.augment.geodesic_mixup.
"""

import jax
import numpy as np
import pytest

from fgw_jax import Dataset, Graph, augment
from tests.helpers import permuted

NAMES = ["smixup", "geomix"]
BITS = np.array([1, 2, 4])


def distinct_graph(rng, n=6):
    """A connected graph of at most eight nodes whose features tell them apart: binary numbers."""
    upper = np.triu(rng.random((n, n)) < 0.4, 1)
    upper[np.arange(n - 1), np.arange(1, n)] = True
    return Graph.from_adjacency(upper | upper.T, 3.0 * (np.arange(n)[:, None] // BITS % 2))


@pytest.mark.parametrize("name", NAMES)
def test_two_copies_of_a_graph_mix_to_a_third_however_their_nodes_are_stored(name, rng):
    graph = distinct_graph(rng)
    copies = [permuted(graph, rng.permutation(6)) for _ in range(6)]
    data = Dataset(copies, [0, 1] * 3)
    out = augment.make(name, ratio=1.0, beta_k=5.0, alpha=0.5)(jax.random.key(0), data)
    for made in out.graphs[6:]:
        order = np.argsort(made.features @ BITS)
        np.testing.assert_array_equal(made.adjacency[np.ix_(order, order)], graph.adjacency)
        np.testing.assert_allclose(made.features[order], graph.features, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_at_the_end_of_the_segment_the_heavier_parent_comes_back(name, rng):
    method = augment.make(name)
    heavy, light = distinct_graph(rng, 6), distinct_graph(rng, 6)
    plan = rng.random((6, 6)).astype(np.float32)
    structure, features = method.mix(heavy, light, plan / plan.sum(), 1.0)
    if name == "smixup":
        np.testing.assert_allclose(structure, heavy.structure)
        np.testing.assert_allclose(features, heavy.features)
    else:
        assert structure.shape == (6, 6)
        np.testing.assert_allclose(features, heavy.features)


def test_nodes_are_those_of_the_heavier_or_of_the_larger_parent(rng):
    small, large = distinct_graph(rng, 4), distinct_graph(rng, 8)
    plan = np.full((4, 8), 1 / 32, np.float32)
    soft, geodesic = augment.SoftAlignment(), augment.GeodesicMixup()
    assert soft.mix(small, large, plan, 0.7)[0].shape == (4, 4)
    assert geodesic.mix(small, large, plan, 0.7)[0].shape == (8, 8)
    assert geodesic.mix(large, small, plan.T, 0.7)[1].shape == (8, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_made_graphs_have_about_the_mixed_density_of_their_parents(name, rng):
    graphs = [distinct_graph(rng, 8) for _ in range(8)]
    data = Dataset(graphs, [0, 1] * 4)
    out = augment.make(name, ratio=2.0, beta_k=1.0)(jax.random.key(0), data)
    density = np.array([g.density for g in data.graphs])
    for graph, origin in zip(out.graphs[8:], out.origins[8:], strict=True):
        first, second = density[list(origin.parents)]
        wanted = origin.lam * first + (1 - origin.lam) * second
        assert graph.density == pytest.approx(wanted, abs=0.15)


@pytest.mark.parametrize("name", NAMES)
def test_distances_decode_to_edges_where_they_are_small(name, rng):
    graphs = [
        Graph.from_adjacency(g.adjacency, g.features, structure="shortest_path")
        for g in (distinct_graph(rng) for _ in range(4))
    ]
    data = Dataset(graphs, [0, 1] * 2)
    out = augment.make(name, ratio=1.0)(jax.random.key(0), data)
    for graph in out.graphs[4:]:
        expected = Graph.from_adjacency(graph.adjacency, structure="shortest_path").structure
        np.testing.assert_array_equal(graph.structure, expected)
