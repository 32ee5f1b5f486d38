"""Many new graphs, part by part, into files: by any number of processes, stopped and resumed.

A part depends on the method, the data, the key and its number only, never on who makes it, so one
process or a thousand leave the same files bit for bit, and memory holds one part at a time. A file
is written whole or not at all; parts that are there are not made again.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import jax

from fgw_jax.augment import cache
from fgw_jax.augment.fgw_mixup import FGWMixup
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import check
from fgw_jax.runtime import files, processes

#: New graphs of a part: some seconds of work, a file of some hundred kilobytes.
PART_SIZE = 500


@dataclasses.dataclass(frozen=True)
class Part:
    """One file of new graphs.

    Attributes:
        number: place among the parts.
        count: new graphs in it.
        path: its file.
    """

    number: int
    count: int
    path: Path


def plan(
    method: FGWMixup,
    key: jax.Array,
    dataset: Dataset,
    count: int,
    folder: str | os.PathLike[str],
    part_size: int = PART_SIZE,
) -> list[Part]:
    """The parts of ``count`` new graphs and their files, whether they exist or not.

    Args:
        method: the augmentation.
        key: random key of all parts.
        dataset: the training set.
        count: new graphs in all.
        folder: where the files are.
        part_size: new graphs per part.

    >>> from fgw_jax import datasets
    >>> data = datasets.synthetic(num_graphs=10, size=6)
    >>> [part.count for part in plan(FGWMixup(), jax.random.key(0), data, 25, "new", 10)]
    [10, 10, 5]
    """
    check(
        isinstance(method, FGWMixup),
        "method: only FGWMixup makes new graphs in parts; call other methods on the dataset",
    )
    check(count >= 1, f"count: {count} new graphs; ask for at least 1")
    check(part_size >= 1, f"part_size: must be at least 1, got {part_size}")
    name = cache.digest(method, key, dataset)[:16]
    parts = []
    for number, start in enumerate(range(0, count, part_size)):
        size = min(part_size, count - start)
        parts.append(Part(number, size, Path(folder) / f"{name}-{number:07d}-{size}.npz"))
    return parts


def make(
    method: FGWMixup,
    key: jax.Array,
    dataset: Dataset,
    parts: Sequence[Part],
    *,
    progress: Callable[[Sequence[Part]], Iterable[Part]] | None = None,
) -> int:
    """Make this process's share of the missing parts.

    Args:
        method: the augmentation, as in :func:`plan`.
        key: as in :func:`plan`.
        dataset: as in :func:`plan`.
        parts: what :func:`plan` returned.
        progress: wraps the list of parts, for a bar.

    Returns:
        Number of parts this process made.
    """
    todo = [part for part in processes.share(parts) if not part.path.exists()]
    for part in todo if progress is None else progress(todo):
        files.check_writable(part.path)  # before the work, not after it
        drawn = method.draw(jax.random.fold_in(key, part.number), dataset, part.count)
        drawn.dataset.save(part.path)
    return len(todo)


def load(parts: Sequence[Part]) -> Dataset:
    """The new graphs of all parts, one dataset."""
    first, *others = (Dataset.load(part.path) for part in parts)
    return first.concatenate(*others)
