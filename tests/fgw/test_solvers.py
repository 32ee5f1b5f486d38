"""One table of tests over all solvers: a new solver joins by adding a row.

Covers fgw_jax.fgw.distances, fgw_jax.fgw.lanes, fgw_jax.fgw.reference, fgw_jax.fgw.strict.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest

import fgw_jax
from fgw_jax import Batch, Graph, Reference, Relaxed, Strict, distance, distances
from fgw_jax.errors import InputError
from fgw_jax.fgw.iteration import ADVICE, Status
from tests.helpers import permuted, random_graph

LITERAL = Relaxed(step_size=1.0, schedule=None, plan="last")

#: name -> solver, whether its plans are feasible.
SOLVERS = {
    "mirror": (Strict(method="mirror"), True),
    "cg": (Strict(method="cg"), True),
    "cg_three_starts": (Strict(method="cg", starts=3), True),
    "relaxed": (Relaxed(), False),
    "relaxed_rounded": (Relaxed(round=True), True),
    "literal": (LITERAL, False),
    "reference": (Reference(), True),
}
FEASIBLE = [name for name, (_, feasible) in SOLVERS.items() if feasible]
every_solver = pytest.mark.parametrize("name", SOLVERS)
feasible_solver = pytest.mark.parametrize("name", FEASIBLE)


def compiled_again(names):
    """For tests that need another program of each solver: those that compile longest are slow."""
    slow = {"cg_three_starts", "reference"}
    marks = {name: [pytest.mark.slow] if name in slow else [] for name in names}
    return pytest.mark.parametrize("name", [pytest.param(n, marks=m) for n, m in marks.items()])


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(1)
    return random_graph(rng, 8), random_graph(rng, 7)


def recomputed(g1, g2, plan, alpha):
    """Eq. 1 as a fourfold sum in float64."""
    plan = np.asarray(plan, np.float64)
    d = ((g1.features[:, None].astype(float) - g2.features[None]) ** 2).sum(-1)
    a = (g1.structure[:, None, :, None].astype(float) - g2.structure[None, :, None, :]) ** 2
    cost = (1 - alpha) * d[:, :, None, None] + alpha * a
    return np.einsum("ijkl,ij,kl->", cost, plan, plan)


@every_solver
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.95, 1.0])
def test_value_is_that_of_the_returned_plan(name, alpha, pair):
    out = distance(*pair, alpha=alpha, solver=SOLVERS[name][0])
    np.testing.assert_allclose(out.value, recomputed(*pair, out.plan, alpha), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(out.linear + out.quadratic, out.value, rtol=1e-6)
    plan = np.asarray(out.plan)
    assert plan.shape == (8, 7) and (plan >= 0).all()
    errors = np.abs(plan.sum(1) - 1 / 8).sum(), np.abs(plan.sum(0) - 1 / 7).sum()
    np.testing.assert_allclose(out.marginal_error, max(errors), atol=1e-6)


@feasible_solver
def test_plans_are_feasible(name, pair):
    out = distance(*pair, solver=SOLVERS[name][0])
    assert out.marginal_error <= 1e-5
    assert out.gap >= -1e-5


@compiled_again(FEASIBLE)
def test_plans_are_feasible_in_double_precision(name, x64):
    rng = np.random.default_rng(1)
    out = distance(random_graph(rng, 8), random_graph(rng, 7), solver=SOLVERS[name][0])
    assert out.plan.dtype == np.float64
    assert out.marginal_error <= 1e-9


@every_solver
def test_wasserstein_at_alpha_zero(name, pair):
    cost = ((pair[0].features[:, None] - pair[1].features[None]) ** 2).sum(-1)
    exact = ot.emd2(pair[0].weights, pair[1].weights, cost)
    solver = SOLVERS[name][0]
    if name == "literal":  # its test of the objective ends it early; the steps themselves go on
        solver = dataclasses.replace(solver, rtol=0.0, atol=0.0)
    out = distance(*pair, alpha=0.0, solver=solver)
    assert out.value <= 1.1 * exact
    if SOLVERS[name][1]:
        assert out.value >= exact - 1e-5


@compiled_again(SOLVERS)
def test_padding_and_neighbours_change_nothing(name, pair):
    solver = SOLVERS[name][0]
    alone = distance(*pair, solver=solver)
    padded = distance(pair[0].pad(13), pair[1].pad(11), solver=solver)
    np.testing.assert_allclose(padded.value, alone.value, atol=1e-6)
    np.testing.assert_allclose(padded.plan[:8, :7], alone.plan, atol=1e-5)
    rng = np.random.default_rng(2)
    others = [random_graph(rng, n) for n in (5, 8, 3)]
    outs = distances(
        [others[0], pair[0], others[1]], [others[2], pair[1], others[0]], solver=solver
    )
    np.testing.assert_allclose(outs.value[1], alone.value, atol=1e-6)
    assert outs[1].plan.shape == (8, 7)


@every_solver
def test_permuting_a_graph_permutes_its_plan(name, pair):
    solver = SOLVERS[name][0]
    order = np.random.default_rng(3).permutation(8)
    moved = permuted(pair[0], order)
    plain, turned = distance(*pair, solver=solver), distance(moved, pair[1], solver=solver)
    np.testing.assert_allclose(turned.value, plain.value, atol=1e-5)
    np.testing.assert_allclose(turned.plan, np.asarray(plain.plan)[order], atol=1e-4)


@compiled_again(SOLVERS)
def test_goes_under_jit_vmap_and_keeps_its_value(name, pair):
    solver = SOLVERS[name][0]
    batch1, batch2 = Batch.stack([pair[0], pair[0]], 8), Batch.stack([pair[1], pair[1]], 8)
    values = jax.jit(jax.vmap(lambda a, b: distance(a, b, solver=solver).value))(batch1, batch2)
    expected = distance(*pair, solver=solver).value
    np.testing.assert_allclose(values, [expected, expected], atol=1e-6)


ODD = {
    "one node": (
        Graph.from_adjacency([[0.0]], [[1.0, 0.0, 0.0]]),
        Graph.from_adjacency([[0.0]], [[3.0, 0.0, 0.0]]),
        0.2,
    ),
    "no edges": (
        Graph.from_adjacency(np.zeros((3, 3)), np.eye(3)),
        Graph.from_adjacency(np.zeros((3, 3)), np.eye(3)),
        0.0,
    ),
    "zero features": (
        Graph.from_edges([(0, 1), (1, 2)], 3, np.zeros((3, 3))),
        Graph.from_edges([(0, 1), (1, 2)], 3, np.zeros((3, 3))),
        0.0,
    ),
    "weightless node": (
        Graph.from_adjacency(np.zeros((2, 2)), [[0.0] * 3, [5.0] * 3], measure=[1.0, 0.0]),
        Graph.from_adjacency([[0.0]], [[2.0, 0.0, 0.0]]),
        0.2,
    ),
}  # fmt: skip


@every_solver
@pytest.mark.parametrize("case", ODD)
def test_odd_inputs_have_the_right_value_and_a_truthful_status(name, case):
    g1, g2, expected = ODD[case]
    out = distance(g1, g2, solver=SOLVERS[name][0])
    assert abs(float(out.value) - expected) <= 1e-3
    assert np.isfinite(np.asarray(out.plan)).all()
    assert Status(int(out.status)) in (Status.CONVERGED, Status.STEP_LIMIT)
    assert out.message() == ADVICE[Status(int(out.status))]
    assert bool(out.converged) == (out.status == Status.CONVERGED)


@feasible_solver
def test_large_features_and_large_steps_stay_finite(name):
    rng = np.random.default_rng(4)
    g = random_graph(rng, 6)
    large = Graph.from_adjacency(g.adjacency, 1e6 * g.features)
    out = distance(large, large, solver=SOLVERS[name][0])
    assert np.isfinite(out.value) and out.value <= 1e-3 * 1e12


@pytest.mark.parametrize("step_size", [0.1, 10.0, 1e3])
def test_relaxed_is_safe_at_any_step_size(step_size, pair):
    out = distance(*pair, solver=Relaxed(step_size=step_size, schedule=None, plan="last"))
    assert np.isfinite(out.value) and np.isfinite(np.asarray(out.plan)).all()


@compiled_again(FEASIBLE)
def test_reaches_what_the_conditional_gradient_of_pot_reaches(name):
    """In the mean over pairs with generic features; both are local."""
    rng = np.random.default_rng(5)
    first = [random_graph(rng, 8) for _ in range(12)]
    second = [random_graph(rng, 8) for _ in range(12)]
    ours = distances(first, second, alpha=0.5, solver=SOLVERS[name][0]).value
    theirs = [
        ot.gromov.fused_gromov_wasserstein2(
            ((a.features[:, None] - b.features[None]) ** 2).sum(-1).astype(float),
            a.structure.astype(float), b.structure.astype(float), alpha=0.5,
        )
        for a, b in zip(first, second, strict=True)
    ]  # fmt: skip
    assert ours.mean() <= 1.05 * np.mean(theirs)


@pytest.mark.slow
def test_strict_is_below_the_entropic_reference():
    rng = np.random.default_rng(6)
    first, second = (
        [random_graph(rng, 8) for _ in range(6)],
        [random_graph(rng, 8) for _ in range(6)],
    )
    strict = distances(first, second).value
    reference = distances(first, second, solver=Reference()).value
    assert (strict <= reference + 1e-4).sum() >= 5 and strict.mean() <= reference.mean()


def test_a_second_call_with_new_numbers_compiles_nothing(pair, caplog):
    for solver in (Strict(method="mirror"), Relaxed()):
        distance(*pair, solver=solver)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        distance(*pair, alpha=0.3, solver=Strict(method="mirror", step_size=1.5, rtol=1e-2))
        distance(*pair, alpha=0.3, solver=Relaxed(step_size=0.5, atol=1e-3))
    assert not [r for r in caplog.records if "ompil" in r.getMessage()]


def test_warm_start_from_the_solution_stays_there(pair):
    out = distance(*pair)
    again = distance(*pair, init=out.plan)
    assert again.value <= out.value + 1e-4


def test_q_one_is_a_metric_on_permuted_copies():
    rng = np.random.default_rng(7)
    g = random_graph(rng, 6)
    order = rng.permutation(6)
    out = distance(g, permuted(g, order), q=1, feature_cost="euclidean")
    assert abs(float(out.value)) <= 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 1.5}, "alpha"),
        ({"q": 3}, "q"),
        ({"feature_cost": "manhattan"}, "feature_cost"),
        ({"init": np.ones((2, 2))}, "init"),
        ({"solver": "strict"}, "solver"),
        ({"solver": Relaxed(step_size=-1.0)}, "step_size"),
    ],
)
def test_bad_arguments_are_named(arguments, message, pair):
    with pytest.raises(InputError, match=message):
        distance(*pair, **arguments)


def test_bad_lists_are_named(pair):
    with pytest.raises(InputError, match="graphs1"):
        distances([pair[0]], [])
    with pytest.raises(InputError, match="width"):
        distances([pair[0]], [Graph.from_edges([(0, 1)], 2)])


def test_pairwise_is_symmetric_with_a_zero_diagonal(pair):
    rng = np.random.default_rng(8)
    graphs = [random_graph(rng, n) for n in (4, 6, 8)]
    matrix = fgw_jax.pairwise(graphs)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(np.diag(matrix), 0, atol=1e-5)
    rectangle = fgw_jax.pairwise(graphs[:1], graphs)
    np.testing.assert_allclose(rectangle[0, 1:], matrix[0, 1:], atol=1e-6)


def test_value_is_finite_under_grad(pair):
    def loss(features):
        g = Graph(pair[0].structure, features, pair[0].weights, pair[0].adjacency, pair[0].mask)
        return distance(g, pair[1], solver=Strict(method="mirror")).value

    gradient = jax.jit(jax.grad(loss))(jnp.asarray(pair[0].features))
    assert np.isfinite(np.asarray(gradient)).all() and np.abs(np.asarray(gradient)).max() > 0


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("solver", [Strict(), Strict(method="mirror"), Relaxed()])
def test_what_alpha_leaves_out_may_be_of_any_size(solver, traced):
    """Features at alpha = 1 and structures at alpha = 0, whose costs overflow float32."""
    edges, rng = [(0, 1), (1, 2), (2, 3)], np.random.default_rng(0)
    x, y = rng.normal(size=(2, 4, 2))
    path = lambda x, huge=1.0: Graph.from_edges(edges, 4, x, edge_weights=np.full(3, huge))  # noqa: E731
    value = lambda a, b, alpha: distance(a, b, alpha, solver=solver).value  # noqa: E731
    value = jax.jit(value) if traced else value
    assert value(path(1e20 * x), path(1e20 * y), 1.0) < 1e-6
    expected = value(path(x), path(y), 0.0)
    assert value(path(x, 1e30), path(y, 2e30), 0.0) == pytest.approx(float(expected), rel=1e-3)
