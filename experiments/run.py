"""Cross-validated test accuracy of graph classifiers with and without graph mixup.

    python -m experiments.run

With no flags: SYNTHETIC (made on the spot, no network), vanilla against FGWMixup against
FGWMixup*, 10 folds each, in about two minutes on two cores. It prints an estimate of the time, a
progress bar, a table, and the path of a picture of a midpoint. Every fold adds a JSON line to
--out/results.jsonl; folds found there are not repeated, so a run that was stopped resumes where it
was, and repeating the command only prints the table.

    python -m experiments.run --dataset=PROTEINS --data_dir=FOLDER --backbone=vgin
    python -m experiments.run --dataset=NCI1 --augment=vanilla,gmixup,fgwmixup --label_noise=0.4
    python -m experiments.run --dataset=ogbg-molbace --backbone=vgcn --augment=vanilla,dropedge

Several processes share the folds (--num_processes, --process_id, --coordinator_address, or
--distributed where JAX finds them by itself); the first one shows the table of all.

Hyperparameters default to those of the paper for the dataset and backbone. An option (--alpha,
--beta_k, --ratio, --step_size, --size, --start, --refresh_every) applies to the methods that have
it. Invalid values and combinations end immediately with exit code 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
from absl import flags as absl_flags

from experiments import flags
from fgw_jax import mixups, plot
from fgw_jax.augment import FGWMixup
from fgw_jax.protocol import cost, folds, results, settings, summary
from fgw_jax.runtime import processes


def main(values: absl_flags.FlagValues) -> None:
    """Flags in, the library's work, result lines and a table out."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
        runs = settings.expand(**flags.protocol(values))
        runner = folds.FoldRunner(values.data_dir, out / "checkpoints")
        runner.check(runs)
        store = results.Store(out / "results.jsonl")
        work = folds.jobs(runs)
        todo = folds.missing(work, store, runner)
        part = processes.share(work)
    data = runner.data(runs[0].dataset)
    flags.say(f"{data.name}: {len(data)} graphs, {data.num_classes} classes; {runs[0].backbone}")
    flags.say(
        f"{len(todo)} of {len(work)} folds to do, {cost.describe(todo, store, runner)}", flush=True
    )
    folds.run(part, store, runner, workers=values.workers, progress=processes.is_first())
    folds.exchange(part, store, runner)
    if not processes.is_first():
        return
    lines = summary.ResultIndex(store.records())
    found = [line for line in map(lines.find, runs) if line is not None]
    print(f"\n{summary.summary_table(found)}\n\n{summary.seconds_table(found)}\n")
    print(f"lines: {store.path}")
    mixed = next((run for run in runs if isinstance(run.method(), FGWMixup)), None)
    drawn = None if mixed is None else picture(runner, mixed, out / f"{data.name}.png")
    if drawn is not None:
        print(f"picture of a midpoint: {drawn}")


def picture(runner: folds.FoldRunner, run: settings.Settings, path: Path) -> Path | None:
    """Of the midpoints of a fold the one nearest to the middle, beside its sources; drawn once."""
    if path.exists():
        return path
    method: Any = run.method()
    train = runner.data(run.dataset)[runner.splits(run)[0].train]
    # As many as the fold has: the programs are compiled already.
    count = round(method.ratio * len(train))
    if count == 0:
        return None
    made = method.draw(jax.random.key(run.seed), train, count).dataset
    parents = [[train.graphs[origin.parents[i]] for origin in made.origins] for i in (0, 1)]
    lams = [origin.lam for origin in made.origins]
    mids = mixups(parents[0], parents[1], lams, method.alpha, method.solver)
    best = min(range(len(lams)), key=lambda i: abs(lams[i] - 0.5))
    figure = plot.midpoint(parents[0][best], parents[1][best], mids[best], lams[best])
    path.parent.mkdir(parents=True, exist_ok=True)
    return plot.save(figure, path)


if __name__ == "__main__":
    flags.launch(main, [*flags.PROTOCOL, *flags.FOLDS, *flags.PROCESSES])
