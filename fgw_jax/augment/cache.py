"""Made graphs on disk, keyed by everything that decides them.

A file is a dataset of made graphs (npz without pickle) whose name is a fingerprint of the training
set, the random key, every field of the method and the source code of the package: a changed solver
never reuses graphs of the one before. Processes that work on the same file write the same content,
whole or not at all, so the later one changes nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from fgw_jax.augment.drawing import key_numbers
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import DataError
from fgw_jax.fingerprints import fingerprint
from fgw_jax.runtime import files


def remember(
    folder: str | os.PathLike[str],
    method: Any,
    key: jax.Array,
    train: Dataset,
    make: Callable[[], Dataset],
) -> Dataset:
    """What ``make()`` gives, read from ``folder`` when the same was made before.

    A damaged file is made again.
    """
    path = Path(folder) / f"{digest(method, key, train)}.npz"
    if os.path.exists(path):
        with contextlib.suppress(DataError):
            return Dataset.load(path)
    files.check_writable(path)  # before the work, not after it
    made = make()
    made.save(path)  # in the place of a damaged one, if there was one
    return made


def digest(method: Any, key: jax.Array, train: Dataset) -> str:
    """Name of the file: a fingerprint of data, key, method and the code that makes the graphs."""
    return fingerprint({"data": train.fingerprint(), "key": key_numbers(key), "method": method})
