"""Cost estimates of runs.

Estimates use finished folds of the same dataset and backbone where there are any, otherwise a model
of the work, scaled by the time of a short matrix product on this machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgw_jax.augment import FGWMixup
from fgw_jax.backbones import GRAPHORMERS
from fgw_jax.datasets import Dataset
from fgw_jax.estimates import Estimate, duration, random_pairs, slowness
from fgw_jax.protocol import results
from fgw_jax.protocol.folds import FoldRunner, Job, jobs
from fgw_jax.protocol.settings import Settings
from fgw_jax.training.config import Config

#: Seconds of compilation on two idle cores; :func:`fgw_jax.estimates.slowness` scales them.
_COMPILE = {"mpnn": 10.0, "graphormer": 25.0}
#: Operations per second of training, on a machine of slowness one.
_RATE = {"vgcn": 27e9, "vgin": 30e9, "graphormer": 5.7e9, "graphormer_gd": 3.2e9}
#: Seconds of one new graph of 30 nodes; grows with the square of the nodes.
_AUGMENT = {
    "ifmixup": 2e-3, "gmixup": 5e-3, "gmixup_gw": 0.1, "gmixup_gw_star": 0.1, "gmixup_fgw": 0.1,
    "smixup": 3e-3, "geomix": 3e-3,
}  # fmt: skip
#: Factor of time of midpoints with the paper's random start over the geodesic one.
_RANDOM_START = 12.0
_AUGMENT_COMPILE = {"smixup": 10.0, "geomix": 10.0}

_LISTED = (
    "alpha", "beta_k", "step_size", "size", "start", "refresh_every", "label_noise", "num_layers",
    "batch_size", "learning_rate", "epochs", "patience",
)  # fmt: skip


def estimate(todo: Sequence[Job], store: results.Store, runner: FoldRunner) -> Estimate:
    """Estimate the cost of unfinished folds, using the results in ``store``."""
    return _estimate(todo, _rates(store.records()), runner)


def of_run(settings: Settings, data_dir: str | None = None) -> Estimate:
    """Estimate the cost of all folds of a run, without results."""
    runner = FoldRunner(data_dir)
    return _estimate(jobs([settings]), {}, runner)


def _estimate(
    todo: Sequence[Job], seen: Mapping[tuple[Any, ...], float], runner: FoldRunner
) -> Estimate:
    folds = memory = 0.0
    compiled: dict[tuple[Any, ...], float] = {}
    for job in todo:
        settings, data = job.settings, runner.data(job.settings.dataset)
        values = settings.resolved()
        train, made = _model(settings, data)
        nodes = max(graph.num_nodes for graph in data.graphs)
        cells = nodes * values["hidden"] + nodes**2 * (settings.backbone in GRAPHORMERS)
        memory = max(memory, 16.0 * values["batch_size"] * values["num_layers"] * cells)
        per_epoch = seen.get(_place(values, settings.augment), seen.get(_place(values), None))
        folds += train if per_epoch is None else per_epoch * values["epochs"]
        folds += made.seconds
        kind = "graphormer" if settings.backbone in GRAPHORMERS else "mpnn"
        compiled[settings.dataset, settings.backbone, values["num_layers"]] = _COMPILE[kind]
        compiled[settings.dataset, settings.augment] = made.compilation / slowness()
        memory = max(memory, made.memory)
    return Estimate(folds, sum(compiled.values()) * slowness(), memory)


def describe(todo: Sequence[Job], store: results.Store, runner: FoldRunner) -> str:
    """The estimate as text."""
    if not todo:
        return "all folds are finished"
    found = estimate(todo, store, runner)
    return f"about {duration(found.total)} ({duration(found.compilation)} of it compilation)"


def listing(
    runs: Sequence[Settings], todo: Sequence[Job], store: results.Store, runner: FoldRunner
) -> str:
    """One line per run with its unfinished folds and their cost, and the total."""
    lines = []
    for settings in runs:
        own = [job for job in todo if job.settings == settings]
        values = settings.resolved()
        options = ", ".join(
            f"{name}={value}" for name, value in values.items() if value and name in _LISTED
        )
        cost = duration(estimate(own, store, runner).seconds) if own else "done"
        lines.append(
            f"{settings.dataset:14} {settings.backbone:13} {settings.augment:14} "
            f"{len(own):3} of {values['folds']:2} folds  {cost:>10}  {options}"
        )
    total = estimate(todo, store, runner)
    lines.append(f"{len(runs)} runs, {len(todo)} folds to do, about {duration(total.total)}")
    return "\n".join(lines)


def _model(settings: Settings, data: Dataset) -> tuple[float, Estimate]:
    """Seconds of training and cost of augmentation of one fold, from the work."""
    values = settings.resolved()
    nodes = np.array([graph.num_nodes for graph in data.graphs], float)
    share = 0.81 if settings.resolved_protocol == "holdout" else 0.8
    width, layers = values["hidden"], values["num_layers"]
    # forward and backward: products with weights, and with the adjacency or attention matrix
    dense = 6 * nodes * width * width * (3 if settings.backbone != "vgcn" else 1)
    pairs = 6 * nodes**2 * width * (6 if settings.backbone in GRAPHORMERS else 1)
    flops = layers * (dense + pairs).sum() * share
    steps = len(nodes) * share / values["batch_size"]
    epoch = flops / _RATE[settings.backbone] + steps * 1.5e-3
    # Most folds that stop early do so soon after they may.
    epochs = min(values["epochs"], Config.patience_from + (values["patience"] or math.inf))
    count = round((values["ratio"] or 0.0) * len(nodes) * share)
    return epoch * epochs * slowness(), _augmentation(settings, nodes, count)


def _augmentation(settings: Settings, nodes: np.ndarray, count: int) -> Estimate:
    """Cost of ``count`` new graphs, times the number of draws."""
    method = settings.method()
    if isinstance(method, FGWMixup):
        found = random_pairs(nodes.astype(int), count, solver=method.solver)
        values = settings.resolved()
        draws = math.ceil(values["epochs"] / (values["refresh_every"] or math.inf))
        factor = _RANDOM_START if method.start == "random" else 1.0
        return dataclasses.replace(found, seconds=found.seconds * max(1, draws) * factor)
    seconds = _AUGMENT.get(settings.augment, 0.0) * count * float((nodes**2).mean()) / 30**2
    compilation = _AUGMENT_COMPILE.get(settings.augment, 0.0)
    return Estimate(seconds * slowness(), compilation * slowness())


def _place(values: Mapping[str, Any], augment: str = "vanilla") -> tuple[Any, ...]:
    names = ("dataset", "backbone", "num_layers", "hidden", "batch_size", "patience")
    return (*(values.get(name) for name in names), augment)


def _rates(records: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], float]:
    """Median seconds per requested epoch, by dataset, backbone and method.

    Parallel folds share the machine; early stopping makes requested epochs cheaper.
    """
    seen: dict[tuple[Any, ...], list[float]] = {}
    for record in records:
        if record.get("kind") == "fold" and record.get("epochs"):
            place = _place(record["settings"], record["settings"]["augment"])
            seconds = record["seconds"]["train"] / record.get("side_by_side", 1)
            seen.setdefault(place, []).append(seconds / record["settings"]["epochs"])
    return {place: float(np.median(values)) for place, values in seen.items()}
