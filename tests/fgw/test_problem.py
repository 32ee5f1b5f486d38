"""Eq. 1 against the fourfold sum written out, autodiff and POT."""

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest

from fgw_jax import Graph
from fgw_jax.errors import InputError
from fgw_jax.fgw.problem import feature_costs, from_graphs
from tests.helpers import generic_graph


def weighted_graph(rng, n):
    return generic_graph(rng, n, diagonal=True, measure=rng.uniform(0.2, 1.0, n))


def fourfold_sum(g1, g2, plan, alpha, q):
    """Eq. 1 to the letter, a tensor of four indices."""
    d = np.linalg.norm(g1.features[:, None] - g2.features[None], axis=-1) ** q
    a = np.abs(g1.structure[:, None, :, None] - g2.structure[None, :, None, :]) ** q
    cost = (1 - alpha) * d[:, :, None, None] + alpha * a
    return np.einsum("ijkl,ij,kl->", cost, plan, plan)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("feasible", [True, False])
def test_value_is_the_fourfold_sum(rng, x64, q, alpha, feasible):
    g1, g2 = weighted_graph(rng, 5), weighted_graph(rng, 4)
    plan = np.outer(g1.weights, g2.weights)
    if not feasible:
        plan = plan * rng.uniform(0.5, 1.5, plan.shape)
    cost = "sqeuclidean" if q == 2 else "euclidean"
    problem = from_graphs(g1, g2, alpha, q, cost)
    linear, quadratic = problem.parts(jnp.asarray(plan))
    expected = fourfold_sum(g1, g2, plan, alpha, q)
    np.testing.assert_allclose(linear + quadratic, expected, rtol=1e-10)
    np.testing.assert_allclose(problem.value(jnp.asarray(plan)), expected, rtol=1e-10)
    np.testing.assert_allclose(problem.objective(jnp.asarray(plan)), expected, rtol=1e-10)
    if alpha == 0.0:
        assert quadratic == 0
    if alpha == 1.0:
        assert linear == 0


def fgw_function(problem, plan):
    """f(pi) = <(1 - alpha) D - 2 alpha A1 pi A2, pi>: the value less its constant (q = 2)."""
    product = problem.structure1 @ plan @ problem.structure2
    inner = (1.0 - problem.alpha) * problem.cost - 2.0 * problem.alpha * product
    return jnp.vdot(inner, plan)


def test_value_is_function_plus_constant_on_feasible_plans(rng, x64):
    g1, g2 = weighted_graph(rng, 6), weighted_graph(rng, 5)
    problem = from_graphs(g1, g2, 0.7)
    plan = problem.product
    constant = problem.alpha * (
        problem.weights1 @ (problem.structure1**2 @ problem.weights1)
        + problem.weights2 @ (problem.structure2**2 @ problem.weights2)
    )
    np.testing.assert_allclose(
        fgw_function(problem, plan) + constant, problem.value(plan), rtol=1e-12
    )


def test_gradient_is_that_of_the_fgw_function(rng, x64):
    g1, g2 = weighted_graph(rng, 6), weighted_graph(rng, 5)
    problem = from_graphs(g1, g2, 0.7)
    plan = jnp.asarray(rng.uniform(size=(6, 5)))
    expected = jax.grad(lambda plan: fgw_function(problem, plan))(plan)
    np.testing.assert_allclose(problem.gradient(plan), expected, rtol=1e-10)


def test_value_agrees_with_pot_at_pots_plan(rng, x64):
    g1, g2 = weighted_graph(rng, 8), weighted_graph(rng, 6)
    problem = from_graphs(g1, g2, 0.5)
    plan, log = ot.gromov.fused_gromov_wasserstein(
        np.asarray(problem.cost),
        g1.structure,
        g2.structure,
        g1.weights,
        g2.weights,
        alpha=0.5,
        log=True,
    )
    np.testing.assert_allclose(problem.value(jnp.asarray(plan)), log["fgw_dist"], rtol=1e-8)


def test_costs_keep_their_digits_when_features_are_large(rng):
    base = rng.integers(-3, 4, (6, 2)).astype(np.float32) * 1e6
    g = Graph.from_adjacency(np.zeros((6, 6)), base)
    shifted = Graph.from_adjacency(np.zeros((6, 6)), base + np.float32(2.0))
    cost = np.asarray(feature_costs(g, shifted))
    np.testing.assert_allclose(np.diag(cost), 8.0)


def test_feature_costs_by_name_and_by_matrix(rng):
    g1, g2 = weighted_graph(rng, 4), weighted_graph(rng, 3)
    squared = np.asarray(feature_costs(g1, g2))
    np.testing.assert_allclose(feature_costs(g1, g2, "euclidean") ** 2, squared, rtol=1e-5)
    given = rng.uniform(size=(4, 3))
    np.testing.assert_allclose(feature_costs(g1, g2, given), given, rtol=1e-6)
    with pytest.raises(InputError, match="feature_cost"):
        feature_costs(g1, g2, "manhattan")
    with pytest.raises(InputError, match=r"feature_cost.*\(4, 3\)"):
        feature_costs(g1, g2, given.T)


def test_padding_costs_nothing(rng):
    g1, g2 = weighted_graph(rng, 4), weighted_graph(rng, 3)
    plain, padded = from_graphs(g1, g2, 0.5), from_graphs(g1.pad(7), g2.pad(8), 0.5)
    plan = np.pad(np.asarray(plain.product), [(0, 3), (0, 5)])
    np.testing.assert_allclose(padded.value(plan), plain.value(plain.product), rtol=1e-6)
    assert not np.asarray(padded.cost)[4:].any() and not np.asarray(padded.cost)[:, 3:].any()


@pytest.mark.parametrize("q", [1, 2])
def test_gradient_is_the_slope_of_the_value_along_feasible_directions(rng, x64, q):
    # Terms constant along rows or columns are left out: they vanish between feasible plans.
    problem = from_graphs(weighted_graph(rng, 6), weighted_graph(rng, 5), 0.7, q)
    direction = rng.normal(size=(6, 5))
    direction = direction - direction.mean(0) - direction.mean(1)[:, None] + direction.mean()
    _, slope = jax.jvp(problem.value, (problem.product,), (jnp.asarray(direction),))
    moved = jnp.vdot(problem.gradient(problem.product), direction)
    np.testing.assert_allclose(moved, slope, rtol=1e-8)


def test_value_of_large_nearly_constant_structures_keeps_its_digits(rng):
    # Differences of one on top of a thousand: the squares are a million times the value.
    base = np.triu(rng.integers(0, 2, (6, 6)), 1).astype(float)
    plain = [Graph.from_adjacency(b + b.T) for b in (base, base[::-1, ::-1].T)]
    lifted = [Graph.from_adjacency(g.adjacency, structure=g.structure + 1000.0) for g in plain]
    plan = np.eye(6, dtype=np.float32) / 6
    expected = from_graphs(*plain, 1.0).value(plan)
    assert expected > 0.1
    np.testing.assert_allclose(from_graphs(*lifted, 1.0).value(plan), expected, rtol=1e-3)


def test_euclidean_cost_has_a_finite_gradient_where_features_agree():
    path = Graph.from_edges([(0, 1)], 2, [1.0, 2.0])

    def total(features):
        moved = Graph(path.structure, features, path.weights, path.adjacency, path.mask)
        return feature_costs(moved, path, "euclidean").sum()

    np.testing.assert_allclose(total(path.features), 2.0)
    assert np.isfinite(jax.grad(total)(jnp.asarray(path.features))).all()


def test_marginal_error_is_that_of_the_worse_side():
    four, two = Graph.from_edges([(0, 1)], 4), Graph.from_edges([(0, 1)], 2)
    plan = np.zeros((4, 2), np.float32)
    plan[:, 0] = 0.25  # rows are right, and all mass lies in one of two columns
    np.testing.assert_allclose(from_graphs(four, two, 0.5).marginal_error(plan), 1.0)
