"""What holds for every pair of graphs, tried on batches of random ones.

An example is a seed and a kind of features: the batch of 32 cases follows from them, and so does a
failure, whose message names both. ``FGW_JAX_CASES=600`` tries that many cases of every check; the
slow tests try a few batches of the checks whose programs compile fastest by default.
"""

import os

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import trust
from experiments.robustness import checks, random_graphs

MANY = bool(os.environ.get("FGW_JAX_CASES"))
PROFILE = settings.get_profile("many" if MANY else "few")
#: Left to the large profile: each compiles for a quarter of a minute what others run as well.
LONG = {
    "solver: cg, 3 starts",
    "solver: relaxed, rounded",
    "solver: reference",
    "from a plan: mirror",
    "from a plan: literal",
    "from a plan: relaxed",
    "padding: mirror",
    "padding: literal",
    "midpoint: geodesic, relaxed",
    "midpoint: random, mirror",
    "midpoint: random, relaxed",
    "midpoint: random, literal",
    "augment: gmixup_gw",
    "augment: gmixup_gw_star",
    "augment: gmixup_fgw",
    "augment: fgwmixup_star",
    "augment: smixup",
    "augment: geomix",
}
seeds = st.integers(0, 2**31 - 1)
kinds = st.sampled_from(["any", *random_graphs.FEATURES])


@pytest.fixture(autouse=True)
def few_compiled_functions(request):
    yield
    if MANY:
        jax.clear_caches()


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in trust.CHECKS if MANY or n not in LONG])
def test_property(name):
    @PROFILE
    @given(seed=seeds, features=kinds)
    def holds(seed, features):
        verdict = trust.CHECKS[name](seed, trust.BATCH, features)
        assert verdict.not_finite == 0 and not verdict.broken, str(verdict)

    holds()


def test_a_broken_property_is_told_with_its_seed_and_case():
    verdict = checks.Verdict("solver x, seed 7", 3)
    verdict.require_finite(np.array([1.0, np.nan, 2.0]))
    verdict.require("sum", [True, True, False])
    assert verdict.not_finite == 1
    assert str(verdict) == "solver x, seed 7, 3 cases\nfinite: cases [1]\nsum: cases [2]"


def test_the_same_seed_makes_the_same_cases():
    first, again, other = (random_graphs.draw(seed, 8) for seed in (3, 3, 4))
    assert first.kinds == again.kinds != other.kinds
    for one, two in zip(first.batches(), again.batches(), strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, two)


def test_every_kind_of_graph_comes_up():
    drawn = [kind for seed in range(8) for kind in random_graphs.draw(seed, 32).kinds]
    for field, table in (
        ("adjacency", random_graphs.ADJACENCIES),
        ("features", random_graphs.FEATURES),
        ("weights", random_graphs.WEIGHTS),
    ):
        assert {getattr(kind, field) for kind in drawn} == set(table)
    sizes = [g.num_nodes for g in random_graphs.draw(0, 256).graphs[0]]
    assert min(sizes) == 1 and max(sizes) == random_graphs.SIZE
