"""The shared loop: how many steps are recorded, what counts as settled, how a status is told."""

import dataclasses

import jax
import numpy as np
import pytest

from fgw_jax import Graph, Reference, Relaxed, Strict, distance
from fgw_jax.errors import InputError
from fgw_jax.fgw import iteration, trace
from fgw_jax.fgw.iteration import ADVICE, Status

LITERAL = Relaxed(schedule=None, plan="last", max_steps=12)


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    edges = [(i, i + 1) for i in range(5)]
    return tuple(Graph.from_edges(edges[:n], n + 1, rng.normal(size=(n + 1, 3))) for n in (5, 4))


def test_every_step_is_recorded_unless_told_otherwise(pair):
    whole = trace(*pair, solver=LITERAL)
    assert whole.history.shape == (12,) and whole.num_steps == 12
    some = trace(*pair, solver=LITERAL, every=4)
    np.testing.assert_allclose(some.history, whole.history[3::4], rtol=1e-5)
    rare = trace(*pair, solver=LITERAL, every=20)
    assert rare.history.shape == (1,) and rare.num_steps == 12
    np.testing.assert_allclose(whole.history[-1], whole.value, rtol=1e-4)


@pytest.mark.parametrize(
    ("solver", "limits"),
    [
        (Strict(method="mirror", rtol=0.0, atol=0.0), (1, 5)),
        (Strict(method="mirror", rtol=0.0, atol=0.0, check_every=4), (6, 8)),
        (Relaxed(schedule=None, rtol=0.0, atol=0.0), (3, 25)),
        (Strict(rtol=0.0, atol=0.0), (1,)),
    ],
)
def test_no_more_steps_than_the_limit(solver, limits, pair):
    values = []
    for limit in limits:
        out = distance(*pair, solver=dataclasses.replace(solver, max_steps=limit))
        assert out.num_steps == limit
        values.append(float(out.value))
    assert len(set(values)) == len(limits)


def test_a_solver_without_steps_cannot_be_followed(pair):
    with pytest.raises(InputError, match="solver: Reference"):
        trace(*pair, solver=Reference())
    with pytest.raises(InputError, match="every"):
        trace(*pair, solver=LITERAL, every=0)
    with pytest.raises(InputError, match="every: 2.5 must be a whole number"):
        trace(*pair, solver=LITERAL, every=2.5)
    with pytest.raises(InputError, match="solver: only one start"):
        trace(*pair, solver=Strict(starts=2))


def test_settled_is_absolute_times_scale_plus_relative():
    state = iteration.State(None, None, None, 3, np.float32(2.0), np.float32(0.5), 1.0)
    for atol, rtol, expected in ((0.5, 0.0, True), (0.0, 0.25, True), (0.2, 0.1, False)):
        solver = Strict(atol=atol, rtol=rtol)
        assert bool(iteration.settled(solver, state)) == expected
        assert bool(iteration.finished(solver, state)) == expected
    small = dataclasses.replace(state, scale=0.1)
    assert not iteration.settled(Strict(atol=0.5, rtol=0.0), small)
    lost = dataclasses.replace(state, value=np.float32(np.nan))
    assert bool(iteration.finished(Strict(), lost))
    late = dataclasses.replace(state, count=300)
    assert bool(iteration.finished(Strict(atol=0.0, rtol=0.0), late))


def test_a_limit_that_is_too_low_is_told(pair):
    hasty = Relaxed(schedule=None, plan="last", max_steps=2, check_every=1, rtol=0.0, atol=0.0)
    out = distance(*pair, solver=hasty)
    assert out.status == Status.STEP_LIMIT and not out.converged and out.num_steps == 2
    assert out.message() == ADVICE[Status.STEP_LIMIT]
    patient = distance(*pair, solver=dataclasses.replace(hasty, rtol=1.0))
    assert patient.status == Status.CONVERGED and patient.converged


def test_an_initial_plan_counts_under_jit_as_it_does_outside(pair):
    """One step from it: the start still shows in the result."""
    one = Relaxed(schedule=None, plan="last", max_steps=1, check_every=1)
    plan = np.eye(6, 5, dtype=np.float32) / 5
    solve = jax.jit(lambda a, b, init: distance(a, b, solver=one, init=init).plan)
    outside = distance(*pair, solver=one, init=plan).plan
    np.testing.assert_allclose(solve(*pair, plan), outside, atol=1e-6)
    assert np.abs(np.asarray(solve(*pair, None)) - outside).max() > 1e-2
