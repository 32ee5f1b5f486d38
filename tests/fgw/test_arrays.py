"""The array-level call, beside POT's and beside graphs."""

import jax
import numpy as np
import ot
import pytest

from fgw_jax import Relaxed, distance
from fgw_jax.errors import InputError
from fgw_jax.fgw import solve
from tests.helpers import labelled_graph


@pytest.fixture
def arrays(rng):
    g1, g2 = labelled_graph(rng, 9), labelled_graph(rng, 7)
    cost = ((g1.features[:, None] - g2.features[None]) ** 2).sum(-1)
    return (g1, g2), (cost, g1.structure, g2.structure, g1.weights, g2.weights)


def test_it_is_the_distance_of_graphs_and_no_worse_than_pot(arrays):
    (g1, g2), plain = arrays
    out = solve(*plain, alpha=0.7)
    np.testing.assert_allclose(out.value, distance(g1, g2, 0.7).value, rtol=1e-4)
    exact = [np.asarray(x, float) for x in plain]
    exact[3:] = [w / w.sum() for w in exact[3:]]
    _, log = ot.gromov.fused_gromov_wasserstein(*exact, alpha=0.7, log=True)
    assert out.value <= 1.02 * log["fgw_dist"]
    assert repr(out).startswith("Output(0.") and "plan=(9, 7)" in repr(out)


def test_weights_are_uniform_by_default_and_the_call_is_differentiable(arrays):
    _, (cost, c1, c2, p, q) = arrays
    np.testing.assert_array_equal(solve(cost, c1, c2).plan, solve(cost, c1, c2, p, q).plan)
    slope = jax.jit(jax.grad(lambda m: solve(m, c1, c2, alpha=0.5, solver=Relaxed()).value))(cost)
    assert np.isfinite(slope).all() and slope.shape == cost.shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"M": np.ones(3)}, "M: expected a matrix"),
        ({"C1": np.ones((2, 2))}, "C1: expected shape"),
        ({"C2": np.triu(np.ones((7, 7)))}, "C2: is not symmetric"),
        ({"C2": np.full((7, 7), np.nan)}, "C2: contains NaN"),
        ({"p": np.ones(9)}, "p: weights must be at least 0 and sum to 1"),
        ({"q": np.ones(6) / 6}, "q: expected 7 weights"),
        ({"alpha": 2.0}, "alpha"),
        ({"power": 3}, "q: must be 1 or 2"),
        ({"init": np.ones((2, 2))}, "init"),
    ],
)
def test_bad_arguments_are_named(arrays, change, message):
    _, plain = arrays
    arguments = dict(zip(("M", "C1", "C2", "p", "q"), plain, strict=True)) | change
    with pytest.raises(InputError, match=message):
        solve(**arguments)
