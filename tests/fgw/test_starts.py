"""Starts: ties broken alike whatever the padding, and a portfolio that finds isomorphisms."""

import jax
import numpy as np
import pytest

from fgw_jax import Graph, Strict, distance, distances
from fgw_jax.fgw import starts
from fgw_jax.fgw.problem import from_graphs
from tests.helpers import labelled_graph, permuted

# Compiled whole: operation by operation they take twenty times as long.
portfolio = jax.jit(starts.portfolio, static_argnames="count")
signature_cost, tie_breaker = jax.jit(starts.signature_cost), jax.jit(starts.tie_breaker)
log_start = jax.jit(starts.log_start)


def few_labels(rng, n):
    return labelled_graph(rng, n, 0.2)


def molecule_like(rng, n):
    """A random tree with a few rings: few labels, small degrees, many near-symmetries."""
    edges = [(i, int(rng.integers(max(0, i - 3), i))) for i in range(1, n)]
    edges += [tuple(rng.choice(n, 2, replace=False)) for _ in range(2)]
    return Graph.from_edges(edges, n, np.eye(3)[rng.choice(3, n, p=[0.7, 0.2, 0.1])])


def shuffled(rng, graph):
    return permuted(graph, rng.permutation(graph.num_nodes))


def test_portfolio_holds_the_default_start_first(rng):
    problem = from_graphs(few_labels(rng, 9), few_labels(rng, 7), 0.95)
    logs = portfolio(problem, 5, 0.1)
    assert logs.shape == (5, 9, 7)
    np.testing.assert_allclose(logs[0], log_start(problem, None, 0.1), atol=1e-6)
    distinct = {np.asarray(x).tobytes() for x in logs}
    assert len(distinct) == 5
    assert np.isfinite(logs).all()


def test_default_start_of_unequal_weights_is_near_their_product(rng):
    graphs = [few_labels(rng, n) for n in (9, 7)]
    heavy = [
        Graph.from_adjacency(g.adjacency, g.features, measure=rng.uniform(0.1, 1, g.num_nodes))
        for g in graphs
    ]
    problem = from_graphs(*heavy, 0.95)
    expected = np.log(np.asarray(problem.product))
    for log_plan in (portfolio(problem, 1, 0.1)[0], log_start(problem, None, 0.0)):
        np.testing.assert_allclose(log_plan, expected, atol=0.5)
    warm = starts.log_start(problem, np.zeros((9, 7), np.float32), 0.1)
    np.testing.assert_allclose(np.exp(warm), starts.WARM_MIX * problem.product, rtol=1e-4)


def test_ties_are_broken_by_ranks_with_noise_of_unit_variance(rng):
    g1, g2 = few_labels(rng, 30), few_labels(rng, 40)
    problem = from_graphs(g1, g2, 0.95)
    ranks = starts._ranks(problem.structure1, problem.cost @ problem.weights2, problem.weights1)
    np.testing.assert_array_equal(np.sort(ranks), np.arange(30))
    noise = np.asarray(tie_breaker(problem))
    assert abs(noise.mean()) < 0.1 and abs(noise.std() - 1) < 0.1
    other = np.asarray(tie_breaker(from_graphs(g2, g1, 0.95)))
    np.testing.assert_array_equal(other.T, noise)
    assert (noise != np.asarray(tie_breaker(problem, 1))).mean() > 0.9


def test_portfolio_is_the_same_under_padding(rng):
    g1, g2 = few_labels(rng, 9), few_labels(rng, 7)
    plain = portfolio(from_graphs(g1, g2, 0.95), 4, 0.1)
    padded = portfolio(from_graphs(g1.pad(12), g2.pad(12), 0.95), 4, 0.1)
    np.testing.assert_allclose(padded[:, :9, :7], plain, rtol=1e-4, atol=1e-4)


def test_signatures_agree_on_isomorphic_nodes(rng):
    graph = few_labels(rng, 12)
    order = rng.permutation(12)
    cost = signature_cost(from_graphs(graph, permuted(graph, order), 0.95))
    np.testing.assert_allclose(np.asarray(cost)[order, np.arange(12)], 0.0, atol=1e-4)
    assert np.median(cost) > 0.1


def test_signatures_of_edgeless_and_featureless_graphs_are_finite():
    empty = Graph.from_adjacency(np.zeros((3, 3)), np.zeros((3, 1)))
    cost = signature_cost(from_graphs(empty, empty, 0.5))
    assert (np.asarray(cost) == 0).all()
    assert float(distance(empty, empty, solver=Strict(method="cg", starts=3)).value) == 0.0


def test_more_starts_are_never_worse(rng):
    first = [few_labels(rng, n) for n in rng.integers(8, 13, 10)]
    second = [few_labels(rng, n) for n in rng.integers(8, 13, 10)]
    one = distances(first, second, solver=Strict(method="cg"))
    four = distances(first, second, solver=Strict(method="cg", starts=4))
    assert (four.value <= one.value + 1e-6).all()
    assert four.value.mean() < one.value.mean()
    assert (four.marginal_error < 1e-5).all()


def test_permuted_copies_are_found(rng):
    first = [molecule_like(rng, n) for n in rng.integers(12, 25, 20)]
    second = [shuffled(rng, g) for g in first]
    out = distances(first, second, solver=Strict(method="cg", starts=8), max_shapes=1)
    assert (out.value <= 1e-5).mean() >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NCI1"])
def test_permuted_molecules_are_found(rng, datasets_dir, name):
    import fgw_jax

    graphs = fgw_jax.datasets.load(name, data_dir=datasets_dir).graphs
    first = [graphs[i] for i in rng.choice(len(graphs), 100, replace=False)]
    second = [shuffled(rng, g) for g in first]
    out = distances(first, second, solver=Strict(method="cg", starts=8), max_shapes=2)
    assert (out.value <= 1e-5).sum() >= 95


@pytest.mark.slow
def test_starts_under_jit_and_vmap(rng):
    problems = [from_graphs(few_labels(rng, 7), few_labels(rng, 6), 0.9) for _ in range(3)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *problems)
    solver = Strict(method="cg", starts=3)
    together = jax.jit(jax.vmap(solver.solve))(stacked)
    alone = jax.jit(solver.solve)
    apart = [float(alone(p).value) for p in problems]
    np.testing.assert_allclose(together.value, apart, atol=1e-5)
