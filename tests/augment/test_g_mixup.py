"""G-Mixup: planted graphons come back, samples are graphs.

Covers fgw_jax.augment.graphons, fgw_jax.augment.transport_graphons.
"""

import jax
import numpy as np
import pytest

from fgw_jax import Dataset, Graph, augment
from fgw_jax.augment import graphons
from fgw_jax.augment.g_mixup import TRANSPORT
from fgw_jax.errors import InputError

#: blocks of distinct degree: mean degrees 0.56, 0.37, 0.20 of the nodes
BLOCKS = np.array([[0.8, 0.5, 0.3], [0.5, 0.4, 0.15], [0.3, 0.15, 0.1]])
SHARES = np.array([0.4, 0.3, 0.3])


def block_of(size):
    return np.searchsorted(np.cumsum(SHARES), (np.arange(size) + 0.5) / size)


def planted(rng, count, low, high):
    """Graphs drawn from the block graphon, nodes shuffled, blocks as features."""
    graphs = []
    for _ in range(count):
        n = int(rng.integers(low, high))
        block = block_of(n)
        upper = np.triu(rng.random((n, n)) < BLOCKS[np.ix_(block, block)], 1)
        order = rng.permutation(n)
        edges = (upper | upper.T)[np.ix_(order, order)]
        graphs.append(Graph.from_adjacency(edges, np.eye(3)[block[order]]))
    return graphs


@pytest.fixture(scope="module")
def classes():
    """200 planted graphs of one size bucket beside a class of two other graphs."""
    graphs = planted(np.random.default_rng(0), 200, 97, 105)
    other = Graph.from_edges([(i, i + 1) for i in range(99)], 100, np.ones((100, 3)))
    return Dataset([*graphs, other, other], [0] * 200 + [1] * 2)


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in ("usvt", "gw_star") else [])
        for name in (*graphons.ESTIMATORS, *TRANSPORT)
    ],
)
def test_a_planted_block_graphon_comes_back(estimator, classes):
    found = augment.GMixup(estimator=estimator).graphons(classes, 100)[0]
    block = block_of(100)
    # Blocks have distinct degrees and cells are sorted by degree: the permutation is known.
    error = np.abs(found.edges - BLOCKS[np.ix_(block, block)]).mean()
    assert error <= 0.05
    np.testing.assert_array_equal(found.edges, found.edges.T)
    assert found.edges.min() >= 0
    assert found.edges.max() <= 1
    # Features go with the structure: each cell knows its block, except near the borders.
    assert (found.features.argmax(1) == block).mean() >= 0.85
    np.testing.assert_allclose(found.features.sum(1), 1, atol=1e-4)


@pytest.mark.parametrize("estimator", graphons.ESTIMATORS)
def test_graphs_of_very_different_sizes_agree_on_one_graphon(estimator):
    graphs = planted(np.random.default_rng(1), 200, 60, 140)
    found = graphons.estimate(graphs, 30, estimator)
    block = block_of(30)
    assert np.abs(found.edges - BLOCKS[np.ix_(block, block)]).mean() <= 0.05


def test_the_average_of_equal_complete_graphs_is_complete():
    complete = Graph.from_adjacency(np.ones((6, 6)), np.full((6, 2), 3.0))
    found = graphons.align([complete] * 3, 9)
    np.testing.assert_allclose(found.edges, 1)
    np.testing.assert_allclose(found.features, 3)


def test_overlaps_are_the_monotone_coupling():
    plan = graphons.overlaps(5, 3)
    np.testing.assert_allclose(plan.sum(1), 1 / 5)
    np.testing.assert_allclose(plan.sum(0), 1 / 3)
    np.testing.assert_allclose(graphons.overlaps(4, 4), np.eye(4) / 4, atol=1e-12)


def test_samples_follow_the_mix_of_their_labels():
    # A class of dense graphs with feature 0, a class of sparse rings with feature 1.
    rng = np.random.default_rng(0)
    graphs = []
    for _ in range(10):
        upper = np.triu(rng.random((20, 20)) < 0.8, 1)
        graphs.append(Graph.from_adjacency(upper | upper.T, np.zeros(20)))
        ring = [(i, (i + 1) % 20) for i in range(20)]
        graphs.append(Graph.from_edges(ring, 20, np.ones(20)))
    data = Dataset(graphs, [0, 1] * 10)
    out = augment.GMixup(ratio=10.0, beta_k=1.0)(jax.random.key(0), data)
    new, labels = out.graphs[20:], out.labels[20:]
    lam = labels[:, 0]
    expected = lam * 0.8 * 190 + (1 - lam) * 20
    edges = np.array([graph.adjacency.sum() / 2 for graph in new])
    assert np.corrcoef(edges, expected)[0, 1] > 0.98
    assert edges.mean() == pytest.approx(expected.mean(), rel=0.05)
    for graph, share in zip(new, lam, strict=True):
        np.testing.assert_allclose(graph.features, 1 - share, atol=1e-5)
        assert graph.num_nodes <= 20
    np.testing.assert_allclose(lam, [origin.lam for origin in out.origins[20:]], atol=1e-6)


def test_a_draw_without_any_edge_joins_the_likeliest_pair():
    # One edge among 30 nodes: most draws of two dozen unlikely pairs are empty.
    sparse = Graph.from_edges([(0, 1)], 30)
    out = augment.GMixup(ratio=10.0)(jax.random.key(0), Dataset([sparse] * 2, [0, 1]))
    assert all(graph.adjacency.any(1).all() for graph in out.graphs[2:])
    assert {graph.num_nodes for graph in out.graphs[2:]} >= {2}


def test_the_number_of_nodes_and_cells_can_be_set():
    data = Dataset(planted(np.random.default_rng(0), 10, 10, 14), [0, 1] * 5)
    method = augment.GMixup(num_nodes=40, cells=8, ratio=1.0)
    assert method.graphons(data, 40)[0].edges.shape == (40, 40)
    assert max(g.num_nodes for g in method(jax.random.key(0), data).graphs[10:]) > 20


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"estimator": "svd"}, "estimator: no such name 'svd'; choose one of usvt"),
        ({"num_nodes": 0}, "num_nodes: 0 cannot hold a graph"),
        ({"cells": -1}, "cells: -1"),
        ({"alpha": 1.5}, "alpha: 1.5 is not a share"),
        ({"ratio": None}, "ratio: None new graphs"),
        ({"beta_k": "0.2"}, "beta_k: 0.2 is no parameter"),
    ],
)
def test_fields_that_cannot_be_used_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        augment.GMixup(**fields)


def test_labels_that_are_rows_are_mixed_as_they_are():
    graphs = [Graph.from_edges([(0, 1), (1, 2)], 3)] * 6
    data = Dataset(graphs, [[0.6, 0.4]] * 3 + [[0.2, 0.8]] * 3)
    out = augment.GMixup(ratio=0.5)(jax.random.key(0), data)
    lams = np.array([origin.lam for origin in out.origins[-3:]])
    wanted = lams[:, None] * [0.6, 0.4] + (1 - lams[:, None]) * [0.2, 0.8]
    np.testing.assert_allclose(out.labels[-3:], wanted, rtol=1e-5)
