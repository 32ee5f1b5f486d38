"""Gradients of the value against central differences, and a descent through them."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgw_jax
from fgw_jax import Strict, distance
from tests.helpers import generic_graph

SOLVER = Strict(method="cg", rtol=0.0, atol=0.0, max_steps=64)
#: Of the differences. Plans hold whole units of 1e-9 of mass, which a finer step by weights sees.
STEP = {"weights": 1e-3}


def weighted_graph(rng, n):
    return generic_graph(rng, n, 2, diagonal=True, measure=rng.uniform(0.5, 1.5, n))


@pytest.fixture
def pair(rng, x64):
    return weighted_graph(rng, 6), weighted_graph(rng, 5)


def value(g1, g2, alpha, init):
    return distance(g1, g2, alpha=alpha, solver=SOLVER, init=init).value


plan_of = jax.jit(lambda g1, g2: distance(g1, g2, alpha=0.7, solver=SOLVER).plan)


def central_difference(function, x, direction, step=1e-5):
    """Along the branch of one plan: both sides start from it."""
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


def changed(graph, **fields):
    return dataclasses.replace(graph, **fields)


@pytest.mark.parametrize("field", ["features", "structure", "weights"])
@pytest.mark.parametrize("side", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_gradient_by_graph(pair, rng, field, side):
    # Of the same padded shape as below: another has other units of mass.
    plan = plan_of(*pair)

    def function(x):
        graphs = [changed(g, **{field: x}) if k == side else g for k, g in enumerate(pair)]
        # A plan for other weights is no plan: there the solver starts anew.
        init = None if field == "weights" else plan
        return value(*graphs, 0.7, init)

    x = jnp.asarray(getattr(pair[side], field))
    direction = rng.normal(size=x.shape)
    if field == "structure":
        direction = direction + direction.T
    if field == "weights":
        direction = direction - direction.mean()
    function = jax.jit(function)
    gradient = jax.jit(jax.grad(function))(x)
    expected = central_difference(function, x, direction, STEP.get(field, 1e-5))
    np.testing.assert_allclose(np.vdot(gradient, direction), expected, rtol=1e-4, atol=1e-6)


def test_gradient_by_alpha_in_both_modes(pair):
    plan = plan_of(*pair)
    function = jax.jit(lambda a: value(*pair, a, plan))
    expected = central_difference(function, 0.7, 1.0)
    np.testing.assert_allclose(jax.grad(function)(0.7), expected, rtol=1e-4)
    _, tangent = jax.jvp(function, (0.7,), (1.0,))
    np.testing.assert_allclose(tangent, expected, rtol=1e-4)


def test_gradient_under_vmap_is_that_of_each_lane(pair):
    scales = jnp.array([0.5, 1.0, 2.0])
    features = jnp.asarray(pair[0].features)

    def function(scale):
        graph = changed(pair[0], features=scale * features)
        return distance(graph, pair[1], alpha=0.7, solver=SOLVER).value

    one = jax.jit(jax.grad(function))
    together, apart = jax.jit(jax.vmap(one))(scales), jnp.stack([one(s) for s in scales])
    np.testing.assert_allclose(together, apart, rtol=1e-6)


def test_gradient_ignores_padding(pair):
    def gradient(g1, g2):
        def function(features, structure):
            graph = changed(g1, features=features, structure=structure)
            return distance(graph, g2, alpha=0.7, solver=SOLVER).value

        return jax.jit(jax.grad(function, (0, 1)))(
            jnp.asarray(g1.features), jnp.asarray(g1.structure)
        )

    plain, padded = gradient(*pair), gradient(pair[0].pad(8), pair[1].pad(8))
    np.testing.assert_allclose(padded[0][:6], plain[0], atol=1e-8)
    np.testing.assert_allclose(padded[1][:6, :6], plain[1], atol=1e-8)
    assert (padded[0][6:] == 0).all() and (padded[1][6:] == 0).all()


@pytest.mark.parametrize("solver", [Strict(method="mirror"), fgw_jax.Relaxed()])
def test_other_solvers_differentiate_the_value_of_their_plan(pair, solver):
    out = distance(*pair, alpha=0.7, solver=solver)
    features = jnp.asarray(pair[0].features)

    def function(x):
        return distance(changed(pair[0], features=x), pair[1], alpha=0.7, solver=solver).value

    difference = features[:, None, :] - jnp.asarray(pair[1].features)[None]
    expected = 0.3 * 2.0 * jnp.einsum("ij,ijd->id", out.plan, difference) * out.plan.sum()
    np.testing.assert_allclose(
        jax.jit(jax.grad(function))(features), expected, rtol=1e-6, atol=1e-9
    )


def test_the_plan_has_no_derivative(pair):
    def function(x):
        return distance(changed(pair[0], features=x), pair[1], solver=SOLVER).plan[0, 0]

    assert (jax.jit(jax.grad(function))(jnp.asarray(pair[0].features)) == 0).all()


@pytest.mark.slow
def test_descent_on_a_midpoint_reaches_the_objective_of_the_barycenter(rng, x64):
    """Features and structure by gradient steps through ``distance``, from one of the graphs."""
    first, second = weighted_graph(rng, 6), weighted_graph(rng, 6)
    lam, alpha = 0.4, 0.7
    reference = fgw_jax.mixup(first, second, lam, alpha=alpha)

    def objective(structure, features):
        graph = changed(reference.graph, structure=structure, features=features)
        ends = (distance(graph, end, alpha=alpha, solver=SOLVER).value for end in (first, second))
        return lam * next(ends) + (1 - lam) * next(ends)

    step = jax.jit(jax.value_and_grad(objective, (0, 1)))
    structure = jnp.asarray(reference.graph.structure) + 0.05
    features = jnp.asarray(reference.graph.features) + 0.05
    outer = jnp.asarray(reference.graph.weights)
    metric = outer[:, None] * outer[None, :]
    for _ in range(60):
        reached, (by_structure, by_features) = step(structure, features)
        # Gradients come with the weights of nodes and of pairs of nodes; dividing by them makes
        # the problem round.
        structure = structure - 0.4 * by_structure / (2 * alpha * metric)
        features = features - 0.4 * by_features / (2 * (1 - alpha) * outer[:, None])
    assert reached <= float(reference.objective) * 1.001


def test_derivatives_outside_of_jit_compile_once(rng):
    one, two = weighted_graph(rng, 4), weighted_graph(rng, 3)
    solver = Strict(method="mirror")

    def slope(x):
        moved = lambda f: distance(dataclasses.replace(one, features=f), two, solver=solver)  # noqa: E731
        return jax.grad(lambda f: moved(f).value)(x)

    solve = importlib.import_module("fgw_jax.fgw.distances")._solve
    first = slope(one.features)
    compiled = solve._cache_size()
    second = slope(one.features + 0.1)
    assert solve._cache_size() == compiled
    assert np.isfinite(first).all() and not np.array_equal(first, second)
