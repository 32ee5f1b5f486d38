"""The reference builds without a warning; what it says of other libraries is so."""

import numpy as np
import ot
import pytest

from fgw_jax import Relaxed
from fgw_jax.fgw import from_graphs
from tests.helpers import random_graph


@pytest.mark.slow
def test_the_reference_builds_and_warnings_are_errors(python, tmp_path):
    done = python("-m", "sphinx", "-q", "-W", "docs", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "distance.html").read_text()
    assert "fgw_jax.fgw.distances.distance" in page
    assert "epsilon" in (tmp_path / "coming_from.html").read_text()


@pytest.mark.usefixtures("x64")
def test_the_literal_solver_takes_the_steps_of_bapg(rng):
    first, second = (random_graph(rng, n, 2, 0.5) for n in (5, 7))
    problem = from_graphs(first, second, 0.7)
    solver = Relaxed(step_size=2.0, schedule=None, plan="last")
    state = solver.init(problem)
    for _ in range(4):
        state = solver.step(problem, state)
    cost = ot.dist(np.asarray(first.features), np.asarray(second.features))
    plan = ot.gromov.BAPG_fused_gromov_wasserstein(
        cost,
        np.asarray(first.structure),
        np.asarray(second.structure),
        epsilon=0.5,
        alpha=0.7,
        max_iter=4,
        tol=0.0,
    )
    np.testing.assert_allclose(state.plan, plan, atol=1e-10)
