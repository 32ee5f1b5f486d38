"""Properties tried on random graphs, what a local solver finds, and float32 against float64.

    python -m experiments.trust --data_dir=FOLDER

Prints for every check the cases tried, those that are not finite and those that break a property,
with the seed that makes each of them again; then how often values keep still under what should not
change them; then values in both precisions on pairs of a dataset. With the default of 1,000 cases a
check this is more than 25,000 cases, in about half an hour on one core.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from absl import flags as absl_flags

from experiments import flags, infeasibility, trust_checks, trust_midpoints
from experiments.trust_checks import Check, Verdict
from experiments.trust_graphs import Cases, Kind, draw, random_graph
from fgw_jax import Graph, augment, datasets
from fgw_jax.errors import InputError, check
from fgw_jax.fgw import distances

#: Cases of one call of a check: one compiled shape.
BATCH = 32
#: Solvers that are tried from a given plan and on padding as well; the others share their code.
STEPPING = ("cg", "mirror", "relaxed", "literal")


def _over(check_: Callable[..., Verdict], kind: str, names: Any) -> dict[str, Check]:
    return {f"{kind}: {name}": functools.partial(check_, name) for name in names}


#: What is checked of random graphs, by name.
CHECKS: dict[str, Check] = {
    **_over(trust_checks.solver_check, "solver", trust_checks.SOLVERS),
    **_over(trust_checks.start_check, "from a plan", STEPPING),
    **_over(trust_checks.padding_check, "padding", STEPPING),
    "alpha": trust_checks.alpha_check,
    "triangle": trust_checks.triangle_check,
    **_over(trust_midpoints.midpoint_check, "midpoint", trust_midpoints.MIDPOINTS),
    "decode": trust_midpoints.decode_check,
    **_over(trust_midpoints.augment_check, "augment", augment.METHODS),
}

#: Families of pairs whose rates are told: name -> kind of features, whether all is generic.
FAMILIES = {"generic features": "generic", "two labels": "labels", "constant features": "constant"}


def generic_cases(seed: int, count: int, features: str = "generic") -> Cases:
    """Pairs of sparse graphs with equal weights and one kind of features, at the usual alphas."""
    rng = np.random.default_rng(seed)
    kinds = (Kind("sparse", features, "uniform", False),) * count
    pairs = tuple([random_graph(rng, kind) for kind in kinds] for _ in range(2))
    alpha = rng.choice([0.1, 0.5, 0.95], count).astype(pairs[0][0].weights.dtype)
    return Cases(kinds, pairs, alpha)


def run_checks(
    names: list[str], cases: int, seed: int
) -> Iterator[tuple[str, int, int, list[Any]]]:
    """For each check its name, cases tried, cases not finite, and the verdicts that are broken."""
    for name in names:
        count, not_finite, broken = 0, 0, []
        number = seed
        while count < cases:
            verdict = CHECKS[name](number, BATCH, "any")
            count, not_finite = count + verdict.count, not_finite + verdict.not_finite
            broken += [verdict] if verdict.broken else []
            number += 1
        yield name, count, not_finite, broken
        jax.clear_caches()  # compiled code stays mapped, and the number of maps has a limit


def precision_rows(left: list[Graph], right: list[Graph], alpha: float) -> list[str]:
    """Rows of the table of float32 against float64: the value of each, and of equal plans."""
    rows = []
    for name in ("cg", "cg, 3 starts", "mirror", "relaxed", "literal"):
        solver = trust_checks.SOLVERS[name][0]
        single = distances(left, right, alpha, solver)
        with jax.enable_x64(True):
            wide = [[_widened(g) for g in side] for side in (left, right)]
            double = distances(*wide, alpha, solver)
        jax.clear_caches()
        assert single.plans is not None and double.plans is not None  # noqa: S101 - kept by default
        error = np.abs(single.value - double.value)
        share = error / np.maximum(double.value, 1e-9)
        close = [np.abs(a - b).max() <= 1e-4 * b.max() for a, b in zip(single.plans, double.plans,
                                                                      strict=True)]  # fmt: skip
        same = share[np.array(close)]
        cells = (
            f"{single.value.mean():.6f}", f"{double.value.mean():.6f}", f"{np.median(share):.1e}",
            f"{(share <= 1e-3).mean():.1%}", f"{np.mean(close):.1%}",
            f"{same.max(initial=0):.1e}",
        )  # fmt: skip
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def _widened(graph: Graph) -> Graph:
    """The same graph in float64, its weights normalised there."""
    return Graph.from_adjacency(
        graph.adjacency.astype(np.float64),
        graph.features.astype(np.float64),
        structure=graph.structure.astype(np.float64),
    )


def main(values: absl_flags.FlagValues) -> None:
    """Run the checks, count the rates, compare the precisions; end with 1 if anything is broken."""
    with flags.usage_errors(values):
        unknown = sorted(set(values.checks) - {name.split(":")[0] for name in CHECKS} - {"all"})
        if unknown:
            known = sorted({name.split(":")[0] for name in CHECKS})
            raise InputError(f"checks: no such check {unknown}; use all, or some of {known}")
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
        _print_rates(values.rates, values.seed)
    if data is not None:
        left, right = infeasibility.random_pairs(data, values.num_pairs, values.seed)
        print(f"{len(left)} pairs of {data.name}, alpha {values.alpha:g}, seed {values.seed}\n")
        print("| solver | mean float32 | mean float64 | median relative difference | within 1e-3 |"
              " same plan | largest difference of those |\n|---|---|---|---|---|---|---|")  # fmt: skip
        print("\n".join(precision_rows(left, right, values.alpha)))
    sys.exit(1 if violations else 0)


def _print_rates(cases: int, seed: int) -> None:
    print(f"| solver | pairs | {' | '.join(trust_checks.RATES)} |")
    print("|---" * (len(trust_checks.RATES) + 2) + "|")
    for solver in ("cg", "mirror", "relaxed"):
        for family, features in FAMILIES.items():
            batches = [
                trust_checks.rates(solver, generic_cases(seed + i, BATCH, features), seed)
                for i in range(-(-cases // BATCH))
            ]
            shares = [np.mean([batch[name] for batch in batches]) for name in trust_checks.RATES]
            print(f"| {solver} | {family} | " + " | ".join(f"{s:.1%}" for s in shares) + " |",
                  flush=True)  # fmt: skip
        jax.clear_caches()
    print()


def own_flags(values: absl_flags.FlagValues) -> None:
    """Flags of this binary alone."""
    absl_flags.DEFINE_integer(
        "cases", 1000, "Least number of cases a check.", 1, flag_values=values
    )
    absl_flags.DEFINE_list(
        "checks", "all", "all, or kinds of checks: solver, midpoint, ...", flag_values=values
    )
    absl_flags.DEFINE_integer("rates", 320, "Pairs a rate; 0: none.", 0, flag_values=values)
    absl_flags.DEFINE_integer(
        "num_pairs", 1000, "Pairs in both precisions; 0: none.", 0, flag_values=values
    )


if __name__ == "__main__":
    flags.launch(
        main, ["dataset", "data_dir", "alpha", "seed"], own_flags, dataset="MUTAG", alpha=0.95
    )
