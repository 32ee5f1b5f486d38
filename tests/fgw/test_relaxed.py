"""Alg. 2 to the letter, and what the relaxed solver promises beyond it."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from fgw_jax import Graph, Relaxed, distance
from fgw_jax.fgw import Schedule, from_graphs

LITERAL = Relaxed(step_size=1.0, schedule=None, plan="last")


@pytest.fixture
def pair(rng):
    """Two graphs of 8 and 7 nodes with generic features, one with weights of its own."""
    graphs = []
    for size, measure in ((8, rng.uniform(0.5, 1.5, 8)), (7, "uniform")):
        upper = np.triu(rng.uniform(size=(size, size)) < 0.4, 1)
        adjacency = (upper | upper.T).astype(float)
        graphs.append(Graph.from_adjacency(adjacency, rng.normal(size=(size, 3)), measure=measure))
    return graphs


def alg2(graph1, graph2, alpha, gamma, num_steps):
    """Lines 7 to 12 of Alg. 2 in double precision; the plans of the last two half steps."""
    a, b = (np.asarray(g.structure, float) for g in (graph1, graph2))
    x, y = (np.asarray(g.features, float) for g in (graph1, graph2))
    w1, w2 = (np.asarray(g.weights, float) for g in (graph1, graph2))
    cost = ((x[:, None] - y[None]) ** 2).sum(-1)
    plan = np.outer(w1, w2)
    rows = plan
    for _ in range(num_steps):
        plan = plan * np.exp(gamma * (4 * alpha * a @ plan @ b - (1 - alpha) * cost))
        plan = rows = plan * (w1 / plan.sum(1))[:, None]
        plan = plan * np.exp(gamma * (4 * alpha * a @ plan @ b - (1 - alpha) * cost))
        plan = plan * (w2 / plan.sum(0))[None, :]
    return plan, rows


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
def test_literal_setting_is_alg_2(pair, gamma):
    one, two = pair
    solver = dataclasses.replace(LITERAL, step_size=gamma, max_steps=20, rtol=0.0, atol=0.0)
    out = distance(one, two, 0.9, solver)
    last, rows = alg2(one, two, 0.9, gamma, 20)
    np.testing.assert_allclose(out.plan, last, atol=2e-5)
    assert int(out.num_steps) == 20
    mean = distance(one, two, 0.9, dataclasses.replace(solver, plan="mean"))
    np.testing.assert_allclose(mean.plan, 0.5 * (last + rows), atol=2e-5)


def test_literal_setting_stops_when_the_objective_settles(pair):
    one, two = pair
    out = distance(one, two, 0.9, LITERAL)
    assert bool(out.converged) and int(out.num_steps) < 300 and int(out.num_steps) % 10 == 0
    hasty = distance(one, two, 0.9, dataclasses.replace(LITERAL, max_steps=10))
    assert not bool(hasty.converged)
    assert "max_steps" in hasty.message()


def test_rows_or_columns_or_both_hold_as_promised(pair):
    one, two = pair
    for solver in (LITERAL, Relaxed(plan="last")):
        out = distance(one, two, 0.9, solver)
        np.testing.assert_allclose(out.plan.sum(0), two.weights, atol=1e-6)  # columns come last
        feasible = distance(one, two, 0.9, dataclasses.replace(solver, round=True))
        assert float(feasible.marginal_error) <= 1e-5 < float(out.marginal_error)
        assert float(feasible.gap) >= 0 and float(out.gap) >= 0


def test_schedule_sizes_are_geometric():
    schedule = Schedule(first=4.0, last=1.0, num_steps=3)
    np.testing.assert_allclose([schedule(jnp.float32(i)) for i in range(3)], [4, 2, 1], rtol=1e-6)
    assert float(Schedule(num_steps=1)(jnp.float32(0))) == 3.0


def test_default_is_closer_to_stationary_than_the_product_coupling(pair):
    one, two = pair
    problem = from_graphs(one, two, 0.9)
    out = distance(one, two, 0.9, Relaxed(round=True))
    assert float(out.value) < float(problem.value(problem.product))


def test_a_huge_step_is_finite(pair):
    out = distance(*pair, 0.9, dataclasses.replace(LITERAL, step_size=1e3))
    assert np.isfinite(out.plan).all() and np.isfinite(out.value)
