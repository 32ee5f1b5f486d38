"""The paper's outer loop against plain numpy transcriptions of Alg. 1 and Alg. 2."""

import jax
import numpy as np
import pytest

from fgw_jax import Relaxed, Strict, mixup
from fgw_jax.midpoint import barycenter, paper
from fgw_jax.midpoint.objective import problem_of
from tests.helpers import generic_graph

ALPHA, LAM = 0.7, 0.4
STEPS, SWEEPS = 20, 10
SOLVERS = {
    "Alg. 1": Strict(method="mirror", noise=0.0, max_steps=STEPS, check_every=STEPS, sweeps=SWEEPS),
    "Alg. 2": Relaxed(
        step_size=1.0, schedule=None, plan="last", max_steps=STEPS, check_every=STEPS
    ),
}


def gradient(a, b, cost, plan):
    return (1 - ALPHA) * cost - 4 * ALPHA * a @ plan @ b


def sinkhorn(log_kernel, rows, columns, sweeps):
    balanced = log_kernel - log_kernel.max(1, keepdims=True)
    balanced = balanced - balanced.max(0, keepdims=True)
    kernel, v = np.exp(balanced), np.ones(len(columns))
    for _ in range(sweeps):
        u = rows / (kernel @ v)
        v = columns / (u @ kernel)
    return u[:, None] * kernel * v[None, :]


def rounded(plan, rows, columns):
    plan = plan * np.minimum(1, rows / plan.sum(1))[:, None]
    plan = plan * np.minimum(1, columns / plan.sum(0))[None, :]
    short = columns - plan.sum(0)
    return plan + np.outer(rows - plan.sum(1), short / max(short.sum(), 1e-300))


def strict_plan(a, b, cost, rows, columns):
    """Mirror steps in units of the gradient's deviation, Sinkhorn after each, rounded."""
    plan = sinkhorn(np.log(np.outer(rows, columns)), rows, columns, SWEEPS)
    for _ in range(STEPS):
        g = gradient(a, b, cost, plan)
        g = g - (g @ columns)[:, None] - (rows @ g)[None, :] + rows @ g @ columns
        g = g / np.sqrt(rows @ g**2 @ columns)
        plan = sinkhorn(np.log(plan) - 2.5 * g, rows, columns, SWEEPS)
    return rounded(sinkhorn(np.log(plan), rows, columns, 200), rows, columns)


def relaxed_plan(a, b, cost, rows, columns):
    """Lines 7 to 12 of Alg. 2, gamma = 1."""
    plan = np.outer(rows, columns)
    for _ in range(STEPS):
        plan = plan * np.exp(-gradient(a, b, cost, plan))
        plan = plan * (rows / plan.sum(1))[:, None]
        plan = plan * np.exp(-gradient(a, b, cost, plan))
        plan = plan * (columns / plan.sum(0))[None, :]
    return plan


def objective(a, b, cost, plan):
    """Eq. 1 with all sums over the plan."""
    rows, columns = plan.sum(1), plan.sum(0)
    quadratic = rows @ a**2 @ rows + columns @ b**2 @ columns - 2 * ((a @ plan @ b) * plan).sum()
    return (1 - ALPHA) * (cost * plan).sum() * plan.sum() + ALPHA * quadratic


@pytest.mark.parametrize("name", SOLVERS)
def test_first_ten_outer_steps_follow_the_paper(name, x64):
    rng = np.random.default_rng(3)
    graphs = generic_graph(rng, 7, 2), generic_graph(rng, 6, 2)
    key = jax.random.key(5)
    mid = mixup(*graphs, LAM, alpha=ALPHA, solver=SOLVERS[name], start="random", key=key)
    size, ratios = mid.graph.num_nodes, (LAM, 1 - LAM)
    new = np.full(size, 1 / size)
    sources = jax.tree.map(lambda a, b: np.stack([a, b]), graphs[0].pad(7), graphs[1].pad(7))
    problem = problem_of(sources, np.array(ratios), barycenter.uniform(size, size), ALPHA)
    state = paper.paper_start(problem, key)
    structure, features = np.asarray(state.structure), np.asarray(state.features + problem.centre)
    step = jax.jit(lambda state: paper.paper_step(problem, SOLVERS[name], state))
    for _ in range(10):
        state = step(state)
    assert int(state.count) == 10
    solve = strict_plan if name == "Alg. 1" else relaxed_plan
    expected = []
    for _ in range(10):
        total, structures, points = 0.0, 0.0, 0.0
        for ratio, g in zip(ratios, graphs, strict=True):
            cost = ((features[:, None] - g.features[None]) ** 2).sum(-1)
            plan = solve(structure, g.structure, cost, new, np.asarray(g.weights))
            total = total + ratio * objective(structure, g.structure, cost, plan)
            structures = structures + ratio * size**2 * plan @ g.structure @ plan.T
            points = points + ratio * size * plan @ g.features
        expected.append(total)
        structure, features = structures, points
    np.testing.assert_allclose(state.history[:10], expected, rtol=1e-6)
    # The loop a user runs takes the same steps, until the objective settles.
    count = int(mid.num_outer)
    assert 2 <= count <= 10
    np.testing.assert_allclose(mid.history[:count], expected[:count], rtol=1e-6)
