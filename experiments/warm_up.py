"""Precompile the programs of a run into a compilation cache.

    python -m experiments.warm_up --dataset=NCI1 --data_dir=FOLDER --compilation_cache=FOLDER

Takes the flags of ``experiments.run``. Augments and trains one epoch fold by fold, until a fold
compiles nothing; a process started later with the same --compilation_cache then compiles nothing
that takes longer than 0.2 s. Programs are specific to a kind of machine, a number of devices and a
version of JAX.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from absl import flags as absl_flags

from experiments import compilations, flags
from fgw_jax.errors import check
from fgw_jax.protocol import folds, settings


def main(values: absl_flags.FlagValues) -> None:
    """Precompile every method."""
    with flags.usage_errors(values):
        check(
            values.compilation_cache is not None,
            "compilation_cache: missing; give the folder for compiled programs",
        )
        given: dict[str, Any] = flags.protocol(values)
        runs = settings.expand(**given)
        runner = folds.FoldRunner(values.data_dir)
        runner.check(runs)
    for run in runs:
        print(warm_up(run, runner), flush=True)


def warm_up(run: settings.Settings, runner: folds.FoldRunner) -> str:
    """Run folds until one compiles nothing; returns a summary."""
    counts = compilations.counts()
    begin, before, fold = time.perf_counter(), counts.compiled, 0
    short = dataclasses.replace(run, epochs=1)
    for fold in range(run.resolved_folds):
        seen = counts.compiled
        runner.run(folds.Job(short, fold))
        # The first fold may be cached already while a later one is not.
        if fold > 0 and counts.compiled == seen:
            break
    return (
        f"{run.dataset} {run.backbone} {run.augment}: {counts.compiled - before} programs compiled "
        f"in {fold + 1} folds, {time.perf_counter() - begin:.1f} s"
    )


if __name__ == "__main__":
    flags.launch(main, [*flags.PROTOCOL, "data_dir", "compilation_cache"])
