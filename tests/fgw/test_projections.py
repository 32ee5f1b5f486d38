"""Projections: marginals met, mass where it belongs, safe at the ends of float32."""

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest

from fgw_jax.fgw import projections


def marginals(rng, n, m):
    a, b = rng.uniform(0.2, 1, n), rng.uniform(0.2, 1, m)
    return jnp.asarray(a / a.sum()), jnp.asarray(b / b.sum())


def test_row_and_column_projections_meet_their_marginal(rng):
    a, b = marginals(rng, 5, 7)
    log_plan = jnp.asarray(rng.normal(size=(5, 7)))
    log_rows, rows = projections.project_rows(log_plan, a, b)
    log_columns, columns = projections.project_columns(log_plan, a, b)
    np.testing.assert_allclose(rows.sum(1), a, rtol=1e-6)
    np.testing.assert_allclose(columns.sum(0), b, rtol=1e-6)
    np.testing.assert_allclose(jnp.exp(log_rows), rows, rtol=1e-5)
    np.testing.assert_allclose(jnp.exp(log_columns), columns, rtol=1e-5)
    # The projection rescales rows and changes nothing within one.
    ratios = rows / jnp.exp(log_plan)
    np.testing.assert_allclose(ratios, jnp.broadcast_to(ratios[:, :1], ratios.shape), rtol=1e-5)


def test_sinkhorn_agrees_with_pot(rng, x64):
    a, b = marginals(rng, 6, 8)
    cost = rng.uniform(size=(6, 8))
    expected = ot.sinkhorn(np.asarray(a), np.asarray(b), cost, reg=0.1, stopThr=1e-13)
    _, plan = projections.sinkhorn(jnp.asarray(-cost / 0.1), a, b, 500)
    np.testing.assert_allclose(plan, expected, atol=1e-10)


@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
def test_sinkhorn_is_finite_and_exact_on_columns(rng, spread):
    a, b = marginals(rng, 6, 8)
    log_plan, plan = projections.sinkhorn(jnp.asarray(spread * rng.normal(size=(6, 8))), a, b, 20)
    assert np.isfinite(plan).all() and np.isfinite(log_plan).all()
    np.testing.assert_allclose(plan.sum(0), b, rtol=1e-4)


def test_no_mass_on_padding_or_weightless_nodes(rng):
    a = jnp.asarray([0.5, 0.0, 0.5, 0.0])
    b = jnp.asarray([0.3, 0.7, 0.0])
    log_kernel = jnp.asarray(rng.normal(size=(4, 3)))
    _, plan = jax.jit(projections.sinkhorn, static_argnums=3)(log_kernel, a, b, 50)
    rounded = projections.round_to_feasible(plan, a, b)
    for p in (plan, rounded):
        assert not np.asarray(p)[[1, 3]].any() and not np.asarray(p)[:, 2].any()
    np.testing.assert_allclose(rounded.sum(1), a, atol=1e-6)


def test_rounding_is_feasible_and_moves_little(rng):
    a, b = marginals(rng, 6, 8)
    plan = jnp.outer(a, b) * jnp.asarray(rng.uniform(0.9, 1.1, (6, 8)))
    error = np.abs(plan.sum(1) - a).sum() + np.abs(plan.sum(0) - b).sum()
    rounded = projections.round_to_feasible(plan, a, b)
    np.testing.assert_allclose(rounded.sum(1), a, atol=1e-6)
    np.testing.assert_allclose(rounded.sum(0), b, atol=1e-6)
    assert (np.asarray(rounded) >= 0).all()
    assert np.abs(rounded - plan).sum() <= 2 * error + 1e-6


def test_rounding_keeps_a_feasible_plan():
    plan = jnp.asarray([[0.5, 0.0], [0.0, 0.5]])
    half = jnp.asarray([0.5, 0.5])
    np.testing.assert_array_equal(projections.round_to_feasible(plan, half, half), plan)


def test_rounding_leaves_no_negative_entry(rng):
    """In float32 a row may sum to a last bit more than its weight."""
    for _ in range(20):
        first, second = (rng.dirichlet(np.ones(n)).astype(np.float32) for n in (9, 7))
        plan = rng.random((9, 7)).astype(np.float32) ** 4
        rounded = np.asarray(projections.round_to_feasible(plan / plan.sum(), first, second))
        assert (rounded >= 0).all()


def test_logarithms_of_zero_are_finite():
    logs = np.asarray(projections.safe_log(np.array([0.0, 1.0, np.e], np.float32)))
    np.testing.assert_allclose(logs, [projections.LOG_ZERO, 0.0, 1.0], rtol=1e-6)
