"""The transport program against POT's network simplex.

Covers fgw_jax.fgw.basis.
"""

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest

from fgw_jax.fgw import basis as trees
from fgw_jax.fgw import linear_program as lp

SHAPE = (14, 11)


def minimise(cost, w1, w2, max_pivots=None):
    """An optimal vertex, and the lower bound of the program."""
    basis, _ = lp.optimise(trees.greedy_basis(-cost, w1, w2), cost, max_pivots)
    return trees.vertex(basis, cost.shape, cost.dtype), lp.lower_bound(cost, w1, w2, max_pivots)


solve = jax.jit(minimise)


def weights(rng, n, size, kind):
    w = np.zeros(size, np.float32)
    w[:n] = 1.0 / n if kind == "uniform" else rng.dirichlet(np.ones(n))
    return w


@pytest.mark.parametrize("kind", ["uniform", "generic"])
@pytest.mark.parametrize("n, m", [(14, 11), (12, 8), (7, 11), (10, 10), (9, 3), (1, 6), (6, 1)])
def test_minimum_is_that_of_pot_under_any_padding(rng, kind, n, m):
    cost = rng.normal(size=SHAPE).astype(np.float32)
    w1, w2 = weights(rng, n, SHAPE[0], kind), weights(rng, m, SHAPE[1], kind)
    plan, dual = solve(cost, w1, w2)
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
    early = jax.jit(jax.vmap(lambda c: minimise(c, w1, w2, max_pivots=4)))
    plans, duals = early(cost)
    best = [ot.emd2(w1.astype(float), w2.astype(float), c.astype(float)) for c in cost]
    assert (np.asarray(duals) <= np.array(best) + 1e-6).all()
    assert (np.einsum("bij,bij->b", cost, plans) >= np.array(best) - 1e-5).all()


def test_zero_weight_and_ties(rng):
    cost = np.zeros((6, 5), np.float32)
    w1 = np.array([0.5, 0.0, 0.25, 0.0, 0.25, 0.0], np.float32)
    w2 = np.array([0.25, 0.25, 0.0, 0.25, 0.25], np.float32)
    plan, dual = solve(cost, w1, w2)
    np.testing.assert_allclose(plan.sum(1), w1, atol=1e-7)
    np.testing.assert_allclose(plan.sum(0), w2, atol=1e-7)
    assert abs(dual) < 1e-6


def test_equal_weights_give_exact_permutations(rng):
    n = 12
    order = rng.permutation(n)
    cost = np.ones((n, n), np.float32)
    cost[np.arange(n), order] = 0.0
    plan, _ = solve(cost, np.full(n, 1 / n, np.float32), np.full(n, 1 / n, np.float32))
    expected = np.zeros((n, n), np.float32)
    expected[np.arange(n), order] = np.float32(1 / n)
    np.testing.assert_allclose(plan, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["uniform", "generic"])
def test_greedy_basis_returns_a_vertex_it_is_given(rng, kind):
    """Cells of a tree, in any order of size, are found again: a vertex is a fixed point."""
    n, m = 9, 5
    w1, w2 = weights(rng, n, n, kind), weights(rng, m, m, kind)
    vertex, _ = solve(rng.normal(size=(n, m)).astype(np.float32), w1, w2)
    scores = jnp.where(vertex > 1e-6, 0.0, -50.0)
    basis = jax.jit(trees.greedy_basis)(scores, w1, w2)
    again = trees.vertex(basis, (n, m), jnp.float32)
    assert (np.asarray(basis.flow)[np.asarray(basis.flow) != 0] > 0).all()
    np.testing.assert_allclose(again.sum(1), w1, atol=1e-6)
    np.testing.assert_allclose(again.sum(0), w2, atol=1e-6)
    assert np.abs(again - vertex)[vertex > 1e-6].sum() < 0.5


def test_paths_are_the_inverse_of_the_basis(rng):
    """Potentials of a basis reproduce the cost of each of its arcs, after any number of pivots."""
    cost = rng.normal(size=SHAPE).astype(np.float32)
    w1, w2 = weights(rng, 12, SHAPE[0], "generic"), weights(rng, 9, SHAPE[1], "generic")
    price, pivot = jax.jit(lp.price), jax.jit(lp.pivot, static_argnums=2)
    basis = jax.jit(trees.greedy_basis)(-cost, w1, w2)
    for _ in range(3):
        basis = pivot(basis, price(basis, cost), 2)
    prices = price(basis, cost)
    arcs = np.flatnonzero(np.asarray(basis.flow) > 0)
    assert len(arcs) == 12 + 9 - 1
    row, column = np.asarray(basis.row)[arcs], np.asarray(basis.column)[arcs]
    potential = np.asarray(lp.potentials(basis, prices))
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
        supply, demand, total = trees.perturbed_units(jnp.asarray(given), jnp.asarray(given))
        for units in (supply, demand):
            assert (np.asarray(units)[:n] > 0).all() and not np.asarray(units)[n:].any()
        assert int(supply.sum()) - int(demand.sum()) == 0
        error = np.abs(np.asarray(supply, float) / int(total) - given).sum()
        assert error < 3 * n / (int(total) // trees.perturbation_step(1536))


def clusters(rng, n, distance):
    """Points of two clusters ``distance`` apart."""
    points = rng.normal(size=(n, 2))
    points[::2, 0] += distance
    return points


@pytest.mark.parametrize("distance", [10.0, 1e4])
@pytest.mark.parametrize("kind", ["uniform", "generic"])
def test_costs_may_differ_by_orders_of_magnitude(rng, distance, kind):
    """Steps of the largest cost would leave nothing of the costs inside of a cluster."""
    for _ in range(5):
        x, y = (clusters(rng, n, distance).astype(np.float32) for n in SHAPE)
        cost = ((x[:, None].astype(float) - y[None]) ** 2).sum(-1)
        w1, w2 = (weights(rng, n, n, kind) for n in SHAPE)
        plan, _ = solve(cost.astype(np.float32), w1, w2)
        p, q = w1.astype(float), w2.astype(float)
        best = ot.emd2(p / p.sum(), q / q.sum(), cost)
        np.testing.assert_allclose(np.vdot(cost, plan), best, rtol=1e-4)


def test_weightless_cells_have_no_say(rng):
    cost = rng.normal(size=SHAPE).astype(np.float32)
    w1, w2 = weights(rng, 12, SHAPE[0], "generic"), weights(rng, 9, SHAPE[1], "generic")
    plain, _ = solve(cost, w1, w2)
    cost[12:], cost[:, 9:] = 1e9, -1e9
    np.testing.assert_array_equal(solve(cost, w1, w2)[0], plain)


def test_double_precision_reaches_its_own_digits(rng, x64):
    cost = rng.normal(size=SHAPE)
    w1, w2 = (rng.dirichlet(np.ones(n)) for n in SHAPE)
    plan, bound = jax.jit(minimise)(cost, w1, w2)
    best = ot.emd2(w1, w2, cost)
    np.testing.assert_allclose(np.vdot(cost, plan), best, rtol=0, atol=1e-9)
    np.testing.assert_allclose(bound, best, rtol=0, atol=1e-9)
    assert bound <= best


def test_gap_is_that_of_the_program(rng):
    """Zero at the optimum, the true gap or more elsewhere, large offsets or none."""
    cost = rng.normal(size=SHAPE).astype(np.float32)
    w1, w2 = weights(rng, 12, SHAPE[0], "generic"), weights(rng, 9, SHAPE[1], "generic")
    p, q = (w[w > 0].astype(float) for w in (w1, w2))
    best = ot.emd2(p / p.sum(), q / q.sum(), cost[:12, :9].astype(float))
    plan = np.outer(w1, w2)
    for offset in (0.0, 1e5):
        shifted = cost + offset * (np.arange(SHAPE[0]) % 2)[:, None].astype(np.float32)
        shift = offset * float(w1 @ (np.arange(SHAPE[0]) % 2))
        shifted = jnp.asarray(shifted)
        basis, prices = lp.optimise(trees.greedy_basis(-shifted, w1, w2), shifted)
        vertex = trees.vertex(basis, SHAPE, jnp.float32)
        assert lp.gap(basis, prices, vertex, w1) <= 1e-5 + 1e-5 * offset
        exact = np.vdot(np.asarray(shifted, float), plan) - shift - best
        assert lp.gap(basis, prices, plan, w1) >= exact - 1e-5 - 1e-7 * offset


def test_missing_mass_goes_along_the_tree(rng):
    w1, w2 = weights(rng, 12, SHAPE[0], "generic"), weights(rng, 9, SHAPE[1], "generic")
    basis = trees.greedy_basis(rng.normal(size=SHAPE).astype(np.float32), w1, w2)
    vertex = trees.vertex(basis, SHAPE, jnp.float32)
    met = trees.meet_marginals(basis, vertex * 0.999, w1, w2)
    np.testing.assert_allclose(met.sum(1), w1, atol=2e-7)
    np.testing.assert_allclose(met.sum(0), w2, atol=2e-7)
    assert not np.asarray(met)[np.asarray(vertex) == 0].any()
