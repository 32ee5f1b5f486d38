"""Compile beforehand what the folds of a job will need, into a compilation cache.

    python -m experiments.warm_up --dataset=NCI1 --data_dir=FOLDER --compilation_cache=FOLDER

Takes the flags of ``experiments.run``. Fold by fold it draws the new graphs and trains for one
epoch, until a fold needs no program that is not there; a process started later with the same
--compilation_cache then compiles nothing that takes longer than 0.2 s. Programs belong to a kind
of machine, a number of devices and a version of JAX.
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
    """Go through the folds of every method until one compiles nothing."""
    with flags.usage_errors(values):
        check(
            values.compilation_cache is not None,
            "compilation_cache: compiled programs are kept there; name a folder",
        )
        given: dict[str, Any] = flags.protocol(values)
        runs = settings.expand(**given)
        runner = folds.FoldRunner(values.data_dir)
        runner.check(runs)
    for run in runs:
        print(warm_up(run, runner), flush=True)


def warm_up(run: settings.Settings, runner: folds.FoldRunner) -> str:
    """Compile what the folds of a run need; tells how many programs that were."""
    counts = compilations.counts()
    begin, before, fold = time.perf_counter(), counts.compiled, 0
    short = dataclasses.replace(run, epochs=1)
    for fold in range(run.resolved_folds):
        seen = counts.compiled
        runner.run(folds.Job(short, fold))
        # The first fold may find all of its own where a later one does not.
        if fold > 0 and counts.compiled == seen:
            break
    return (
        f"{run.dataset} {run.backbone} {run.augment}: {counts.compiled - before} programs compiled "
        f"in {fold + 1} folds, {time.perf_counter() - begin:.1f} s"
    )


if __name__ == "__main__":
    flags.launch(main, [*flags.PROTOCOL, "data_dir", "compilation_cache"])
