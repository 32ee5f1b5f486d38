"""The strict solver: what it calls converged is stationary, at any scale and under any padding."""

import jax
import numpy as np
import ot
import pytest

from fgw_jax import Graph, Relaxed, Strict, distance, distances
from fgw_jax.fgw import Status

N = 24
FAMILIES = {
    "gaussian": lambda r, n: r.normal(size=(n, 2)),
    "two clusters": lambda r, n: r.normal(size=(n, 2)) + 10.0 * (np.arange(n) % 2)[:, None],
    "five clusters": lambda r, n: r.normal(size=(n, 2)) + 10.0 * (np.arange(n) % 5)[:, None],
    "heavy tails": lambda r, n: r.standard_cauchy(size=(n, 2)),
    "one-hot": lambda r, n: np.eye(4)[r.integers(0, 4, n)],
    "integer grid": lambda r, n: r.integers(0, 5, size=(n, 2)).astype(float),
    "outlier": lambda r, n: r.normal(size=(n, 2)) + 1e4 * (np.arange(n) == 0)[:, None],
}


every_solver = pytest.mark.parametrize(
    "solver",
    [Strict(), Strict(method="mirror"), Relaxed()],
    ids=["cg", "mirror", "relaxed"],
)


def graph(rng, n, family, measure, density):
    upper = np.triu(rng.uniform(size=(n, n)) < density, 1)
    weights = "uniform" if measure == "uniform" else rng.dirichlet(np.ones(n))
    features = FAMILIES[family](rng, n)
    return Graph.from_adjacency((upper | upper.T).astype(float), features, measure=weights)


def pairs_of(family, density, count=6):
    rng = np.random.default_rng(7)
    sizes = [(8, 8), (N, 8), (N, N)]
    return [
        tuple(graph(rng, n, family, measure, density) for n in sizes[k % 3])
        for k in range(count)
        for measure in ("uniform", "generic")
    ]


def measures(g1, g2):
    p, q = (np.asarray(g.weights, float) for g in (g1, g2))
    x, y = (np.asarray(g.features, float) for g in (g1, g2))
    return p / p.sum(), q / q.sum(), ((x[:, None] - y[None]) ** 2).sum(-1)


@pytest.mark.parametrize("family", FAMILIES)
def test_features_alone_are_solved_exactly(family):
    """At alpha 0 the problem is a linear program: a local minimum is the minimum."""
    pairs = pairs_of(family, 0.0)
    out = distances(*zip(*pairs, strict=True), 0.0)
    exact = [ot.emd2(*measures(*pair)) for pair in pairs]
    np.testing.assert_allclose(out.value, exact, rtol=1e-4)
    assert out.converged.all()


@pytest.mark.filterwarnings("ignore:the mean feature cost:UserWarning")
@pytest.mark.parametrize("alpha", [0.1, 0.95])
@pytest.mark.parametrize("family", ["two clusters", "one-hot", "outlier"])
def test_pot_finds_little_more_where_we_have_converged(family, alpha):
    pairs = pairs_of(family, 0.2)
    out = distances(*zip(*pairs, strict=True), alpha)
    gains = []
    for (g1, g2), plan, converged in zip(pairs, out.plans, out.converged, strict=True):
        p, q, cost = measures(g1, g2)
        start = np.asarray(plan, float)
        start *= np.minimum(1.0, p / start.sum(1))[:, None]
        start *= np.minimum(1.0, q / start.sum(0))[None]
        rows, columns = p - start.sum(1), q - start.sum(0)
        start += np.outer(rows, columns) / max(rows.sum(), 1e-300)
        a, b = (np.asarray(g.structure, float) for g in (g1, g2))
        options = {"alpha": alpha, "log": True, "symmetric": True}
        plan, log = ot.gromov.fused_gromov_wasserstein(cost, a, b, p, q, G0=start, **options)
        before = (1 - alpha) * np.vdot(cost, start) + alpha * (
            start.sum(1) @ a**2 @ start.sum(1)
            + start.sum(0) @ b**2 @ start.sum(0)
            - 2 * np.vdot(a @ start @ b, start)
        )
        gains.append((before - log["fgw_dist"]) / before if converged else 0.0)
    assert np.mean(np.array(gains) > 5e-3) <= 0.1
    assert out.converged.mean() > 0.9


def test_a_plan_that_is_not_stationary_says_so():
    g1, g2 = pairs_of("two clusters", 0.0)[4]
    hasty = distance(g1, g2, 0.0, Strict(max_steps=4, warm_steps=0))
    assert hasty.status == Status.STEP_LIMIT and not hasty.converged
    assert hasty.gap > 1e-3 * hasty.value


@every_solver
@pytest.mark.parametrize("factor", [2.0**-26, 2.0**26])
def test_scale_changes_nothing(solver, factor):
    rng = np.random.default_rng(1)
    for _ in range(3):
        g1, g2 = (graph(rng, 12, "gaussian", "uniform", 0.3) for _ in range(2))
        big = [
            Graph.from_adjacency(g.adjacency, g.features * factor, structure=g.structure * factor)
            for g in (g1, g2)
        ]
        plain, scaled = distance(g1, g2, 0.5, solver), distance(*big, 0.5, solver)
        np.testing.assert_allclose(scaled.value / factor**2, plain.value, rtol=1e-4)
        assert scaled.status == plain.status


@every_solver
def test_weightless_nodes_have_no_say(solver):
    rng = np.random.default_rng(2)
    weights = np.concatenate([[0.0], np.full(N - 1, 1.0)])
    g1, g2 = (graph(rng, N, "gaussian", "uniform", 0.2) for _ in range(2))
    values = []
    for far in (0.0, 1e4):
        features = np.asarray(g1.features).copy()
        features[0] += far
        one = Graph.from_adjacency(g1.adjacency, features, measure=weights)
        values.append(distance(one, g2, 0.5, solver).value)
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6)


def test_huge_steps_put_no_mass_on_padding():
    rng = np.random.default_rng(3)
    literal = Relaxed(step_size=1e33, schedule=None, plan="last", max_steps=3)
    g1, g2 = (graph(rng, n, "gaussian", "uniform", 0.3) for n in (9, 7))
    out = jax.jit(lambda a, b: distance(a, b, 0.5, literal))(g1.pad(16), g2.pad(16))
    plan = np.asarray(out.plan)
    assert not plan[9:].any() and not plan[:, 7:].any()
    np.testing.assert_allclose(plan[:9, :7].sum(0), 1 / 7, rtol=1e-5)


@every_solver
def test_padding_changes_nothing(solver):
    """Whatever depends on sizes depends on those of the graphs."""
    rng = np.random.default_rng(4)
    solve = jax.jit(lambda a, b: distance(a, b, 0.95, solver).value)
    moved = []
    for _ in range(10):
        g1, g2 = (graph(rng, n, "one-hot", "uniform", 0.2) for n in (18, 22))
        values = np.array([solve(g1.pad(size), g2.pad(size)) for size in (22, 32, 64)])
        moved.append(np.abs(values / values[0] - 1.0).max())
    # Rounding may still part two lanes where a true difference is as small as rounding.
    assert np.mean(np.array(moved) > 1e-4) <= 0.1


def test_a_given_plan_may_miss_its_marginals():
    rng = np.random.default_rng(5)
    g1, g2 = (graph(rng, 12, "gaussian", "generic", 0.3) for _ in range(2))
    for plan in (np.eye(12), rng.uniform(size=(12, 12)), np.outer(g1.weights, np.eye(12)[3])):
        out = distance(g1, g2, 0.5, init=plan)
        assert out.marginal_error < 1e-5
