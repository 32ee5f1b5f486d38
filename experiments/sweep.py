"""Run a table of the paper, on one machine or several; finished folds are not repeated.

    python -m experiments.sweep --table=main --list
    python -m experiments.sweep --table=noise --data_dir=FOLDER
    python -m experiments.sweep --table=main --data_dir=FOLDER --num_shards=4 --shard=0

Tables of result lines: main, noise, alpha, size, depth, gmixup_estimators, gmixup_fgw, beta_k,
ogb; and combinations (every backbone with every method, two epochs on MUTAG, as a check). Tables
and figures that one command measures: efficiency, infeasibility, convergence, qualitative.

The runs are listed with their estimated cost, then run fold by fold; every fold adds a line to
--out/results.jsonl, so a sweep that was stopped resumes where it was. Each shard takes every n-th
fold: give each machine its own --shard, collect the files, and pass them all to
``python -m experiments.tables --results=a.jsonl,b.jsonl``.
"""

from __future__ import annotations

import subprocess
import sys

from absl import flags as absl_flags

from experiments import flags, sweeps, table_cells
from fgw_jax.errors import check
from fgw_jax.protocol import cost, folds, results
from fgw_jax.protocol.summary import ResultIndex

_LAYOUT = ("datasets", "backbones", "augments", "tune", "num_shards", "shard", "max_folds")


def main(values: absl_flags.FlagValues) -> None:
    """List the runs of a table, then run them."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
        known = (*table_cells.TABLES, *table_cells.COMMANDS)
        check(values.table is not None, f"table: name one of {', '.join(known)}")
        check(values.table in known, f"table: no such table; choose from {', '.join(known)}")
        overrides = sweeps.overrides(values)
        folds.shard([], values.num_shards, values.shard)
        folds.jobs([], values.max_folds)
        if values.table in table_cells.COMMANDS:
            _refuse_unused(values)
    if values.table in table_cells.COMMANDS:
        sys.exit(_command(values))
    store = results.Store(out / "results.jsonl")
    runner = folds.FoldRunner(values.data_dir, out / "checkpoints")
    with flags.usage_errors(values):
        (table,) = sweeps.chosen(values, [values.table])
        sweeps.check_overrides(table, overrides, named=True)
    for reason in table.refused:
        print(f"refused: {reason}")
    while True:
        plan = sweeps.plan(table, ResultIndex(store.records()), values.tune, **overrides)
        with flags.usage_errors(values):
            runner.check(plan.runs)
            work = folds.jobs(plan.runs, values.max_folds)
        part = folds.shard(work, values.num_shards, values.shard)
        todo = folds.missing(part, store, runner)
        print(cost.listing(plan.runs, todo, store, runner))
        if values.list or not todo:
            break
        folds.run(part, store, runner, workers=values.workers, progress=True)
        if not plan.waiting:
            break
    if plan.waiting:
        print(f"{plan.waiting} cells wait until batch size and learning rate are selected;")
        print("run again, without --max_folds, when all shards are finished")
    print(f"results: {store.path}; show them: python -m experiments.tables --results={store.path}")


def _refuse_unused(values: absl_flags.FlagValues) -> None:
    """Refuse flags that a table with a separate binary does not read."""
    for name in (*sweeps.OVERRIDES, "seed", *_LAYOUT):
        check(
            not values[name].present,
            f"{name}: --table={values.table} does not take this flag; leave it out, or give it to "
            f"python -m {table_cells.COMMANDS[values.table][0]}",
        )


def _command(values: absl_flags.FlagValues) -> int:
    """Run the separate binary of a table."""
    command = [sys.executable, "-m", *table_cells.COMMANDS[values.table], f"--out={values.out}"]
    if values.data_dir is not None and values.table != "convergence":
        command.append(f"--data_dir={values.data_dir}")
    print(" ".join(["python", *command[1:]]), flush=True)
    return 0 if values.list else subprocess.run(command, check=False).returncode  # noqa: S603


def own_flags(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_string("table", None, "The table to fill.", flag_values=values)
    absl_flags.DEFINE_bool("list", False, "Only list the runs.", flag_values=values)
    flags.define(["num_shards", "shard"], values)
    absl_flags.DEFINE_integer(
        "max_folds", None, "Run only the first folds of each run; the others can follow later.",
        flag_values=values,
    )  # fmt: skip
    sweeps.define(values)


if __name__ == "__main__":
    flags.launch(main, [*flags.FOLDS], own_flags)
