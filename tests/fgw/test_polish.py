"""Polish: sharper, never worse, feasible, and closed under exchanges."""

import jax
import numpy as np
import pytest

from fgw_jax import Strict
from fgw_jax.fgw import conditional_gradient
from fgw_jax.fgw.polish import best_exchange, descend, polish
from fgw_jax.fgw.problem import from_graphs
from fgw_jax.fgw.projections import safe_log
from tests.helpers import generic_graph, labelled_graph


@pytest.fixture(scope="module")
def problems():
    rng = np.random.default_rng(5)
    made = [
        from_graphs(labelled_graph(rng, n).pad(16), labelled_graph(rng, m).pad(16), 0.95)
        for n, m in rng.integers(8, 17, (12, 2))
    ]
    return jax.tree.map(lambda *x: np.stack(x), *made)


@pytest.fixture(scope="module")
def plans(problems):
    return jax.jit(jax.vmap(lambda p: Strict(method="mirror").solve(p).plan))(problems)


@pytest.fixture(scope="module")
def polished(problems, plans):
    return jax.jit(jax.vmap(polish))(problems, plans)


def test_mirror_plans_become_better_and_sharper(problems, plans, polished):
    values = jax.vmap(lambda p, t: p.value(t))
    before, after = values(problems, plans), values(problems, polished)
    assert (after <= before + 1e-6).all()
    assert after.mean() < before.mean()
    assert (jax.vmap(lambda p, t: p.marginal_error(t))(problems, polished) < 1e-5).all()
    cells = (np.asarray(polished) > 1e-7).sum((1, 2))
    nodes = (problems.weights1 > 0).sum(1) + (problems.weights2 > 0).sum(1)
    # A combination of few vertices: far from the full matrices of mirror descent.
    assert (cells < 2 * nodes).all()
    assert (np.asarray(polished) >= 0).all()


def test_change_of_an_exchange_is_what_it_says(rng):
    """On weighted structures, where every exchange bends the objective."""
    exchange = jax.jit(best_exchange)
    for n, m in ((6, 6), (5, 6), (6, 4)):
        problem = from_graphs(generic_graph(rng, n).pad(6), generic_graph(rng, m).pad(6), 0.95)
        state = conditional_gradient.init(problem, safe_log(problem.product))
        plan, change = exchange(problem, state)
        np.testing.assert_allclose(
            problem.value(plan) - problem.value(state.plan), change, atol=2e-6
        )
        assert problem.marginal_error(plan) < 1e-6
        assert (np.asarray(plan) > -1e-7).all()


@pytest.mark.slow
def test_exchanges_lower_the_mean_further(problems, plans, polished):
    value = jax.vmap(lambda p, t: p.value(t))
    plain = value(problems, polished)
    more = jax.jit(jax.vmap(lambda p, t: polish(p, t, max_exchanges=12)))(problems, plans)
    assert (value(problems, more) <= plain + 1e-5).all()

    def left(problem, plan):
        state = conditional_gradient.init(problem, safe_log(plan), plan)
        return best_exchange(problem, state)[1] / state.current

    assert np.median(jax.jit(jax.vmap(left))(problems, more)) >= -2e-4


def test_descend_stops_at_its_limit(problems):
    problem = jax.tree.map(lambda x: x[0], problems)
    state = conditional_gradient.init(problem, safe_log(problem.product))
    assert descend(problem, state, 4, 0.0).count == 4
