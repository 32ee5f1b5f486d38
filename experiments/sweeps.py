"""The paper's tables as lists of runs: which settings stand in which cell, and what it printed.

Cells of several tables that resolve to the same settings are one run, done once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags as absl_flags

from experiments import flags, paper
from fgw_jax import augment as methods
from fgw_jax.errors import InputError, check
from fgw_jax.protocol.settings import (
    BACKBONES,
    GRAPHORMERS,
    STARTS,
    Settings,
    options_of,
    published_name,
)
from fgw_jax.protocol.summary import ResultIndex, run_key

NAMES = {
    "vanilla": "vanilla",
    "dropedge": "DropEdge",
    "dropnode": "DropNode",
    "mmixup": "M-Mixup",
    "ifmixup": "ifMixup",
    "gmixup": "G-Mixup",
    "fgwmixup": "FGWMixup",
    "fgwmixup_star": "FGWMixup*",
    "vgin": "vGIN",
    "vgcn": "vGCN",
    "graphormer": "Graphormer",
    "graphormer_gd": "GraphormerGD",
}
OURS = ("fgwmixup", "fgwmixup_star")
DEPTHS = (3, 4, 5, 6, 7, 8)
SIZES = ("adaptive", "median", "half", "double")

#: grids of the appendix
ALPHAS = (0.05, 0.5, 0.95)
STEP_SIZES = (0.1, 1.0, 10.0)
BATCH_SIZES = (32, 128)
LEARNING_RATES = (1e-3, 5e-4, 1e-4)
TUNABLE = ("alpha", "step_size", "training")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a table: its place, its run, and the paper's figure."""

    row: str
    column: str
    settings: Settings
    paper: paper.Score | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of the paper, or a figure (``plot``); ``axis`` names the field its columns vary.

    ``refused`` says why combinations that have no cell have none.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    axis: str | None = None
    plot: bool = False
    refused: tuple[str, ...] = ()


def _main() -> Table:
    cells = [
        Cell(
            f"{'Graphormers' if backbone in GRAPHORMERS else 'MPNNs'}: {NAMES[method]}",
            f"{dataset} {NAMES[backbone]}",
            Settings(dataset=dataset, backbone=backbone, augment=method),
            score,
        )
        for (dataset, backbone, method), score in paper.MAIN.items()
    ]
    return Table("main", "Test accuracy, %, five datasets and four backbones", tuple(cells))


def _noise() -> Table:
    cells = [
        Cell(
            NAMES[method],
            f"{dataset} {ratio:.0%}",
            Settings(dataset=dataset, backbone="vgcn", augment=method, label_noise=ratio),
            score,
        )
        for (dataset, method, ratio), score in paper.NOISE.items()
    ]
    return Table("noise", "Test accuracy, %, with corrupted training labels, vGCN", tuple(cells))


def _swept(name: str, title: str, field: str, scores: dict[Any, paper.Score]) -> Table:
    cells = [
        Cell(
            f"{NAMES[backbone]}-{NAMES[method]}",
            f"{dataset} {field}={value:g}",
            Settings(dataset=dataset, backbone=backbone, augment=method, **{field: value}),
            score,
        )
        for (dataset, backbone, method, value), score in scores.items()
    ]
    return Table(name, title, tuple(cells), axis=field)


def _figure(name: str, title: str, field: str, values: Sequence[Any], methods: Sequence[str]):
    cells = [
        Cell(
            f"{dataset} {NAMES[method]}",
            f"{field}={value}",
            Settings(dataset=dataset, backbone="vgcn", augment=method, **{field: value}),
        )
        for dataset in ("NCI1", "PROTEINS")
        for method in methods
        for value in values
    ]
    return Table(name, title, tuple(cells), axis=field, plot=True)


def _gmixup(name: str, title: str, datasets: Sequence[str], estimators: Sequence[str]) -> Table:
    cells = []
    for dataset, backbone in itertools.product(datasets, paper.MPNNS):
        place: dict[str, Any] = {"dataset": dataset, "backbone": backbone}
        row = f"{dataset} {NAMES[backbone]}"
        plain = Settings(augment="gmixup", **place)
        cells.append(Cell(row, "G-Mixup", plain, paper.MAIN[dataset, backbone, "gmixup"]))
        for estimator in estimators:
            label = estimator.upper().replace("_STAR", "*")
            run = Settings(augment=f"gmixup_{estimator}", **place)
            score = paper.GMIXUP.get((dataset, backbone, estimator))
            cells.append(Cell(row, f"G-Mixup+{label}", run, score))
        ours = Settings(augment="fgwmixup", **place)
        cells.append(Cell(row, "FGWMixup", ours, paper.MAIN[dataset, backbone, "fgwmixup"]))
    return Table(name, title, tuple(cells))


def _ogb() -> Table:
    cells = [
        Cell(
            f"{NAMES[backbone]}: {NAMES[method]}",
            dataset,
            Settings(dataset=dataset, backbone=backbone, augment=method),
            score,
        )
        for (dataset, backbone, method), score in paper.OGB.items()
    ]
    return Table("ogb", "AUROC, %, five seeds", tuple(cells))


def _mutag() -> Table:
    """The main table's methods on a dataset the paper has not: small, and soon done."""
    cells = [
        Cell(
            NAMES[method],
            NAMES[backbone],
            Settings(dataset="MUTAG", backbone=backbone, augment=method),
        )
        for backbone in BACKBONES
        for method in (*NAMES,)[:8]
        if not (backbone in GRAPHORMERS and method == "ifmixup")
    ]
    return Table("mutag", "Test accuracy, %, MUTAG", tuple(cells))


def _options(name: str, title: str, field: str, values: Sequence[Any], methods: Sequence[str]):
    """Values of one field side by side on two datasets with both MPNNs."""
    cells = [
        Cell(
            f"{dataset} {NAMES[backbone]} {NAMES[method]}",
            f"{field}={value}",
            Settings(dataset=dataset, backbone=backbone, augment=method, **{field: value}),
        )
        for dataset in ("PROTEINS", "IMDB-BINARY")
        for backbone in paper.MPNNS
        for method in methods
        for value in values
    ]
    return Table(name, title, tuple(cells), axis=field)


def _combinations() -> Table:
    """Every backbone with every method, shortly, on MUTAG: a check that all fit together."""
    cells, refused = [], []
    for backbone, method in itertools.product(BACKBONES, methods.METHODS):
        try:
            run = Settings(
                dataset="MUTAG", backbone=backbone, augment=method,
                num_layers=2, hidden=16, epochs=2, batch_size=32,
            )  # fmt: skip
        except InputError as error:
            refused.append(f"{backbone} {method}: {error}")
            continue
        cells.append(Cell(NAMES.get(method, method), NAMES[backbone], run))
    title = "Every backbone with every method, two epochs on MUTAG"
    return Table("combinations", title, tuple(cells), refused=tuple(refused))


#: tables made of result lines
TABLES: dict[str, Callable[[], Table]] = {
    "main": _main,
    "noise": _noise,
    "alpha": lambda: _swept("alpha", "Trade-off alpha", "alpha", paper.ALPHA),
    "size": lambda: _figure("size", "Size of the mixed graphs, vGCN", "size", SIZES, OURS),
    "depth": lambda: _figure("depth", "Layers of vGCN", "num_layers", DEPTHS, ("vanilla", *OURS)),
    "gmixup_estimators": lambda: _gmixup(
        "gmixup_estimators", "Graphon estimators of G-Mixup", ("PROTEINS",), ("gw", "gw_star")
    ),
    "gmixup_fgw": lambda: _gmixup(
        "gmixup_fgw", "G-Mixup with FGW attributed graphons", ("PROTEINS", "NCI1"), ("fgw",)
    ),
    "beta_k": lambda: _swept("beta_k", "Beta(k, k) of the mixing ratio", "beta_k", paper.BETA_K),
    "ogb": _ogb,
    "mutag": _mutag,
    "start": lambda: _options("start", "Start of the midpoints", "start", STARTS, OURS),
    "refresh": lambda: _options(
        "refresh", "Fresh midpoints every few epochs", "refresh_every", (None, 20), OURS
    ),
    "patience": lambda: _options(
        "patience", "Early stopping", "patience", (None, 50), ("vanilla",)
    ),
    "combinations": _combinations,
}

#: tables and figures that one command measures: the binary and its flags
COMMANDS: dict[str, tuple[str, ...]] = {
    "efficiency": ("experiments.efficiency",),
    "infeasibility": ("experiments.infeasibility",),
    "convergence": ("experiments.convergence",),
    "qualitative": ("experiments.gallery",),
}


def variants(settings: Settings, tune: Sequence[str]) -> list[Settings]:
    """The runs among which validation chooses: the grid of the tuned options a method has."""
    options = options_of(settings.augment)
    grid: dict[str, Sequence[float]] = {}
    if "alpha" in tune and "alpha" in options and settings.alpha is None:
        grid["alpha"] = ALPHAS
    if "step_size" in tune and "step_size" in options and settings.step_size is None:
        grid["step_size"] = STEP_SIZES
    chosen: list[dict[str, Any]] = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    return [dataclasses.replace(settings, **fields) for fields in chosen]


def training_grid(settings: Settings, **overrides: Any) -> list[Settings]:
    """Batch sizes and learning rates, tried with the vanilla method and clean labels."""
    plain = Settings(dataset=settings.dataset, backbone=settings.backbone, **overrides)
    return [
        dataclasses.replace(plain, batch_size=size, learning_rate=rate)
        for size in BATCH_SIZES
        for rate in LEARNING_RATES
    ]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs of a table and which of them fill which cell.

    Attributes:
      runs: every run once, in order of the cells.
      cells: the cells with the runs among which validation chooses.
      waiting: cells whose batch size and learning rate are not chosen yet: their grids run first.
    """

    runs: tuple[Settings, ...]
    cells: tuple[tuple[Cell, tuple[Settings, ...]], ...]
    waiting: int


def select(
    table: Table, datasets: Sequence[str], backbones: Sequence[str], augments: Sequence[str]
) -> Table:
    """The cells of some datasets, backbones and methods; an empty list keeps all."""
    return select_of([table], datasets, backbones, augments)[0]


def select_of(
    tables: Sequence[Table],
    datasets: Sequence[str],
    backbones: Sequence[str],
    augments: Sequence[str],
) -> list[Table]:
    """:func:`select` from several tables, those with such a cell; a name in none is refused."""
    wanted = {
        "dataset": [published_name(name) for name in datasets],
        "backbone": backbones,
        "augment": augments,
    }
    shown = ", ".join(table.name for table in tables)
    for field, names in wanted.items():
        known = {getattr(cell.settings, field) for table in tables for cell in table.cells}
        for name in names:
            check(
                name in known,
                f"{field}s: {shown} has no cell of {name!r}; choose from "
                f"{', '.join(sorted(known))}",
            )
    kept = []
    for table in tables:
        cells = tuple(
            cell
            for cell in table.cells
            if all(not n or getattr(cell.settings, f) in n for f, n in wanted.items())
        )
        kept += [dataclasses.replace(table, cells=cells)] if cells else []
    check(
        len(kept) > 0,
        f"table: {shown} has no cell of the given --datasets, --backbones and --augments together; "
        "name others, or none",
    )
    return kept


def plan(table: Table, lines: ResultIndex, tune: Sequence[str] = (), **overrides: Any) -> Plan:
    """Lay out a table; ``overrides`` replace fields of all settings (epochs, folds, seed, ...).

    The table's own axis is left as it is. With ``"training"`` among ``tune`` the batch size and
    learning rate of each dataset and backbone are those with the best vanilla validation, once its
    whole grid has run.
    """
    overrides.pop(table.axis or "", None)
    runs: dict[str, Settings] = {}
    cells: list[tuple[Cell, tuple[Settings, ...]]] = []
    waiting = 0
    for cell in table.cells:
        settings = dataclasses.replace(cell.settings, **overrides)
        if "training" in tune:
            grid = training_grid(settings, **overrides)
            runs |= {run_key(s): s for s in grid}
            chosen = lines.best(grid)
            if chosen is None or any(
                found is None or not found.complete for found in map(lines.find, grid)
            ):
                waiting += 1
                cells.append((cell, ()))
                continue
            settings = dataclasses.replace(
                settings,
                batch_size=chosen.settings.batch_size,
                learning_rate=chosen.settings.learning_rate,
            )
        options = variants(settings, tune)
        runs |= {run_key(s): s for s in options}
        cells.append((cell, tuple(options)))
    return Plan(tuple(runs.values()), tuple(cells), waiting)


#: fields of all settings a sweep may replace, as flags
OVERRIDES = (
    "epochs", "num_layers", "hidden", "batch_size", "learning_rate", "patience", "protocol",
    "folds",
)  # fmt: skip


def define(values: absl_flags.FlagValues) -> None:
    """Flags that sweep and tables must be given alike."""
    flags.define([*OVERRIDES, "seed"], values)
    for name in ("datasets", "backbones", "augments"):
        absl_flags.DEFINE_list(
            name, [], f"Only the cells of these {name} (default: all).", flag_values=values
        )
    absl_flags.DEFINE_list(
        "tune",
        [],
        "Choose by validation, as the appendix does: alpha in {0.05, 0.5, 0.95}, step_size in "
        "{0.1, 1, 10}, training (batch size and learning rate, on vanilla, once for each dataset "
        "and backbone). Any of alpha,step_size,training.",
        flag_values=values,
    )


def chosen(values: absl_flags.FlagValues, names: Sequence[str]) -> list[Table]:
    """The tables of those names, as far as the flags ask for them."""
    for name in names:
        known = ", ".join(TABLES)
        check(name in TABLES, f"table: no such table {name!r}; choose from {known}")
    tables = [TABLES[name]() for name in names]
    return select_of(tables, values.datasets, values.backbones, values.augments)


def overrides(values: absl_flags.FlagValues) -> dict[str, Any]:
    """What :func:`plan` takes, checked."""
    for name in values.tune:
        check(name in TUNABLE, f"tune: cannot tune {name!r}; choose from {', '.join(TUNABLE)}")
    given: dict[str, Any] = {
        name: values[name].value for name in OVERRIDES if values[name].value is not None
    }
    if "training" in values.tune:
        for name in ("batch_size", "learning_rate"):
            check(name not in given, f"{name}: --tune=training chooses it; leave one of them out")
    given["seed"] = values.seed
    return given


def check_overrides(table: Table, given: Mapping[str, Any], *, named: bool) -> None:
    """Refuse values no run of the table can have, and one for its own axis if it is ``named``."""
    check(
        not named or table.axis not in given,
        f"{table.axis}: the columns of --table={table.name} are its values; leave it out",
    )
    own = {name: value for name, value in given.items() if name != table.axis}
    for cell in table.cells:
        dataclasses.replace(cell.settings, **own)
