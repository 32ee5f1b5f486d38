"""The outer loops of a midpoint: when they end, what they tell, what stands on padding.

Covers fgw_jax.midpoint.limits, fgw_jax.midpoint.roles.
"""

import jax
import numpy as np
import pytest

from fgw_jax import Graph, Relaxed, Strict, mixup
from fgw_jax.errors import InputError
from fgw_jax.fgw import MirrorDescent, lower_bound
from fgw_jax.midpoint import RelaxedDescent, VertexDescent, barycenter
from fgw_jax.midpoint.limits import limits
from fgw_jax.midpoint.objective import problem_of
from fgw_jax.midpoint.paper import OUTER_ATOL, OUTER_LIMIT, OUTER_RTOL

LITERAL = Relaxed(step_size=1.0, schedule=None, plan="last")


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(5)

    def graph(n):
        upper = np.triu(rng.random((n, n)) < 0.4, 1)
        return Graph.from_adjacency(upper | upper.T, rng.normal(size=(n, 3)) + 3.0)

    return graph(8), graph(6)


def settled(last, before):
    return abs(last - before) <= OUTER_ATOL + OUTER_RTOL * abs(last)


def test_plans_of_a_schedule_are_rounded_in_the_paper_s_loop_and_alg_2_is_left_alone():
    assert Relaxed().inner().round
    assert LITERAL.inner() is LITERAL
    assert isinstance(Strict().inner(), MirrorDescent)
    best_of_two = Strict(starts=2)
    assert best_of_two.inner() is best_of_two


def test_options_of_the_solver_reach_the_alignment_and_those_of_the_descent_the_rounds(pair):
    assert Strict(max_steps=5).aligner() == Strict(max_steps=5)
    hasty = mixup(*pair, 0.4, solver=Strict(max_steps=1, warm_steps=0))
    assert hasty.estimate != mixup(*pair, 0.4).estimate
    few = mixup(*pair, 0.4, descent=VertexDescent(rounds=2))
    assert few.num_outer == 2 and len(few.history) == 3
    relaxed = mixup(*pair, 0.4, aligner=Strict(), descent=RelaxedDescent())
    assert relaxed.objective >= relaxed.bound


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": Strict(), "aligner": Strict()}, "solver: has no effect beside aligner"),
        ({"aligner": Relaxed()}, "aligner: its plans miss a marginal"),
        ({"solver": Relaxed(plan="last")}, "Relaxed.plan: has no effect on a midpoint"),
        ({"descent": VertexDescent(rounds=0)}, "VertexDescent.rounds: must be a whole number"),
        ({"descent": 8}, "descent: expected VertexDescent"),
        (
            {"start": "random", "descent": VertexDescent()},
            "descent: has no effect with",
        ),
        ({"start": "random", "aligner": Strict()}, 'aligner: has no effect with start="random"'),
    ],
)
def test_an_option_without_effect_is_refused(pair, options, message):
    key = jax.random.key(0) if "start" in options else None
    with pytest.raises(InputError, match=message):
        mixup(*pair, 0.4, key=key, **options)


def test_the_outer_loop_ends_at_the_first_settled_step(pair):
    mid = mixup(*pair, 0.4, solver=Relaxed(), start="random", key=jax.random.key(0))
    history, count = np.asarray(mid.history, float), int(mid.num_outer)
    assert 2 <= count < OUTER_LIMIT
    assert np.isfinite(history).all() and len(history) == count + 1
    assert history[count] == mid.objective
    ends = [settled(history[t], history[t - 1]) for t in range(1, count)]
    assert ends == [False] * (count - 2) + [True]
    assert bool(mid.converged) == settled(history[count], history[count - 1])


@pytest.mark.parametrize("lam", [0.2, 0.5, 0.8])
def test_converged_is_read_off_the_history(pair, lam):
    mid = mixup(*pair, lam)
    history = np.asarray(mid.history, float)
    assert len(history) == mid.num_outer + 1 == VertexDescent().rounds + 1
    assert history[-1] == mid.objective
    # The last entry was the objective by its gains; now it is the one of the rounded plans.
    assert bool(mid.converged) == settled(history[-1], history[-2])
    assert (np.diff(history) <= 1e-6).all()


def test_padding_of_a_midpoint_is_empty(pair):
    mid = jax.jit(mixup)(pair[0].pad(12), pair[1].pad(12), 0.5)
    graph = jax.tree.map(np.asarray, mid.graph)
    np.testing.assert_array_equal(graph.mask, np.arange(12) < 7)
    for values in (graph.features, graph.structure, graph.adjacency, graph.weights):
        assert not values[7:].any()
    for plan in mid.plans:
        assert not np.asarray(plan)[7:].any()
    assert not graph.adjacency.diagonal().any()


def test_a_source_with_all_the_weight_comes_back_to_the_last_bit(pair):
    for lam, source in ((1.0, pair[0]), (0.0, pair[1])):
        mid = mixup(*pair, lam)
        np.testing.assert_array_equal(mid.graph.structure, source.structure)
        np.testing.assert_array_equal(mid.graph.features, source.features)
        assert mid.converged and mid.bound == 0


@pytest.mark.parametrize("lam", [0.7, 0.3])
def test_the_estimate_is_that_of_the_alignment_where_it_is_the_better_plan(pair, lam):
    """Whichever source is the heavier one, to which the alignments go."""
    sources = jax.tree.map(lambda *x: np.stack(x), *(graph.pad(8) for graph in pair))
    problem = problem_of(sources, [lam, 1 - lam], barycenter.uniform(7, 8), 0.95)
    alignments = jax.jit(lambda p: barycenter.align(p, Relaxed(round=True)))(problem)
    product = problem.new_weights[None, :, None] * problem.weights[:, None, :]
    main = int(problem.main)
    least = problem.between(*map(problem.source, (main, 1 - main))).value(alignments[1 - main])
    both = problem.between(problem.source(0), problem.source(1))
    assert least < both.value(both.product)
    bound, estimate = jax.jit(limits)(problem, product, alignments)
    np.testing.assert_allclose(estimate, lam * (1 - lam) * least, rtol=1e-5)
    below = lower_bound(*pair)
    # Its linear program ends after a pivot per node.
    assert 0.97 * lam * (1 - lam) * below <= bound <= lam * (1 - lam) * below * 1.0001 <= estimate
