"""Lower bound and gap: true bounds, against enumeration and many starts.

Covers fgw_jax.fgw.certificates.
"""

import itertools

import jax
import numpy as np
import ot
import pytest

from fgw_jax import Graph, Strict, distance, distances
from fgw_jax.errors import InputError
from fgw_jax.fgw import bounds, lower_bound, lower_bounds
from fgw_jax.fgw.problem import from_graphs
from tests.helpers import labelled_graph


def signed_graph(rng, n, measure):
    matrix = rng.normal(size=(n, n))
    weights = "uniform" if measure == "uniform" else rng.uniform(0.2, 1.0, n)
    return Graph.from_adjacency(
        np.abs(matrix + matrix.T),
        rng.normal(size=(n, 2)),
        measure=weights,
        structure=matrix + matrix.T,
    )


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("q", [1, 2])
def test_below_every_permutation_and_every_mixture_of_two(rng, alpha, q):
    """Graphs of four nodes: all vertices, and the middle of any two of them."""
    bound = jax.jit(bounds.lower_bound)
    orders = np.array(list(itertools.permutations(range(4))))
    vertices = np.eye(4)[orders] / 4
    pairs = np.array(list(itertools.combinations_with_replacement(range(24), 2)))
    plans = (0.5 * vertices[pairs[:, 0]] + 0.5 * vertices[pairs[:, 1]]).astype(np.float32)
    for _ in range(5):
        g1, g2 = labelled_graph(rng, 4, 0.4), labelled_graph(rng, 4, 0.4)
        problem = from_graphs(g1, g2, alpha, q)
        least = float(jax.vmap(problem.value)(plans).min())
        assert -1e-7 <= bound(problem) <= least + 1e-6
        if alpha == 0.0:
            np.testing.assert_allclose(bound(problem), least, atol=1e-4)


@pytest.mark.parametrize("measure", ["uniform", "generic"])
@pytest.mark.parametrize("q", [1, 2])
def test_row_distances_are_those_of_measures_on_the_line(rng, x64, measure, q):
    g1, g2 = signed_graph(rng, 6, measure), signed_graph(rng, 5, measure)
    problem = from_graphs(g1.pad(8), g2.pad(8), 0.5, q)
    omega = np.asarray(bounds.row_distances(problem))[:6, :5]
    expected = np.array(
        [
            [
                ot.wasserstein_1d(a, b, np.asarray(g1.weights), np.asarray(g2.weights), p=q)
                for b in np.asarray(g2.structure)
            ]
            for a in np.asarray(g1.structure)
        ]
    )
    assert (omega <= expected + 1e-9).all()
    if measure == "uniform":
        np.testing.assert_allclose(omega, expected, atol=1e-9)
    else:
        assert omega.sum() > 0.7 * expected.sum()


def test_below_the_best_of_many_starts_and_close_enough_to_say_something(rng):
    first = [labelled_graph(rng, n, 0.2) for n in rng.integers(8, 17, 10)]
    second = [labelled_graph(rng, n, 0.2) for n in rng.integers(8, 17, 10)]
    best = distances(first, second, solver=Strict(method="cg", starts=4)).value
    bound = lower_bounds(first, second)
    assert bound.shape == (10,)
    assert (bound <= best + 1e-6).all()
    assert (bound >= 0).all()
    assert bound.mean() > 0.4 * best.mean()
    np.testing.assert_allclose(lower_bound(first[3], second[3]), bound[3], atol=1e-5)


def test_zero_for_a_graph_and_itself(rng):
    graph = labelled_graph(rng, 9, 0.4)
    assert lower_bound(graph, graph) == 0.0


def test_bound_under_vmap_is_that_of_each_pair(rng):
    problems = [
        from_graphs(labelled_graph(rng, 7, 0.4), labelled_graph(rng, 6, 0.4), 0.9) for _ in range(3)
    ]
    stacked = jax.tree.map(lambda *x: np.stack(x), *problems)
    together = jax.jit(jax.vmap(bounds.lower_bound))(stacked)
    alone = jax.jit(bounds.lower_bound)
    np.testing.assert_allclose(together, [alone(p) for p in problems], atol=1e-6)


def test_gap_of_a_stationary_plan_is_zero_and_of_others_positive(rng):
    graph = labelled_graph(rng, 10, 0.4)
    problem = from_graphs(graph, graph, 0.5)
    identity = np.eye(10, dtype=np.float32) / 10
    assert jax.jit(bounds.frank_wolfe_gap)(problem, problem.product) > 1e-3
    out = jax.jit(Strict(method="cg").solve)(problem, identity)
    assert out.gap < 1e-5
    assert out.value < 1e-6


@pytest.mark.parametrize("scale", [1e20, 1e30])
def test_bounds_that_overflow_are_refused(scale):
    path = Graph.from_edges([(0, 1), (1, 2)], 3, np.arange(3) * scale)
    edge = Graph.from_edges([(0, 1)], 2, -np.arange(2) * scale)
    with pytest.raises(InputError, match="graph1, graph2: the costs overflow"):
        lower_bound(path, edge)
    small = Graph.from_edges([(0, 1)], 2)
    with pytest.raises(InputError, match="graph1, graph2: the costs of pair 1 overflow"):
        lower_bounds([small, path], [small, edge])
    heavy = Graph.from_edges([(0, 1)], 2, edge_weights=[scale])
    with pytest.raises(InputError, match="graph1, graph2: the costs overflow"):
        lower_bound(heavy, small)
    assert np.isfinite(lower_bound(path, edge, alpha=1.0))
    assert np.isfinite(lower_bound(heavy, small, alpha=0.0))


def test_a_negative_cost_matrix_gives_a_bound_below_the_value(rng):
    g1, g2 = labelled_graph(rng, 6), labelled_graph(rng, 5)
    for alpha in (0.0, 0.5):
        cost = -np.abs(rng.normal(size=(6, 5)))
        bound = lower_bound(g1, g2, alpha, feature_cost=cost)
        assert bound <= distance(g1, g2, alpha, feature_cost=cost).value + 1e-6
    assert bound < 0


@pytest.mark.parametrize("features", ["gaussian", "clusters", "one-hot", "heavy"])
@pytest.mark.parametrize("n", [20, 64])
def test_features_alone_are_bounded_tightly(rng, features, n):
    draw = {
        "gaussian": lambda: rng.normal(size=(n, 2)),
        "clusters": lambda: rng.normal(size=(n, 2)) + 10.0 * (np.arange(n) % 2)[:, None],
        "one-hot": lambda: np.eye(4)[rng.integers(0, 4, n)],
        "heavy": lambda: rng.standard_cauchy(size=(n, 2)),
    }[features]
    empty = np.zeros((n, n))
    pairs = [[Graph.from_adjacency(empty, draw()) for _ in range(2)] for _ in range(5)]
    weights = np.full(n, 1.0 / n)
    best = []
    for a, b in pairs:
        x, y = (np.asarray(g.features, float) for g in (a, b))
        best.append(ot.emd2(weights, weights, ((x[:, None] - y[None]) ** 2).sum(-1)))
    found = lower_bounds(*zip(*pairs, strict=True), 0.0)
    assert (found <= best).all()
    assert np.median(found / best) >= 0.999
