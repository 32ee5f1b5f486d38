"""Invariance rates: how often a distance is unchanged by what should not change it.

Where no two nodes are alike and features decide, every case has to keep its value
(:func:`invariance_check`); elsewhere the share that does is counted (:func:`rates`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.robustness import checks
from experiments.robustness.checks import Verdict
from experiments.robustness.random_graphs import SIZE, Cases, Kind, permuted, random_graph
from fgw_jax.graphs import Batch

#: What a pair goes through: FGW(G2, G1); the nodes of the first graph in another order; a permuted
#: copy of the first graph for the second, at distance 0; eight more masked nodes.
RATES = ("exchanged", "reordered", "copy found", "padded further")
#: Of those, what holds for every pair with generic features and little structure. The plans of
#: mirror descent are inside the polytope, and their Sinkhorn sweeps begin with the rows: exchanging
#: the graphs moves them, and a copy is near and not at zero.
INVARIANT = {
    "cg": ("exchanged", "reordered", "copy found"),
    "mirror": ("reordered", "padded further"),
}
#: Families of pairs whose rates are reported: name -> kind of features.
FAMILIES = {"generic features": "generic", "two labels": "labels", "constant features": "constant"}


def sparse_pairs(
    seed: int, count: int, features: str, alphas: Sequence[float] = (0.1, 0.5, 0.95)
) -> Cases:
    """Pairs of sparse graphs with equal weights and one kind of features, and random alphas."""
    rng = np.random.default_rng(seed)
    kinds = (Kind("sparse", features, "uniform", False),) * count
    pairs = tuple([random_graph(rng, kind) for kind in kinds] for _ in range(2))
    return Cases(kinds, pairs, rng.choice(alphas, count).astype(pairs[0][0].weights.dtype))


def rates(
    name: str, cases: Cases, seed: int = 0, which: Sequence[str] = RATES
) -> dict[str, np.ndarray]:
    """Whether the value of each case ``[B]`` is invariant under each change of :data:`RATES`.

    Equal means within 1e-3 of the value and 1e-5 of the largest cost.
    """
    rng = np.random.default_rng(seed)
    first, second = cases.batches()
    copies = [permuted(g, rng.permutation(g.num_nodes)) for g in cases.graphs[0]]
    copy = Batch.stack(copies, SIZE)

    def value(*pair: Batch) -> np.ndarray:
        return np.asarray(checks.solve(name, *pair, cases.alpha).value, np.float64)

    plain = value(first, second)
    slack = 1e-5 * sum(checks.scales(first, second, cases.alpha))
    own = 1e-5 * sum(checks.scales(first, copy, cases.alpha)) + 1e-6
    same = lambda *pair: np.abs(value(*pair) - plain) <= 1e-3 * plain + slack  # noqa: E731
    tests = {
        "exchanged": lambda: same(second, first),
        "reordered": lambda: same(copy, second),
        "copy found": lambda: value(first, copy) <= own,
        "padded further": lambda: same(first.pad(SIZE + 8), second.pad(SIZE + 8)),
    }
    return {test: tests[test]() for test in which}


def invariance_check(name: str, seed: int, count: int, features: str = "any") -> Verdict:
    """With generic features and small alpha values are invariant, and copies have distance 0."""
    del features  # always generic
    cases = sparse_pairs(seed, count, "generic", (0.0, 0.001, 0.02))
    verdict = Verdict(f"invariance of {name}, seed {seed}", count)
    for test, holds in rates(name, cases, seed, INVARIANT[name]).items():
        verdict.require(test, holds)
    return verdict


def rate_row(name: str, family: str, cases: int, batch: int, seed: int) -> str:
    """One row of the table of rates, over at least ``cases`` pairs of a family."""
    found = [
        rates(name, sparse_pairs(seed + number, batch, FAMILIES[family]), seed)
        for number in range(-(-cases // batch))
    ]
    shares = [np.mean([some[test] for some in found]) for test in RATES]
    return f"| {name} | {family} | {' | '.join(f'{share:.1%}' for share in shares)} |"
