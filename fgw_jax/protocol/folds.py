"""The fold runner: dataset, splits, label noise, augmentation, training, one result per fold.

A fold depends only on its settings, the data and its number, never on earlier folds, so a run may
be stopped and resumed, or distributed over processes and machines, with the same results.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax

from fgw_jax import backbones, datasets, fingerprints
from fgw_jax.datasets import Dataset, Split, corrupt_labels, splits
from fgw_jax.errors import FgwJaxError, InputError, check
from fgw_jax.protocol import results
from fgw_jax.protocol.settings import Settings
from fgw_jax.protocol.summary import run_key
from fgw_jax.runtime import batching, parallel, processes, program_cache
from fgw_jax.training.fit import fit

Item = TypeVar("Item")

#: number of epochs from which a fold is checkpointed
WORTH_KEEPING = 100


@dataclasses.dataclass(frozen=True)
class Job:
    """One fold of one run."""

    settings: Settings
    fold: int


def jobs(runs: Iterable[Settings], max_folds: int | None = None) -> list[Job]:
    """List the folds of several runs, run by run.

    Args:
      runs: the runs.
      max_folds: take only the first folds of each run; the others can be run later, without
        repeating these.

    Raises:
      InputError: if ``max_folds`` is below 1.
    """
    check(
        max_folds is None or max_folds >= 1, f"max_folds: {max_folds} must be at least 1; raise it"
    )
    return [
        Job(settings, fold)
        for settings in runs
        for fold in range(min(settings.resolved_folds, max_folds or settings.resolved_folds))
    ]


class FoldRunner:
    """Runs single folds; loads each dataset and computes its splits once.

    Args:
      data_dir: folder of datasets, as in :func:`fgw_jax.datasets.load`.
      checkpoints: folder for checkpoints of folds in progress; ``None`` disables them.
      own: datasets that are looked up by name before those of ``data_dir``.

    >>> from fgw_jax import datasets
    >>> runner = FoldRunner(own=[datasets.synthetic(num_graphs=40).replace(name="mine")])
    >>> len(runner.splits(Settings(dataset="mine", folds=4)))
    4
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        checkpoints: str | os.PathLike[str] | None = None,
        own: Iterable[Dataset] = (),
    ) -> None:
        self.data_dir = data_dir
        self.checkpoints = None if checkpoints is None else Path(checkpoints)
        self._data = {data.name: (data, data.fingerprint()) for data in own}
        self._own = frozenset(self._data)
        self._splits: dict[tuple[str, str, int, int], list[Split]] = {}

    def data(self, name: str) -> Dataset:
        """The dataset of this name."""
        if name not in self._data:
            loaded = datasets.load(name, self.data_dir)
            self._data[name] = (loaded, loaded.fingerprint())
        return self._data[name][0]

    def splits(self, settings: Settings) -> list[Split]:
        """The split of every fold; for scaffold, the published split each time."""
        protocol, folds = settings.resolved_protocol, settings.resolved_folds
        place = (settings.dataset, protocol, folds, settings.seed)
        if place not in self._splits:
            data = self.data(settings.dataset)
            if protocol == "scaffold":
                self._splits[place] = [splits.scaffold(data)] * folds
            else:
                self._splits[place] = splits.PROTOCOLS[protocol](data, folds, settings.seed)
        return self._splits[place]

    def check(self, runs: Iterable[Settings]) -> None:
        """Load every dataset and compute every split, to report errors before any work."""
        for settings in runs:
            self.splits(settings)

    def key(self, job: Job) -> str:
        """Fingerprint of settings, data and fold: the key of its result.

        For user-provided datasets with the scaffold protocol, the split is part of it as well.
        """
        name = job.settings.dataset
        self.data(name)
        parts = {"run": job.settings.resolved(), "data": self._data[name][1], "fold": job.fold}
        if name in self._own and job.settings.resolved_protocol == "scaffold":
            split = self.splits(job.settings)[job.fold]
            parts["split"] = [x.tolist() for x in (split.train, split.validation, split.test)]
        return results.fingerprint(parts)

    def parts(self, job: Job) -> tuple[Dataset, Dataset, Dataset]:
        """Training, validation and test set of a fold, with label noise in the training set."""
        settings, data = job.settings, self.data(job.settings.dataset)
        split, noisy = self.splits(settings)[job.fold], data
        if settings.label_noise > 0:
            seed = settings.seed + 1000 * job.fold
            noisy = corrupt_labels(data, split, settings.label_noise, seed=seed)
        return noisy[split.train], noisy[split.validation], data[split.test]

    def run(self, job: Job) -> dict[str, Any]:
        """Augment, train and test one fold.

        Returns:
          The result, as a JSON-compatible dictionary.

        Raises:
          InputError: if the metric is undefined because a class is absent.
        """
        settings = job.settings
        values = settings.resolved()
        data, parts = self.data(settings.dataset), self.parts(job)
        metric, fold_key = settings.metric, self.key(job)
        result = fit(
            backbones.make(
                settings.backbone, data.num_classes, values["hidden"], values["num_layers"]
            ),
            *parts,
            config=settings.config(),
            # The same key for every method: comparisons are paired.
            key=jax.random.fold_in(jax.random.key(settings.seed), job.fold),
            augment=settings.method(),
            checkpoint=self._checkpoint(job),
        )
        if result.test is None or metric not in result.test or metric not in result.valid:
            raise InputError(
                f"dataset: {metric} is not defined on a part of fold {job.fold} of "
                f"{settings.dataset}, a class is absent; use fewer folds"
            )
        return {
            "key": fold_key,
            "kind": "fold",
            "run": run_key(settings),
            "fold": job.fold,
            "settings": values,
            "seed": settings.seed,
            "metric": metric,
            "test": result.test[metric],
            "validation": result.valid[metric],
            "best_epoch": result.best_epoch,
            "epochs": result.epochs,
            "num_train": len(parts[0]),
            "seconds": {"augment": result.augment_seconds, "train": result.seconds},
            "data": self._data[settings.dataset][1],
            "code": fingerprints.code_fingerprint(),
            "versions": results.versions(),
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }

    def forget(self, job: Job) -> None:
        """Remove the checkpoint of a fold whose result is written."""
        path = self._checkpoint(job)
        if path is not None:
            path.unlink(missing_ok=True)

    def _checkpoint(self, job: Job) -> Path | None:
        """Path of the checkpoint of a fold; ``None`` for folds too short to be worth one."""
        if self.checkpoints is None or job.settings.resolved()["epochs"] < WORTH_KEEPING:
            return None
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        return self.checkpoints / f"{self.key(job)}.ckpt"


def missing(work: Sequence[Job], store: results.Store, runner: FoldRunner) -> list[Job]:
    """The folds without a result."""
    return [job for job in work if runner.key(job) not in store]


def shard(work: Sequence[Item], num_shards: int, index: int) -> list[Item]:
    """Every ``num_shards``-th item, starting at the ``index``-th: the work of one machine.

    For machines that are not connected; connected processes use :func:`distributed.share`.

    Raises:
      InputError: if the numbers do not fit together.
    """
    check(num_shards >= 1, f"num_shards: {num_shards} must be at least 1; raise it")
    check(
        0 <= index < num_shards,
        f"shard: {index} is not from 0 to {num_shards - 1}, with num_shards={num_shards}; "
        "shards are counted from 0",
    )
    return list(work[index::num_shards])


#: Maximum number of folds trained in parallel on CPU; a step of these sizes uses one core.
MOST_WORKERS = 8


def run(
    work: Sequence[Job],
    store: results.Store,
    runner: FoldRunner,
    *,
    workers: int | None = None,
    progress: bool = False,
) -> None:
    """Run the folds without a result in parallel, and write each result as it is finished.

    A failing fold does not stop the others; its error is raised at the end.

    Args:
      work: the folds.
      store: where results are looked up and written.
      runner: datasets and splits.
      workers: number of folds trained in parallel; by default the number of cores, up to 8, on
        CPU, and one on an accelerator. Results do not depend on it.
      progress: show a progress bar.

    Raises:
      FgwJaxError: the error of the first failed fold, after all others are finished.
    """
    check(workers is None or workers >= 1, f"workers: {workers} must be at least 1")
    todo = missing(work, store, runner)
    lock = threading.Lock()
    at_once = max(1, min(workers or parallel.workers(), MOST_WORKERS, len(todo)))
    failed: list[tuple[Job, FgwJaxError]] = []

    def task(job: Job) -> tuple[Job, dict[str, Any] | None]:
        with lock:
            done = runner.key(job) in store  # by another process
        program_cache.drop_compiled_programs()  # a sweep compiles hundreds of programs
        try:
            return job, None if done else runner.run(job) | {"side_by_side": at_once}
        except FgwJaxError as error:
            failed.append((job, error))
            return job, None

    tasks = [functools.partial(task, job) for job in todo]
    with batching.progress_bar(len(tasks), progress, "folds") as advance:
        for job, line in parallel.in_parallel(tasks, at_once):
            with lock:
                written = line is not None and store.append(line)
            if written:
                runner.forget(job)
            advance(1)
    if failed:
        job, error = failed[0]
        raise type(error)(
            f"{error} (fold {job.fold} of {job.settings.dataset}, {job.settings.backbone}, "
            f"{job.settings.augment}; {len(failed)} of {len(todo)} folds failed)"
        ) from error


def exchange(work: Sequence[Job], store: results.Store, runner: FoldRunner) -> None:
    """All-gather the results of connected processes, each of which ran its part of the work.

    If the processes share a disk, the results are there already; otherwise every process ends with
    all of them.
    """
    own = [json.dumps(store[runner.key(job)]) for job in work]
    for (line,) in processes.gather([(line,) for line in own]):
        store.append(json.loads(str(line)))
