"""The paper's three efficiency tables, ours beside the paper's figures.

    python -m experiments.efficiency --data_dir=FOLDER

1. seconds of mixup per fold, strict against relaxed; 2. seconds of a single FGW solve and outer
steps of a midpoint; 3. seconds per fold for every method, beside the training of the vanilla
backbone.

Every figure is the second of two runs on the same draw, so that nothing compiles; the additional
time of the first run is compilation, and is part of the lines written to ``--out``. Rows that end
in "random" use the random start of the paper; the others use the geodesic start.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from absl import flags as absl_flags

from experiments import flags, paper
from fgw_jax import Dataset, Relaxed, Strict, augment, backbones, datasets, fingerprints
from fgw_jax.datasets import splits
from fgw_jax.errors import check
from fgw_jax.fgw.distances import distances
from fgw_jax.midpoint.mixups import mixups
from fgw_jax.protocol import results
from fgw_jax.protocol.settings import STARTS, Settings
from fgw_jax.training import Config, fit

SOLVERS: dict[str, Any] = {"fgwmixup": Strict(), "fgwmixup_star": Relaxed()}

#: seconds of a single FGW solve, (relaxed, strict)
PAPER_FGW = {
    "PROTEINS": (0.0181, 0.0225),
    "NCI1": (0.0140, 0.0120),
    "NCI109": (0.0136, 0.0123),
    "IMDB-BINARY": (0.0162, 0.0119),
    "IMDB-MULTI": (0.0081, 0.0060),
}
#: outer steps of a midpoint, (relaxed, strict)
PAPER_OUTER = {
    "PROTEINS": (80.64, 153.69),
    "NCI1": (54.25, 170.23),
    "NCI109": (53.12, 169.98),
    "IMDB-BINARY": (20.03, 95.48),
    "IMDB-MULTI": (14.26, 60.91),
}
#: seconds per fold
PAPER_METHODS = {
    "PROTEINS": {
        "dropedge": 0.192, "dropnode": 0.229, "gmixup": 6.34, "ifmixup": 2.08,
        "gmixup_gw": 2523.78, "fgwmixup": 802.24, "fgwmixup_star": 394.57,
    },
    "NCI1": {
        "dropedge": 0.736, "dropnode": 0.810, "gmixup": 10.31, "ifmixup": 5.67,
        "gmixup_gw": 9657.48, "fgwmixup": 1711.45, "fgwmixup_star": 637.41,
    },
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Seconds:
    """Wall time of a first run, including compilation, and of a second run."""

    first: float
    again: float


@dataclasses.dataclass(frozen=True)
class MidpointFigures:
    """Seconds of a fold's midpoints and of one FGW solve in a batch, and mean outer steps."""

    fold: Seconds
    solve: float
    outer: float


def timed(run: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Seconds, Any]:
    """Run twice with the same arguments; the times of both runs, and the result."""
    times, out = [], None
    for _ in range(2):
        begin = time.perf_counter()
        out = run(*arguments, **options)
        times.append(time.perf_counter() - begin)
    return Seconds(*times), out


def first_fold(data: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Training and validation set of the first fold of the paper's protocol."""
    split = splits.holdout(data, seed=seed)[0]
    return data[split.train], data[split.validation]


def midpoint_figures(
    train: Dataset, alpha: float, start: str, key: jax.Array
) -> dict[str, MidpointFigures]:
    """FGWMixup with either solver on a fold: total time, one FGW solve, outer steps."""
    found = {}
    for name, solver in SOLVERS.items():
        method = augment.make(name, alpha=alpha, start=start)
        fold, made = timed(method, key, train)
        origins = [origin for origin in made.origins if origin is not None]
        left, right = (
            [train.graphs[origin.parents[side]] for origin in origins] for side in (0, 1)
        )
        lams = np.array([origin.lam for origin in origins])
        single, _ = timed(distances, left, right, alpha, solver, plans=False)
        # the fold's own pairs again, so that nothing new compiles, for the steps they took
        random_key = key if start == "random" else None
        mids = mixups(left, right, lams, alpha, solver, start=start, key=random_key)
        outer = float(np.mean([int(mid.num_outer) for mid in mids]))
        found[name] = MidpointFigures(fold, single.again / len(origins), outer)
    return found


def training_seconds(
    train: Dataset, valid: Dataset, backbone: str, epochs: int, key: jax.Array
) -> float:
    """Seconds of the paper's number of epochs, extrapolated from ``epochs`` of them."""
    model = backbones.make(backbone, train.num_classes)
    config = Config(epochs=epochs)
    result = None
    for _ in range(2):
        result = fit(model, train, valid, config=config, key=key)
    assert result is not None  # noqa: S101 - for the type checker
    return result.seconds * paper_epochs(backbone) / epochs


def paper_epochs(backbone: str) -> int:
    """Epochs of the paper's trainings of a backbone."""
    return Settings(dataset="NCI1", backbone=backbone).resolved()["epochs"]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def mixup_table(found: dict[tuple[str, str], dict[str, MidpointFigures]]) -> str:
    """Table 1 from (dataset, start) -> method -> figures."""
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        lines = [("paper", [paper.MIXUP_SECONDS[m].get(name) for m in SOLVERS])]
        lines += [
            (start, [figures[m].fold.again for m in SOLVERS])
            for (dataset, start), figures in found.items()
            if dataset == name
        ]
        for label, (strict, relaxed) in lines:
            if strict is not None and relaxed is not None:
                cells = f"{strict:.2f}", f"{relaxed:.2f}", f"{strict / relaxed:.2f}"
                rows.append((name, label, *cells))
    return markdown(("dataset", "", "FGWMixup", "FGWMixup*", "speed-up"), rows)


def solver_table(found: dict[tuple[str, str], dict[str, MidpointFigures]]) -> str:
    """Table 2 from (dataset, start) -> method -> figures."""
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        lines = []
        if name in PAPER_FGW:
            lines.append(("paper", PAPER_FGW[name], PAPER_OUTER[name]))
        for (dataset, start), figures in found.items():
            if dataset == name:
                star, strict = figures["fgwmixup_star"], figures["fgwmixup"]
                lines.append((start, (star.solve, strict.solve), (star.outer, strict.outer)))
        for label, solve, outer in lines:
            cells = [f"{x:.5f}" for x in solve] + [f"{x:.2f}" for x in outer]
            rows.append((name, label, *cells, f"{outer[1] / outer[0]:.2f}"))
    header = ("dataset", "", "FGW* s", "FGW s", "outer*", "outer", "fewer steps")
    return markdown(header, rows)


def method_table(
    found: dict[str, dict[str, Seconds]], training: dict[str, float], backbone: str
) -> str:
    """Table 3 from dataset -> method -> seconds."""
    methods = list(dict.fromkeys(m for row in found.values() for m in row))
    rows = []
    for name, seconds in found.items():
        if name in PAPER_METHODS:
            figures = PAPER_METHODS[name]
            cells = [f"{figures[m]:.3f}" if m in figures else "" for m in methods]
            rows.append((name, "paper", *cells, ""))
        cells = [f"{seconds[m].again:.3f}" for m in methods]
        rows.append((name, "ours", *cells, f"{training[name]:.0f}" if name in training else ""))
    return markdown(("dataset", "", *methods, f"training {backbone}"), rows)


def main(values: absl_flags.FlagValues) -> None:
    """Measure, print the tables, and write one line per figure."""
    with flags.usage_errors(values):
        check(0 <= values.alpha <= 1, f"alpha: {values.alpha} is not from 0 to 1")
        check(len(values.datasets) > 0, "datasets: empty; give at least one")
        for value in values.starts:
            check(value in STARTS, f"starts: no such name {value!r}; use {', '.join(STARTS)}")
        store = results.Store(flags.out_folder(values) / "measurements.jsonl")
        data = {n: datasets.load(n, values.data_dir) for n in values.datasets}
        folds = {n: first_fold(whole, values.seed) for n, whole in data.items()}
    key = jax.random.key(values.seed)
    midpoints: dict[tuple[str, str], dict[str, MidpointFigures]] = {}
    methods: dict[str, dict[str, Seconds]] = {}
    training: dict[str, float] = {}
    for name, whole in data.items():
        train, valid = folds[name]
        for start in values.starts:
            midpoints[name, start] = midpoint_figures(train, values.alpha, start, key)
            _write(store, values, whole, f"midpoints, start {start}", midpoints[name, start])
        methods[name] = {m: timed(augment.make(m), key, train)[0] for m in values.methods}
        _write(store, values, whole, "methods", methods[name])
        if values.epochs:
            training[name] = training_seconds(
                train, valid, values.backbone, values.epochs, jax.random.key(values.seed)
            )
            _write(store, values, whole, f"training {values.backbone}", training[name])
    print(
        f"Mixup, seconds per fold (alpha {values.alpha:g}, ratio 0.25)\n\n"
        f"{mixup_table(midpoints)}\n"
    )
    print(
        "A single FGW solve among all pairs of the fold, and outer steps of a midpoint "
        f"(* relaxed)\n\n{solver_table(midpoints)}\n"
    )
    epochs = paper_epochs(values.backbone)
    print(
        f"Every method, seconds per fold; training: {epochs} epochs of the vanilla backbone\n\n"
        f"{method_table(methods, training, values.backbone)}"
    )


def own_flags(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_list(
        "datasets", list(paper.DATASETS), "Datasets to measure.", flag_values=values
    )
    absl_flags.DEFINE_list(
        "starts",
        ["geodesic", "random"],
        "Starts of the midpoints: geodesic, random.",
        flag_values=values,
    )
    absl_flags.DEFINE_list(
        "methods",
        ["dropedge", "dropnode", "ifmixup", "gmixup", "gmixup_gw", "fgwmixup", "fgwmixup_star"],
        "Methods of the third table.",
        flag_values=values,
    )
    absl_flags.DEFINE_integer(
        "epochs",
        10,
        "Epochs to time, scaled to the paper's number; 0: do not train.",
        0,
        flag_values=values,
    )


def _write(
    store: results.Store, values: absl_flags.FlagValues, data: Dataset, what: str, figures: Any
) -> None:
    """The line of a measurement; every measurement adds a line, since times differ."""
    settings = {
        "kind": "efficiency", "what": what, "dataset": data.name, "alpha": values.alpha,
        "seed": values.seed, "data": data.fingerprint(), "time": time.time(),
    }  # fmt: skip
    if isinstance(figures, dict):
        figures = {name: dataclasses.asdict(value) for name, value in figures.items()}
    store.append(
        {
            "key": results.fingerprint(settings),
            **settings,
            "figures": figures,
            "code": fingerprints.code_fingerprint(),
            "versions": results.versions(),
        }
    )


if __name__ == "__main__":
    flags.launch(
        main,
        ["data_dir", "out", "compilation_cache", "alpha", "backbone", "seed"],
        own_flags,
        alpha=0.95,
    )
