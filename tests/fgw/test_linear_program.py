"""The transport program against POT's network simplex."""

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest

from fgw_jax.fgw import linear_program as lp

SHAPE = (14, 11)
minimise = jax.jit(lp.minimise)


def weights(rng, n, size, kind):
    w = np.zeros(size, np.float32)
    w[:n] = 1.0 / n if kind == "uniform" else rng.dirichlet(np.ones(n))
    return w


@pytest.mark.parametrize("kind", ["uniform", "generic"])
@pytest.mark.parametrize("n, m", [(14, 11), (12, 8), (7, 11), (10, 10), (9, 3), (1, 6), (6, 1)])
def test_minimum_is_that_of_pot_under_any_padding(rng, kind, n, m):
    cost = rng.normal(size=SHAPE).astype(np.float32)
    w1, w2 = weights(rng, n, SHAPE[0], kind), weights(rng, m, SHAPE[1], kind)
    plan, dual = minimise(cost, w1, w2)
    p, q = w1[:n].astype(float), w2[:m].astype(float)
    best = ot.emd2(p / p.sum(), q / q.sum(), cost[:n, :m].astype(float))
    np.testing.assert_allclose(np.vdot(cost, plan), best, atol=2e-5)
    np.testing.assert_allclose(dual, best, atol=2e-5)
    np.testing.assert_allclose(plan.sum(1), w1, atol=2e-6)
    np.testing.assert_allclose(plan.sum(0), w2, atol=2e-6)
    assert (np.asarray(plan)[n:] == 0).all() and (np.asarray(plan)[:, m:] == 0).all()
    assert (plan > 0).sum() <= n + m - 1


def test_dual_is_below_the_minimum_even_when_stopped_early(rng):
    cost = rng.normal(size=(8, *SHAPE)).astype(np.float32)
    w1, w2 = (
        np.full(SHAPE[0], 1 / SHAPE[0], np.float32),
        np.full(SHAPE[1], 1 / SHAPE[1], np.float32),
    )
    early = jax.jit(jax.vmap(lambda c: lp.minimise(c, w1, w2, max_pivots=4)))
    plans, duals = early(cost)
    best = [ot.emd2(w1.astype(float), w2.astype(float), c.astype(float)) for c in cost]
    assert (np.asarray(duals) <= np.array(best) + 1e-6).all()
    assert (np.einsum("bij,bij->b", cost, plans) >= np.array(best) - 1e-5).all()


def test_zero_weight_and_ties(rng):
    cost = np.zeros((6, 5), np.float32)
    w1 = np.array([0.5, 0.0, 0.25, 0.0, 0.25, 0.0], np.float32)
    w2 = np.array([0.25, 0.25, 0.0, 0.25, 0.25], np.float32)
    plan, dual = minimise(cost, w1, w2)
    np.testing.assert_allclose(plan.sum(1), w1, atol=1e-7)
    np.testing.assert_allclose(plan.sum(0), w2, atol=1e-7)
    assert abs(dual) < 1e-6


def test_equal_weights_give_exact_permutations(rng):
    n = 12
    order = rng.permutation(n)
    cost = np.ones((n, n), np.float32)
    cost[np.arange(n), order] = 0.0
    plan, _ = minimise(cost, np.full(n, 1 / n, np.float32), np.full(n, 1 / n, np.float32))
    expected = np.zeros((n, n), np.float32)
    expected[np.arange(n), order] = np.float32(1 / n)
    np.testing.assert_allclose(plan, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["uniform", "generic"])
def test_greedy_basis_returns_a_vertex_it_is_given(rng, kind):
    """Cells of a tree, in any order of size, are found again: a vertex is a fixed point."""
    n, m = 9, 5
    w1, w2 = weights(rng, n, n, kind), weights(rng, m, m, kind)
    vertex, _ = minimise(rng.normal(size=(n, m)).astype(np.float32), w1, w2)
    scores = jnp.where(vertex > 1e-6, 0.0, -50.0)
    basis = jax.jit(lp.greedy_basis)(scores, w1, w2)
    again = lp.vertex(basis, (n, m), jnp.float32)
    assert (np.asarray(basis.flow)[np.asarray(basis.flow) != 0] > 0).all()
    np.testing.assert_allclose(again.sum(1), w1, atol=1e-6)
    np.testing.assert_allclose(again.sum(0), w2, atol=1e-6)
    assert np.abs(again - vertex)[vertex > 1e-6].sum() < 0.5


def test_paths_are_the_inverse_of_the_basis(rng):
    """Potentials of a basis reproduce the cost of each of its arcs, after any number of pivots."""
    cost = rng.normal(size=SHAPE).astype(np.float32)
    w1, w2 = weights(rng, 12, SHAPE[0], "generic"), weights(rng, 9, SHAPE[1], "generic")
    price, pivot = jax.jit(lp.price), jax.jit(lp.pivot, static_argnums=2)
    basis = jax.jit(lp.greedy_basis)(-cost, w1, w2)
    for _ in range(3):
        basis = pivot(basis, price(basis, cost), 2)
    prices = price(basis, cost)
    arcs = np.flatnonzero(np.asarray(basis.flow) > 0)
    assert len(arcs) == 12 + 9 - 1
    row, column = np.asarray(basis.row)[arcs], np.asarray(basis.column)[arcs]
    potential = np.asarray(prices.potential) * float(prices.step)
    np.testing.assert_allclose(
        potential[row] - potential[SHAPE[0] + column], cost[row, column], atol=1e-4
    )


@pytest.mark.parametrize("n", [902, 918, 931, 1400])
def test_rounding_takes_no_node_its_mass(n):
    """Half a quantum a node adds up to more than one of many nodes has."""
    weights = np.zeros(1536, np.float32)
    weights[:n] = 1 / n
    skewed = np.where(weights > 0, np.arange(1536) % 7 + 1, 0).astype(np.float32)
    for given in (weights, skewed / skewed.sum()):
        supply, demand, total = lp._perturbed_units(jnp.asarray(given), jnp.asarray(given))
        for units in (supply, demand):
            assert (np.asarray(units)[:n] > 0).all() and not np.asarray(units)[n:].any()
        assert int(supply.sum()) - int(demand.sum()) == 0
        error = np.abs(np.asarray(supply, float) / int(total) - given).sum()
        assert error < 3 * n / (int(total) // lp._perturbation_step(1536))
