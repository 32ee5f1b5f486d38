"""What the front door refuses and what it lets in.

Covers fgw_jax.fgw.options, fgw_jax.fgw.mirror_descent.
"""

import jax
import numpy as np
import pytest

from fgw_jax import Graph, Reference, Relaxed, Strict, distance, distances
from fgw_jax.errors import InputError
from fgw_jax.fgw import MirrorDescent, Schedule, checks, lower_bounds
from fgw_jax.graphs import Batch
from tests.helpers import permuted

EDGE = Graph.from_edges([(0, 1)], 2)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (Strict(starts=0), "Strict.starts: must be a whole number of at least 1"),
        (Strict(max_steps=2.5), "Strict.max_steps"),
        (Strict(starts=True), "Strict.starts"),
        (Strict(warm_steps=-1), "Strict.warm_steps: must be a whole number of at least 0"),
        (Strict(rtol=-1e-3), "Strict.rtol: must be a finite number >= 0"),
        (Strict(step_size=0.0), "Strict.step_size: must be a finite number > 0"),
        (Strict(step_size=np.inf), "Strict.step_size"),
        (Strict(noise="loud"), "Strict.noise: expected a number"),
        (Relaxed(plan="first"), "Relaxed.plan: must be one of"),
        (Relaxed(round=2), "Relaxed.round"),
        (Relaxed(schedule=3.0), "Relaxed.schedule: expected a Schedule or None"),
        (Relaxed(schedule=Schedule(num_steps=0)), "Schedule.num_steps"),
        (Relaxed(schedule=None, max_steps=None), "Relaxed.max_steps"),
        (Reference(epsilon=0.0), "Reference.epsilon"),
        (object(), "solver: expected"),
        (Strict, r"solver: this is not a solver yet; make one, Strict\(\)"),
        (MirrorDescent, r"solver: this is not a solver yet; make one, MirrorDescent\(\)"),
    ],
)
def test_settings_no_solver_can_work_with(solver, message):
    with pytest.raises(InputError, match=message):
        checks.check_solver(solver)


@pytest.mark.parametrize(
    "solver",
    [
        Strict(rtol=0.0, atol=0, noise=0.0, warm_steps=0, trials=0, starts=np.int64(2)),
        Strict(method="mirror", final_sweeps=0),
        Relaxed(schedule=None),
        Relaxed(schedule=Schedule(num_steps=1)),
        Reference(),
    ],
)
def test_settings_at_their_limits_are_let_in(solver):
    checks.check_solver(solver)


def test_plans_with_zeros_are_let_in_and_others_refused():
    checks.check_plan(None, (2, 2))
    checks.check_plan(np.eye(2) / 2, (2, 2))
    for plan in (np.zeros((2, 2)), np.array([[1, -0.1], [0, 0.1]]), np.full((2, 2), np.nan)):
        with pytest.raises(InputError, match="init: a plan has finite entries"):
            checks.check_plan(plan, (2, 2))
    with pytest.raises(InputError, match=r"init: expected a plan of shape \(2, 3\)"):
        checks.check_plan(np.eye(2), (2, 3))


def test_graphs_are_single_and_of_one_width():
    wide = Graph.from_edges([(0, 1)], 2, np.ones((2, 3)))
    checks.check_graphs(EDGE, EDGE, "sqeuclidean")
    checks.check_graphs(EDGE, wide, np.zeros((2, 2)))
    with pytest.raises(InputError, match="feature widths differ .1 and 3."):
        checks.check_graphs(EDGE, wide, "sqeuclidean")
    for first, second, name in (
        (Batch.stack([EDGE]), EDGE, "graph1"),
        (EDGE, np.eye(2), "graph2"),
    ):
        with pytest.raises(InputError, match=f"{name}: expected a single Graph"):
            checks.check_graphs(first, second, "sqeuclidean")


def test_alpha_and_q_have_ranges():
    for alpha in (0, 1, 0.5, np.float32(0.95)):
        checks.check_problem(alpha, 1, "euclidean")
    for alpha, q, name in (
        (-0.01, 2, "alpha"),
        (np.ones(2), 2, "alpha"),
        (None, 2, "alpha"),
        ("0.5", 2, "alpha"),
        (0.5, 3, "q"),
    ):
        with pytest.raises(InputError, match=name):
            checks.check_problem(alpha, q, "sqeuclidean")


def test_a_matrix_of_costs_fits_its_pair_and_belongs_to_one():
    for wrong in (np.ones((1, 2)), np.ones(2)):
        with pytest.raises(InputError, match=r"feature_cost: expected .* shape \(2, 2\)"):
            distance(EDGE, EDGE, feature_cost=wrong)
    for many in (distances, lower_bounds):
        with pytest.raises(InputError, match="feature_cost: a matrix belongs to one pair"):
            many([EDGE], [EDGE], feature_cost=np.ones((2, 2)))


@pytest.mark.parametrize("kind", [int, bool, np.float64])
def test_a_permutation_of_any_type_is_a_start(kind, rng):
    path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], 4, rng.normal(size=(4, 2)))
    order = np.array([2, 0, 3, 1])
    other = permuted(path, order)
    found = distance(path, other, init=np.eye(4)[order].T.astype(kind))
    assert float(found.value) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("cost", [np.full((2, 2), np.nan), np.full((2, 2), "far")])
def test_costs_are_finite_numbers(cost):
    with pytest.raises(InputError, match="feature_cost: entries that are no finite numbers"):
        distance(EDGE, EDGE, feature_cost=cost)
    with pytest.raises(InputError, match="init: a plan has finite entries"):
        distance(EDGE, EDGE, init=np.full((2, 2), None))


@pytest.mark.parametrize("solver", [Relaxed(), Relaxed(schedule=None), Strict(method="mirror")])
def test_graphs_of_single_precision_go_on_in_double(solver, x64):
    single = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype.kind == "f" else x, EDGE)
    out = distance(single, single, solver=solver, init=np.eye(2) / 2)
    assert out.value.dtype == np.float32 and out.value < 1e-5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Strict(method="magic"), "Strict.method: must be one of"),
        (lambda: Strict(method="mirror", warm_steps=3), "Strict.warm_steps: has no effect with"),
        (lambda: Strict(final_sweeps=3), 'final_sweeps: has no effect with method="cg"'),
        (lambda: Strict(steps=3), "Strict.steps: unknown option"),
        (lambda: Relaxed(max_steps=3), "Relaxed.max_steps: has no effect with a schedule"),
        (lambda: Relaxed(schedule=None, sweeps=3), "Relaxed.sweeps: unknown option"),
    ],
)
def test_an_option_that_a_solver_does_not_have_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_the_front_door_keeps_its_spellings():
    assert isinstance(Strict(method="mirror"), MirrorDescent)
    assert Strict() == Strict(method="cg", starts=1)
    literal = Relaxed(step_size=1.0, schedule=None, plan="last")
    assert type(literal) is not type(Relaxed()) and literal.plan == "last"
