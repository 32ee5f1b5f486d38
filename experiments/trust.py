"""Property tests on random graphs, invariance rates of the solvers, and float32 against float64.

    python -m experiments.trust --data_dir=FOLDER

Prints for every check the number of cases, of non-finite results and of violations, with the seed
that reproduces each of them; then how often values are invariant under changes that should not
matter; then values in both precisions on pairs of a dataset. With the default of 1,000 cases per
check these are more than 40,000 cases, in about half an hour on one core.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from absl import flags as absl_flags

from experiments import flags, infeasibility
from experiments.robustness import checks, midpoint_checks
from experiments.robustness.checks import Check, Verdict
from experiments.robustness.rates import FAMILIES, INVARIANT, RATES, invariance_check, rate_row
from fgw_jax import Graph, augment, datasets
from fgw_jax.errors import check
from fgw_jax.fgw import distances

#: Cases of one call of a check: one compiled shape.
BATCH = 32
#: Solvers that are tried from a given plan and on padding as well; the others share their code.
STEPPING = ("cg", "mirror", "relaxed", "literal")


def _over(check_: Callable[..., Verdict], kind: str, names: Any) -> dict[str, Check]:
    return {f"{kind}: {name}": functools.partial(check_, name) for name in names}


#: What is checked of random graphs, by name.
CHECKS: dict[str, Check] = {
    **_over(checks.solver_check, "solver", checks.SOLVERS),
    **_over(checks.start_check, "from a plan", STEPPING),
    **_over(checks.padding_check, "padding", STEPPING),
    **_over(invariance_check, "invariance", INVARIANT),
    "alpha": checks.alpha_check,
    "triangle": checks.triangle_check,
    **_over(midpoint_checks.midpoint_check, "midpoint", midpoint_checks.MIDPOINTS),
    "decode": midpoint_checks.decode_check,
    **_over(midpoint_checks.augment_check, "augment", augment.METHODS),
}

#: Columns of the table of both precisions; plans are the same within 1e-4 of the largest entry.
PRECISION = (
    "solver",
    "mean float32",
    "mean float64",
    "median relative difference",
    "within 1e-3",
    "same plan",
    "largest relative difference of those",
)


def run_checks(
    names: list[str], cases: int, seed: int
) -> Iterator[tuple[str, int, int, list[Any]]]:
    """For each check: name, number of cases, non-finite cases, and violated verdicts."""
    for name in names:
        count, not_finite = 0, 0
        broken: list[Verdict] = []
        number = seed
        while count < cases:
            verdict = CHECKS[name](number, BATCH, "any")
            count, not_finite = count + verdict.count, not_finite + verdict.not_finite
            broken += [verdict] if verdict.broken else []
            number += 1
        yield name, count, not_finite, broken
        jax.clear_caches()  # compiled code stays mapped, and the number of maps has a limit


def precision_rows(
    left: list[Graph],
    right: list[Graph],
    alpha: float,
    solvers: Sequence[str] = ("cg", "cg, 3 starts", "mirror", "relaxed", "literal"),
) -> Iterator[str]:
    """Rows of the table :data:`PRECISION`, one per solver."""
    for name in solvers:
        solver = checks.SOLVERS[name][0]
        single = distances(left, right, alpha, solver, max_shapes=1)
        with double_precision():
            first, second = ([widened(graph) for graph in side] for side in (left, right))
            double = distances(first, second, alpha, solver, max_shapes=1)
        jax.clear_caches()
        assert single.plans is not None and double.plans is not None  # noqa: S101 - kept by default
        share = np.abs(single.value - double.value) / np.maximum(double.value, 1e-9)
        pairs = zip(single.plans, double.plans, strict=True)
        same = np.array([np.abs(a - b).max() <= 1e-4 * b.max() for a, b in pairs])
        cells = (
            f"{single.value.mean():.6f}",
            f"{double.value.mean():.6f}",
            f"{np.median(share):.1e}",
            f"{(share <= 1e-3).mean():.1%}",
            f"{same.mean():.1%}",
            f"{share[same & (double.value > 1e-6)].max(initial=0):.1e}",
        )
        yield f"| {name} | {' | '.join(cells)} |"


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Enable float64 in all threads (``jax.enable_x64`` affects one thread only)."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def widened(graph: Graph) -> Graph:
    """The same graph with uniform weights in the current float type."""
    return Graph.from_adjacency(graph.adjacency, graph.features, structure=graph.structure)


def main(values: absl_flags.FlagValues) -> None:
    """Run the checks, rates and precision comparison; exit code 1 after any violation."""
    with flags.usage_errors(values):
        unknown = sorted(set(values.checks) - {name.split(":")[0] for name in CHECKS} - {"all"})
        known = sorted({name.split(":")[0] for name in CHECKS})
        check(
            len(values.checks) > 0 and not unknown,
            f"checks: no such check {','.join(unknown)!r}; use all, or some of {', '.join(known)}",
        )
        check(0 <= values.alpha <= 1, f"alpha: {values.alpha} is not from 0 to 1")
        data = datasets.load(values.dataset, values.data_dir) if values.num_pairs else None
    names = [n for n in CHECKS if "all" in values.checks or n.split(":")[0] in values.checks]
    total, not_finite, violations = 0, 0, 0
    print("| check | cases | not finite | violations |\n|---|---|---|---|", flush=True)
    for name, count, bad, broken in run_checks(names, values.cases, values.seed):
        wrong = sum(len(set().union(*v.broken.values())) for v in broken)
        total, not_finite, violations = total + count, not_finite + bad, violations + wrong
        print(f"| {name} | {count} | {bad} | {wrong} |", flush=True)
        for verdict in broken:
            print(verdict, file=sys.stderr)
    print(f"| all | {total} | {not_finite} | {violations} |\n")
    if values.rates:
        print(f"| solver | pairs | {' | '.join(RATES)} |\n" + "|---" * (len(RATES) + 2) + "|")
        for solver in ("cg", "mirror", "relaxed"):
            for family in FAMILIES:
                row = rate_row(solver, family, values.rates, BATCH, values.seed)
                print(row, flush=True)
            jax.clear_caches()
        print()
    if data is not None:
        left, right = infeasibility.random_pairs(data, values.num_pairs, values.seed)
        print(f"{len(left)} pairs of {data.name}, alpha {values.alpha:g}, seed {values.seed}\n")
        print(f"| {' | '.join(PRECISION)} |\n" + "|---" * len(PRECISION) + "|")
        for row in precision_rows(left, right, values.alpha):
            print(row, flush=True)
    sys.exit(1 if violations else 0)


def own_flags(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer("cases", 1000, "Cases per check.", 1, flag_values=values)
    absl_flags.DEFINE_list(
        "checks", "all", "all, or kinds of checks: solver, midpoint, ...", flag_values=values
    )
    absl_flags.DEFINE_integer("rates", 320, "Pairs per rate; 0: none.", 0, flag_values=values)
    absl_flags.DEFINE_integer(
        "num_pairs", 1000, "Pairs in both precisions; 0: none.", 0, flag_values=values
    )


if __name__ == "__main__":
    flags.launch(
        main, ["dataset", "data_dir", "alpha", "seed"], own_flags, dataset="MUTAG", alpha=0.95
    )
