"""Conditional gradient: descent, stationarity, and values beside POT's."""

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest

from fgw_jax import Strict, distance, distances
from fgw_jax.fgw import Status, bounds, conditional_gradient
from fgw_jax.fgw.mirror_descent import standardize_gradient
from fgw_jax.fgw.problem import from_graphs
from fgw_jax.fgw.projections import safe_log
from tests.helpers import labelled_graph

CG = Strict(method="cg")


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(3)
    sizes = rng.integers(9, 17, (24, 2))
    return [(labelled_graph(rng, n), labelled_graph(rng, m)) for n, m in sizes]


def pot_value(g1, g2, alpha):
    cost = ((g1.features[:, None].astype(float) - g2.features[None]) ** 2).sum(-1)
    arguments = (g1.structure, g2.structure, g1.weights, g2.weights)
    _, log = ot.gromov.fused_gromov_wasserstein(
        cost, *(np.asarray(x, float) for x in arguments), alpha=alpha, log=True
    )
    return log["fgw_dist"]


def test_mean_value_is_not_above_that_of_pot(pairs):
    first, second = zip(*pairs, strict=True)
    out = distances(first, second, solver=CG, max_shapes=1)
    reference = np.mean([pot_value(a, b, 0.95) for a, b in pairs])
    assert out.value.mean() <= reference
    # A pair that zigzags toward a point inside a face may need more steps, and says so.
    assert out.converged.mean() >= 0.95
    assert (out.status[~out.converged] == Status.STEP_LIMIT).all()
    assert (out.marginal_error < 1e-5).all()


@pytest.mark.parametrize("q", [1, 2])
def test_no_step_goes_up(rng, q):
    problem = from_graphs(labelled_graph(rng, 10), labelled_graph(rng, 8), 0.9, q)
    step = jax.jit(conditional_gradient.step)
    state = conditional_gradient.init(problem, safe_log(problem.product), problem.product)
    values = [float(problem.value(state.plan))]
    for _ in range(12):
        state = step(problem, state)
        values.append(float(problem.value(state.plan)))
    assert (np.diff(values) <= 1e-6).all()
    assert values[-1] < values[0] - 0.01
    np.testing.assert_allclose(state.current, values[-1], atol=1e-5)


def test_gap_is_zero_at_the_end_and_bounds_that_of_an_exact_program(pairs):
    step = jax.jit(conditional_gradient.step)
    measure = jax.jit(conditional_gradient.measure, static_argnums=3)
    for g1, g2 in pairs[:1]:
        problem = from_graphs(g1, g2, 0.95)
        state = conditional_gradient.init(problem, safe_log(problem.product))
        for number in range(60):
            state = measure(problem, state, 0.0, 0)
            plan, gap = conditional_gradient.finish(problem, state), state.gap
            gradient = np.asarray(problem.gradient(plan), float)
            weights = (np.asarray(w, float) for w in (g1.weights, g2.weights))
            exact = np.vdot(gradient, plan) - ot.emd2(*(w / w.sum() for w in weights), gradient)
            assert gap >= exact - 1e-5
            if number in (7, 59):
                assert bounds.frank_wolfe_gap(problem, plan) >= exact - 1e-5
            state = step(problem, state)
        assert gap < 1e-4


def test_an_initial_plan_is_not_made_worse(pairs):
    g1, g2 = pairs[0]
    best = distance(g1, g2, solver=CG)
    again = distance(g1, g2, solver=CG, init=best.plan)
    assert again.value <= best.value + 1e-6
    both = distance(g1, g2, solver=Strict(method="cg", starts=2), init=best.plan)
    assert both.value <= best.value + 1e-6


@pytest.mark.slow
def test_padding_changes_nothing(pairs):
    g1, g2 = pairs[1]
    solve = jax.jit(lambda problem: CG.solve(problem))
    plain = solve(from_graphs(g1, g2, 0.95))
    padded = solve(from_graphs(g1.pad(24), g2.pad(20), 0.95))
    np.testing.assert_allclose(plain.value, padded.value, atol=1e-6)
    n, m = g1.num_nodes, g2.num_nodes
    np.testing.assert_allclose(plain.plan, padded.plan[:n, :m], atol=1e-6)
    assert jnp.abs(padded.plan).sum() == pytest.approx(1.0, abs=1e-5)
    assert (padded.plan[n:] == 0).all() and (padded.plan[:, m:] == 0).all()


@pytest.mark.slow
def test_a_batch_gives_what_single_pairs_give(pairs):
    first, second = zip(*pairs[:6], strict=True)
    together = distances(first, second, solver=CG, max_shapes=1)
    apart = [float(distance(a, b, solver=CG).value) for a, b in pairs[:6]]
    np.testing.assert_allclose(together.value, apart, atol=1e-5)


def test_directions_are_in_units_of_their_spread(rng):
    problem = from_graphs(labelled_graph(rng, 10), labelled_graph(rng, 8), 0.9)
    gradient = problem.gradient(problem.product)
    direction = standardize_gradient(problem, 1e3 * gradient + 5.0)
    np.testing.assert_allclose(direction @ problem.weights2, 0.0, atol=1e-4)
    np.testing.assert_allclose(problem.weights1 @ direction, 0.0, atol=1e-4)
    np.testing.assert_allclose((direction**2).mean(), 1.0, rtol=1e-4)
    rows = jnp.arange(10.0)[:, None] + jnp.zeros(8)
    assert not np.asarray(standardize_gradient(problem, rows)).any()
