"""The cells of the paper's tables: which settings each cell shows, and the paper's own figure."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from experiments import paper
from fgw_jax import augment as methods
from fgw_jax.backbones import BACKBONES, GRAPHORMERS
from fgw_jax.errors import InputError
from fgw_jax.protocol.settings import SIZES, STARTS, Settings

#: methods of the main table, as it spells them
METHODS = {
    "vanilla": "vanilla",
    "dropedge": "DropEdge",
    "dropnode": "DropNode",
    "mmixup": "M-Mixup",
    "ifmixup": "ifMixup",
    "gmixup": "G-Mixup",
    "fgwmixup": "FGWMixup",
    "fgwmixup_star": "FGWMixup*",
}
#: flag spelling of a method or backbone -> its name in tables
TITLES = METHODS | {name: backbone.title for name, backbone in BACKBONES.items()}
OURS = ("fgwmixup", "fgwmixup_star")
DEPTHS = (3, 4, 5, 6, 7, 8)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a table: its row and column, its run, and the paper's figure."""

    row: str
    column: str
    settings: Settings
    paper: paper.Score | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """A table or figure of the paper.

    Attributes:
      name: value of ``--table``.
      title: caption.
      cells: its cells.
      axis: the field of :class:`Settings` that its columns vary, if any.
      plot: whether it is a figure.
      refused: why combinations without a cell have none.
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
            f"{'Graphormers' if backbone in GRAPHORMERS else 'MPNNs'}: {TITLES[method]}",
            f"{dataset} {TITLES[backbone]}",
            Settings(dataset=dataset, backbone=backbone, augment=method),
            score,
        )
        for (dataset, backbone, method), score in paper.MAIN.items()
    ]
    return Table("main", "Test accuracy, %, five datasets and four backbones", tuple(cells))


def _noise() -> Table:
    cells = [
        Cell(
            TITLES[method],
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
            f"{TITLES[backbone]}-{TITLES[method]}",
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
            f"{dataset} {TITLES[method]}",
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
        row = f"{dataset} {TITLES[backbone]}"
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
            f"{TITLES[backbone]}: {TITLES[method]}",
            dataset,
            Settings(dataset=dataset, backbone=backbone, augment=method),
            score,
        )
        for (dataset, backbone, method), score in paper.OGB.items()
    ]
    return Table("ogb", "AUROC, %, five seeds", tuple(cells))


def _mutag() -> Table:
    """The methods of the main table on MUTAG: not in the paper, but small and fast."""
    cells = [
        Cell(
            TITLES[method],
            TITLES[backbone],
            Settings(dataset="MUTAG", backbone=backbone, augment=method),
        )
        for backbone in BACKBONES
        for method in METHODS
        if not (backbone in GRAPHORMERS and method == "ifmixup")
    ]
    return Table("mutag", "Test accuracy, %, MUTAG", tuple(cells))


def _options(name: str, title: str, field: str, values: Sequence[Any], methods: Sequence[str]):
    """Values of one field on two datasets with both MPNNs."""
    cells = [
        Cell(
            f"{dataset} {TITLES[backbone]} {TITLES[method]}",
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
    """Every backbone with every method, two epochs on MUTAG, to check that they work together."""
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
        cells.append(Cell(TITLES.get(method, method), TITLES[backbone], run))
    title = "Every backbone with every method, two epochs on MUTAG"
    return Table("combinations", title, tuple(cells), refused=tuple(refused))


#: name -> tables made from results
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

#: name -> tables and figures that one command measures: the binary and its flags
COMMANDS: dict[str, tuple[str, ...]] = {
    "efficiency": ("experiments.efficiency",),
    "infeasibility": ("experiments.infeasibility",),
    "convergence": ("experiments.convergence",),
    "qualitative": ("experiments.gallery",),
}
