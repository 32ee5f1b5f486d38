"""Train one backbone on one split; prints metrics and the loss curve.

    python -m experiments.train --dataset=PROTEINS --backbone=vgcn --data_dir=FOLDER

The split is one fold of a protocol (``--protocol``, ``--folds``, ``--fold``), augmented by one
method (``--augment``). With ``--checkpoint=FILE`` an interrupted run is resumed.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np
from absl import flags as absl_flags

from experiments import flags
from fgw_jax import backbones, training
from fgw_jax.errors import InputError, check
from fgw_jax.protocol import folds, settings

_HEIGHT, _WIDTH = 10, 60


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer("fold", 0, "Number of the fold, from 0.", flag_values=values)
    absl_flags.DEFINE_string(
        "checkpoint", None, "File to resume from, written every ten epochs.", flag_values=values
    )
    absl_flags.DEFINE_bool(
        "authors", False,
        "Halve the learning rate every 50 epochs, clip gradients at 5 and stop early, as the "
        "authors' code does and the paper's text does not.",
        flag_values=values,
    )  # fmt: skip


def curve(values: np.ndarray, name: str) -> str:
    """A curve as text: means over equal intervals of epochs, from left to right.

    >>> print(curve(np.array([2.0, 1.0]), "loss").splitlines()[0])
       2.000 |*
    """
    intervals = np.array_split(values, min(_WIDTH, len(values)))
    means = np.array([interval.mean() for interval in intervals])
    low, high = float(means.min()), float(means.max())
    levels = np.round((means - low) / max(high - low, 1e-12) * (_HEIGHT - 1)).astype(int)
    lines = []
    for level in range(_HEIGHT - 1, -1, -1):
        marks = "".join("*" if at == level else " " for at in levels).rstrip()
        value = low + (high - low) * level / (_HEIGHT - 1)
        lines.append(f"{value:8.3f} |{marks}")
    lines.append(f"{name:>8} +{'-' * len(means)} epoch {len(values)}")
    return "\n".join(lines)


def report(result: training.Result, title: str) -> str:
    """The metrics and the loss curve of a run."""
    names = ("accuracy", "auroc", "loss")
    lines = [f"{'':<12}" + "".join(f"{name:>10}" for name in names)]
    for part, found in (("validation", result.valid), ("test", result.test or {})):
        cells = (f"{found[name]:10.4f}" if name in found else f"{'-':>10}" for name in names)
        lines.append(f"{part:<12}" + "".join(cells))
    table = "\n".join(lines)
    return (
        f"\n{title}\n\n{table}\n\n"
        f"best epoch {result.best_epoch} of {result.epochs}; augmentation "
        f"{result.augment_seconds:.1f} s, training {result.seconds:.1f} s, compilation included "
        f"({result.epochs / result.seconds:.1f} epochs per second)\n\n"
        f"{curve(result.curves['train_loss'], 'loss')}\n"
    )


def main(values: absl_flags.FlagValues) -> None:
    """Train and report."""
    with flags.usage_errors(values):
        given: dict[str, Any] = flags.protocol(values)
        if len(given["augment"]) != 1:
            raise InputError("augment: one split is trained with one method; give one")
        (run,) = settings.expand(**given)
        last = run.resolved_folds - 1
        check(0 <= values.fold <= last, f"fold: {values.fold} is not from 0 to {last}; choose one")
        if values.checkpoint is not None and os.path.isdir(values.checkpoint):
            raise InputError(f"checkpoint: {values.checkpoint} is a folder; give a file")
        runner = folds.FoldRunner(values.data_dir)
        data, parts = runner.data(run.dataset), runner.parts(folds.Job(run, values.fold))
    numbers = run.resolved()
    result = training.fit(
        backbones.make(run.backbone, data.num_classes, numbers["hidden"], numbers["num_layers"]),
        *parts,
        config=run.config(values.authors),
        key=jax.random.fold_in(jax.random.key(run.seed), values.fold),
        augment=run.method(),
        checkpoint=values.checkpoint,
        progress=True,
    )
    print(report(result, f"{run.backbone} on {run.dataset}, {run.augment}, fold {values.fold}"))


if __name__ == "__main__":
    names = [*flags.PROTOCOL, "data_dir", "compilation_cache"]
    flags.launch(main, names, define, augment="vanilla")
