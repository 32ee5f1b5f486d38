"""The infeasibility table: the relaxed solver against a strict one on random pairs.

    python -m experiments.infeasibility --data_dir=FOLDER

Prints MAE, MAPE, both means and T-diff beside the paper's figures, for Alg. 2 to the letter, for
the same plans made feasible, and for our default settings. The strict values are those of POT's
conditional gradient, as in the paper, or of our strict solver (``--reference=strict``).
"""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from typing import Any

import numpy as np
from absl import flags as absl_flags

from experiments import flags, paper
from fgw_jax import Graph, Relaxed, Strict, datasets, fingerprints
from fgw_jax.errors import InputError, check
from fgw_jax.fgw.distances import distances
from fgw_jax.protocol import results

COLUMNS = tuple(paper.INFEASIBILITY)


@dataclasses.dataclass(frozen=True)
class Solved:
    """Values ``[N]`` and plans of ``N`` pairs, and seconds of solving."""

    value: np.ndarray
    plans: list[np.ndarray]
    seconds: float


def random_pairs(data: datasets.Dataset, count: int, seed: int) -> tuple[list[Graph], list[Graph]]:
    """Pairs of two different graphs, drawn uniformly."""
    rng = np.random.default_rng(seed)
    first = rng.integers(len(data), size=count)
    second = (first + rng.integers(1, len(data), size=count)) % len(data)
    return [data.graphs[i] for i in first], [data.graphs[i] for i in second]


def solve(left: list[Graph], right: list[Graph], alpha: float, solver: Any) -> Solved:
    """Our solvers; time excludes compilation."""
    distances(left, right, alpha, solver)
    begin = time.perf_counter()
    out = distances(left, right, alpha, solver)
    assert out.plans is not None  # noqa: S101 - distances keeps them unless told not to
    return Solved(out.value, out.plans, time.perf_counter() - begin)


def solve_by_pot(left: list[Graph], right: list[Graph], alpha: float) -> Solved:
    """POT's conditional gradient, relative tolerance 1e-5."""
    import ot

    values, plans = [], []
    begin = time.perf_counter()
    for a, b in zip(left, right, strict=True):
        arrays = [np.asarray(x, np.float64) for x in (a.features, b.features)]
        cost = ((arrays[0][:, None] - arrays[1][None]) ** 2).sum(-1)
        plan, log = ot.gromov.fused_gromov_wasserstein(
            cost,
            np.asarray(a.structure, np.float64),
            np.asarray(b.structure, np.float64),
            ot.unif(a.num_nodes),
            ot.unif(b.num_nodes),
            alpha=alpha,
            tol_rel=1e-5,
            tol_abs=1e-9,
            log=True,
        )
        values.append(float(log["fgw_dist"]))
        plans.append(plan)
    return Solved(np.array(values), plans, time.perf_counter() - begin)


def compare(strict: Solved, relaxed: Solved) -> dict[str, paper.Score]:
    """The columns of the paper's table: mean and standard deviation over the pairs."""
    error = np.abs(strict.value - relaxed.value)
    # Equal graphs have distance 0; their relative error is not defined and left out.
    positive = strict.value > 1e-9
    share = error[positive] / strict.value[positive]
    plans = np.array(
        [np.linalg.norm(a - b) / a.size for a, b in zip(strict.plans, relaxed.plans, strict=True)]
    )
    return {
        "MAE": (float(error.mean()), float(error.std())),
        "MAPE": (float(share.mean()), float(share.std())),
        "mean-FGW": (float(strict.value.mean()), None),
        "mean-FGW*": (float(relaxed.value.mean()), None),
        "T-diff": (float(plans.mean()), float(plans.std())),
    }


def row(name: str, scores: dict[str, paper.Score], note: str = "") -> str:
    """A row of the Markdown table."""
    cells = [
        f"{mean:.4f}" + ("" if deviation is None else f"({deviation:.4f})")
        for mean, deviation in (scores[column] for column in COLUMNS)
    ]
    return f"| {name} | {' | '.join(cells)} | {note} |"


def main(values: absl_flags.FlagValues) -> None:
    """Solve the pairs with every solver, print the table, and write a line."""
    with flags.usage_errors(values):
        check(0 <= values.alpha <= 1, f"alpha: {values.alpha} is not from 0 to 1")
        check(
            values.step_size > 0, f"step_size: {values.step_size} must be above 0; 1 is the paper's"
        )
        out = flags.out_folder(values)
        if values.reference == "pot" and importlib.util.find_spec("ot") is None:
            raise InputError("reference: POT is not installed; pip install POT, or use strict")
        data = datasets.load(values.dataset, values.data_dir)
    left, right = random_pairs(data, values.num_pairs, values.seed)
    alpha = values.alpha
    if values.reference == "pot":
        strict = solve_by_pot(left, right, alpha)
    else:
        strict = solve(left, right, alpha, Strict())
    literal = Relaxed(step_size=values.step_size, schedule=None, plan="last")
    rows = {
        f"Alg. 2, step_size {values.step_size:g}": literal,
        "the same, made feasible": dataclasses.replace(literal, round=True),
        "Relaxed()": Relaxed(),
        "Strict()": Strict(),
    }
    print(f"{values.num_pairs} pairs of {data.name}, alpha {alpha:g}, seed {values.seed}; against ")
    print(f"{values.reference}, {1e3 * strict.seconds / len(left):.2f} ms per pair\n")
    print(f"| solver | {' | '.join(COLUMNS)} | ms per pair |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    print(row("paper (PROTEINS, 1000 pairs)", paper.INFEASIBILITY))
    store = results.Store(out / "measurements.jsonl")
    for name, solver in rows.items():
        solved = solve(left, right, alpha, solver)
        scores = compare(strict, solved)
        print(row(name, scores, f"{1e3 * solved.seconds / len(left):.2f}"))
        settings = {
            "kind": "infeasibility", "solver": name, "dataset": data.name, "alpha": alpha,
            "num_pairs": len(left), "seed": values.seed, "reference": values.reference,
            "data": data.fingerprint(),
        }  # fmt: skip
        store.append(
            {
                "key": results.fingerprint(settings),
                **settings,
                "scores": scores,
                "milliseconds": 1e3 * solved.seconds / len(left),
                "code": fingerprints.code_fingerprint(),
                "versions": results.versions(),
            }
        )


def own_flags(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer("num_pairs", 1000, "Random pairs.", 1, flag_values=values)
    absl_flags.DEFINE_enum(
        "reference", "pot", ["pot", "strict"], "Solver of the strict values to compare with.",
        flag_values=values,
    )  # fmt: skip


if __name__ == "__main__":
    flags.launch(
        main,
        ["dataset", "data_dir", "alpha", "step_size", "seed", "out"],
        own_flags,
        dataset="PROTEINS",
        alpha=0.95,
        step_size=1.0,
    )
