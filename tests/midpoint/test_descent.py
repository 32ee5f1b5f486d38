"""Steps on the midpoint's objective: gradients are its own, and gains are what was gained.

Covers fgw_jax.midpoint.objective, fgw_jax.midpoint.starts.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgw_jax import Graph
from fgw_jax.graphs import Batch
from fgw_jax.midpoint import barycenter, descent, starts
from fgw_jax.midpoint.objective import problem_of, reciprocal

RATIOS = (0.6, 0.4)
# Compiled whole: operation by operation it takes several times as long.
feasible = jax.jit(descent.feasible, static_argnums=2)


@pytest.fixture
def problem(x64):
    """Two sources of 7 and 5 nodes with unequal weights, a midpoint of 6, padded to 8."""
    rng = np.random.default_rng(0)

    def graph(n):
        upper = np.triu(rng.random((n, n)) < 0.5, 1)
        return Graph.from_adjacency(
            upper | upper.T, rng.normal(size=(n, 2)), measure=rng.uniform(0.5, 1, n)
        )

    sources = Batch.stack([graph(7), graph(5)], 8)
    return problem_of(sources, RATIOS, barycenter.uniform(6, 8), 0.8)


def products(problem):
    return problem.new_weights[None, :, None] * problem.weights[:, None, :]


def objective(problem, plans):
    return problem.values(*problem.update(plans), plans) @ problem.ratios


def random_plans(problem, seed=0):
    noise = jax.random.uniform(jax.random.key(seed), products(problem).shape)
    return feasible(problem, products(problem) * noise, 200)


def test_gradients_are_those_of_the_objective(problem):
    plans = random_plans(problem)
    averages = problem.update(plans)
    for i, ratio in enumerate(RATIOS):
        half = plans[i] @ problem.structures[i]
        gradient, _ = descent._gradient(problem, averages, problem.source(i), half)
        # Along a move that keeps the marginals, the envelope theorem gives the slope.
        move = random_plans(problem, 1)[i] - plans[i]
        slope = jax.jvp(
            lambda plan, i=i: objective(problem, plans.at[i].set(plan)), (plans[i],), (move,)
        )[1]
        np.testing.assert_allclose(ratio * jnp.vdot(gradient, move), slope, rtol=1e-6, atol=1e-12)
        assert not np.asarray(gradient)[6:].any()


def test_gains_are_the_decrease_of_the_objective(problem):
    plans = random_plans(problem)
    ends, gains = jax.jit(lambda p: descent.vertex_steps(problem, p, 5))(plans)
    assert gains.shape == (5,) and (np.asarray(gains) >= 0).all()
    decrease = objective(problem, plans) - objective(problem, ends)
    np.testing.assert_allclose(gains.sum(), decrease, rtol=1e-6)
    assert decrease > 0.1 * objective(problem, plans)
    np.testing.assert_allclose(ends.sum(2), np.tile(problem.new_weights, (2, 1)), atol=1e-7)


def test_what_is_fixed_takes_no_part_in_the_gain(problem):
    plans = random_plans(problem)
    structure, features = problem.update(plans)
    fixed = dataclasses.replace(problem, fixed_structure=structure, fixed_features=features)
    ends, gains = jax.jit(lambda p: descent.vertex_steps(fixed, p, 3))(plans)
    before = fixed.values(structure, features, plans) @ fixed.ratios
    after = fixed.values(structure, features, ends) @ fixed.ratios
    np.testing.assert_allclose(gains.sum(), before - after, rtol=1e-6, atol=1e-9)


def test_relaxed_steps_end_feasible_and_lower(problem):
    plans = random_plans(problem)
    ends, history = jax.jit(lambda p: descent.relaxed_steps(problem, p, 6, 1.0))(plans)
    assert history.shape == (6,)
    assert objective(problem, ends) < objective(problem, plans)
    np.testing.assert_allclose(ends.sum(2), np.tile(problem.new_weights, (2, 1)), atol=1e-9)
    np.testing.assert_allclose(ends.sum(1), problem.weights, atol=1e-9)


def test_reciprocals_of_padding_are_zero():
    np.testing.assert_array_equal(reciprocal(jnp.array([0.0, 0.5, 2.0])), [0.0, 2.0, 0.5])


def test_a_chain_goes_to_the_nearest_and_ends_with_weightless_nodes():
    places = np.array([5.0, 40.0, 0.0, 9.0, 1.0])
    cost = jnp.asarray((places[:, None] - places[None]) ** 2)
    alive = jnp.array([True, True, True, True, False])
    # From the node farthest from all, 40, to 9, 5, 0; the weightless node would be next to 0.
    np.testing.assert_array_equal(starts.chain(cost, alive), [2, 0, 3, 1, 4])


@pytest.mark.parametrize("nodes", [3, 6, 7, 8])
def test_resampling_is_feasible_and_sparse(problem, nodes):
    sized = dataclasses.replace(problem, new_weights=barycenter.uniform(nodes, 8))
    plan = np.asarray(starts.resample(sized))
    np.testing.assert_allclose(plan.sum(1), sized.new_weights, atol=1e-12)
    np.testing.assert_allclose(plan.sum(0), sized.weights[0], atol=1e-12)
    assert (plan >= 0).all() and (plan > 1e-12).sum() <= nodes + 7


def test_resampling_to_the_same_size_and_weights_is_the_identity(problem):
    weights = jnp.where(jnp.arange(8) < 7, 1 / 7, 0.0)
    equal = dataclasses.replace(problem, new_weights=weights, weights=jnp.stack([weights, weights]))
    np.testing.assert_allclose(starts.resample(equal), np.diag(weights), atol=1e-12)


@pytest.mark.parametrize("offset", starts.OFFSETS)
def test_twice_as_many_nodes_are_two_copies_of_each_wherever_the_chain_begins(offset):
    old, new = barycenter.uniform(4, 5), barycenter.uniform(8, 8)
    position = jnp.array([2, 0, 3, 1, 4])
    plan = starts._along_chain(position, old, new, jnp.asarray(offset))
    np.testing.assert_allclose((np.asarray(plan) > 0).sum(0), [2, 2, 2, 2, 0])
    np.testing.assert_allclose(plan.max(1), new, atol=1e-7)
