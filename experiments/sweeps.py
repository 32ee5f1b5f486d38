"""Sweeps over the paper's tables: runs, tuning grids, and the flags that select them.

Cells of several tables that resolve to the same settings are one run, done once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags as absl_flags

from experiments import flags
from experiments.table_cells import TABLES, Cell, Table
from fgw_jax.errors import check
from fgw_jax.protocol.settings import Settings, options_of, published_name
from fgw_jax.protocol.summary import ResultIndex, run_key

#: grids of the appendix
ALPHAS = (0.05, 0.5, 0.95)
STEP_SIZES = (0.1, 1.0, 10.0)
BATCH_SIZES = (32, 128)
LEARNING_RATES = (1e-3, 5e-4, 1e-4)
TUNABLE = ("alpha", "step_size", "training")


def variants(settings: Settings, tune: Sequence[str]) -> list[Settings]:
    """The grid over the tuned options of a method, from which validation selects."""
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
    """The grid over batch sizes and learning rates, without augmentation or label noise."""
    plain = Settings(dataset=settings.dataset, backbone=settings.backbone, **overrides)
    return [
        dataclasses.replace(plain, batch_size=size, learning_rate=rate)
        for size in BATCH_SIZES
        for rate in LEARNING_RATES
    ]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs of a table, and which of them fill which cell.

    Attributes:
      runs: every run once, in order of the cells.
      cells: the cells, each with the runs from which validation selects.
      waiting: number of cells whose batch size and learning rate are not selected yet, because
        their grids run first.
    """

    runs: tuple[Settings, ...]
    cells: tuple[tuple[Cell, tuple[Settings, ...]], ...]
    waiting: int


def select(
    table: Table, datasets: Sequence[str], backbones: Sequence[str], augments: Sequence[str]
) -> Table:
    """The cells of some datasets, backbones and methods; an empty list selects all."""
    return select_of([table], datasets, backbones, augments)[0]


def select_of(
    tables: Sequence[Table],
    datasets: Sequence[str],
    backbones: Sequence[str],
    augments: Sequence[str],
) -> list[Table]:
    """Apply :func:`select` to several tables.

    Returns:
        The tables that have such cells.

    Raises:
        InputError: if a name is in no cell, or no cell is left.
    """
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


def plan(table: Table, index: ResultIndex, tune: Sequence[str] = (), **overrides: Any) -> Plan:
    """List the runs of a table.

    Args:
        table: the table.
        index: results so far, for tuned options.
        tune: names from :data:`TUNABLE`. With ``"training"``, the batch size and learning rate of
            each dataset and backbone are those with the best vanilla validation, once the whole
            grid has run.
        overrides: fields to replace in all settings (epochs, folds, seed, ...), except the axis of
            the table.

    Returns:
        The runs, and the cells they fill.
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
            chosen = index.best(grid)
            if chosen is None or any(
                found is None or not found.complete for found in map(index.find, grid)
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


#: flags that replace fields of all settings
OVERRIDES = (
    "epochs", "num_layers", "hidden", "batch_size", "learning_rate", "patience", "protocol",
    "folds",
)  # fmt: skip


def define(values: absl_flags.FlagValues) -> None:
    """Flags that `sweep` and `tables` share."""
    flags.define([*OVERRIDES, "seed"], values)
    for name in ("datasets", "backbones", "augments"):
        absl_flags.DEFINE_list(
            name, [], f"Only the cells of these {name} (default: all).", flag_values=values
        )
    absl_flags.DEFINE_list(
        "tune",
        [],
        "Select by validation, as in the appendix: alpha in {0.05, 0.5, 0.95}, step_size in "
        "{0.1, 1, 10}, training (batch size and learning rate, on vanilla, for each dataset and "
        "backbone). Any of alpha,step_size,training.",
        flag_values=values,
    )


def chosen(values: absl_flags.FlagValues, names: Sequence[str]) -> list[Table]:
    """The tables of these names, with the cells that the flags select."""
    for name in names:
        known = ", ".join(TABLES)
        check(name in TABLES, f"table: no such table {name!r}; choose from {known}")
    tables = [TABLES[name]() for name in names]
    return select_of(tables, values.datasets, values.backbones, values.augments)


def overrides(values: absl_flags.FlagValues) -> dict[str, Any]:
    """The overrides for :func:`plan`, checked."""
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
    """Refuse values that a run of the table cannot have, and its axis if the table is ``named``."""
    check(
        not named or table.axis not in given,
        f"{table.axis}: the columns of --table={table.name} are its values; leave it out",
    )
    own = {name: value for name, value in given.items() if name != table.axis}
    for cell in table.cells:
        dataclasses.replace(cell.settings, **own)
