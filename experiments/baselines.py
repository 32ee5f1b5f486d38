"""Accuracy from structure alone and from features alone, with the same folds and backbone.

    python -m experiments.baselines

Trains the backbone on the graphs as they are, on the same graphs with constant features (structure
only), and with their features but no edges (signal only), and prints the three test accuracies.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from absl import flags as absl_flags

from experiments import flags
from fgw_jax import Graph, datasets
from fgw_jax.protocol import folds, results, settings, summary


def parts(data: datasets.Dataset) -> list[datasets.Dataset]:
    """The dataset, its structure alone, and its features alone."""
    structure = [Graph.from_adjacency(graph.adjacency) for graph in data.graphs]
    signal = [Graph.from_adjacency(np.zeros_like(g.adjacency), g.features) for g in data.graphs]
    return [
        data,
        data.replace(graphs=structure, name=f"{data.name}, structure only"),
        data.replace(graphs=signal, name=f"{data.name}, signal only"),
    ]


def main(values: absl_flags.FlagValues) -> None:
    """Run all three and print the table."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
        plain = settings.expand(augment=["vanilla"], **flags.protocol(values))[0]
        three = parts(datasets.load(plain.dataset, values.data_dir))
        runner = folds.FoldRunner(values.data_dir, out / "checkpoints", own=three)
        # All three use the hyperparameters of the whole dataset.
        common = {name: plain.resolved()[name] for name in flags.TRAINING}
        runs = [dataclasses.replace(plain, dataset=data.name, **common) for data in three]
        runner.check(runs)
    store = results.Store(out / "results.jsonl")
    folds.run(folds.jobs(runs), store, runner, workers=values.workers, progress=True)
    lines = summary.ResultIndex(store.records())
    print(f"\n| {plain.backbone} on | test accuracy % | folds |\n|---|---|---|")
    for run in runs:
        found = lines.find(run)
        if found is not None:
            print(
                f"| {run.dataset} | {found.mean:.2f} ({found.deviation:.2f}) | {len(found.folds)} |"
            )


if __name__ == "__main__":
    given = (*settings.METHOD_OPTIONS, "augment")
    taken = [name for name in flags.PROTOCOL if name not in given]
    flags.launch(main, [*taken, *flags.FOLDS])
