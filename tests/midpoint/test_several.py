"""Barycenters of more than two graphs, beside POT's."""

import jax
import numpy as np
import ot
import pytest

from fgw_jax import Relaxed, barycenter
from fgw_jax.errors import InputError
from fgw_jax.midpoint import limits
from tests.helpers import random_graph

ALPHA = 0.8


@pytest.fixture
def graphs(rng):
    return [random_graph(rng, n, 2, 0.5) for n in (6, 7, 8)]


def test_three_graphs_no_worse_than_pot(graphs):
    ratios = [0.5, 0.3, 0.2]
    mid = barycenter(graphs, ratios, size=7, alpha=ALPHA)
    fields = ([np.asarray(getattr(g, f), float) for g in graphs] for f in ("features", "structure"))
    weights = [np.full(g.num_nodes, 1 / g.num_nodes) for g in graphs]
    features, structure = ot.gromov.fgw_barycenters(
        7, *fields, weights, ratios, ALPHA, random_state=0
    )
    reached = 0.0
    for ratio, g, p in zip(ratios, graphs, weights, strict=True):
        cost = ((features[:, None] - np.asarray(g.features)[None]) ** 2).sum(-1)
        given = np.asarray(g.structure, float)
        reached += ratio * ot.gromov.fused_gromov_wasserstein2(
            cost, structure, given, np.full(7, 1 / 7), p, alpha=ALPHA
        )
    assert mid.bound <= mid.objective * (1 + 1e-4)
    assert mid.objective <= 1.05 * reached
    assert [plan.shape for plan in mid.plans] == [(7, 6), (7, 7), (7, 8)]
    for plan, g in zip(mid.plans, graphs, strict=True):
        np.testing.assert_allclose(plan.sum(0), g.weights, atol=1e-5)


def test_what_is_fixed_stays(graphs, rng):
    features = rng.normal(size=(7, 2)).astype(np.float32)
    mid = barycenter(graphs, size=7, fixed_features=features)
    np.testing.assert_allclose(mid.graph.features, features, atol=1e-5)
    structure = np.asarray(graphs[1].structure)
    mid = barycenter(
        graphs, size=7, start="random", key=jax.random.key(0), fixed_structure=structure
    )
    assert len(mid.history) == mid.num_outer + 1 and mid.history[-1] == mid.objective
    np.testing.assert_array_equal(mid.graph.structure, structure)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"weights": [0.5, 0.5]}, "weights"),
        ({"weights": [1.0, -1.0, 1.0]}, "weights"),
        ({"weights": [np.inf, 1.0, 1.0]}, "weights"),
        ({"size": 0}, "size"),
        ({"size": 2.5}, "size"),
        ({"alpha": 3.0}, "alpha"),
        ({"solver": "strict"}, "solver"),
        ({"size": 5, "fixed_structure": np.triu(np.ones((5, 5)), 1)}, "fixed_structure: not symm"),
        ({"size": 5, "fixed_structure": np.zeros((4, 4))}, "fixed_structure: expected shape"),
        ({"size": 5, "fixed_features": np.zeros((5, 3))}, "fixed_features: expected shape"),
        ({"size": 5, "fixed_features": np.full((5, 2), np.nan)}, "fixed_features: NaN"),
        ({"start": "random"}, "key"),
        ({"start": "lucky"}, "start"),
    ],
)
def test_bad_arguments_are_named(graphs, arguments, name):
    with pytest.raises(InputError, match=f"^{name}"):
        barycenter(graphs, **arguments)


def test_plans_of_a_relaxed_solver_are_feasible(graphs):
    mid = barycenter(graphs[:2], [1.0, 0.0], solver=Relaxed())
    for plan, g in zip(mid.plans, graphs[:2], strict=True):
        np.testing.assert_allclose(plan.sum(0), g.weights, atol=1e-5)
        np.testing.assert_allclose(plan.sum(1), mid.graph.weights, atol=1e-5)


@pytest.mark.slow
def test_bounds_of_many_sources_are_those_of_few_at_a_time(graphs, monkeypatch):
    whole = barycenter(graphs * 3, size=6, solver=Relaxed())
    monkeypatch.setattr(limits, "PAIRS_AT_ONCE", 5)
    jax.clear_caches()
    parts = barycenter(graphs * 3, size=6, solver=Relaxed())
    np.testing.assert_allclose(parts.bound, whole.bound, rtol=1e-5)
    assert 0 < whole.bound <= whole.objective
