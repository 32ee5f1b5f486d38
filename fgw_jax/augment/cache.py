"""Made graphs on disk, keyed by everything that decides them.

A file is a dataset of made graphs (npz without pickle) whose name is a digest of the training
set's fingerprint, the random key, every field of the method and the version of the package. Two
processes that meet write the same content, whole or not at all, so the later one changes nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fgw_jax
from fgw_jax import storage
from fgw_jax.augment.drawing import key_numbers
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import DataError


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
    storage.check_writable(path)  # before the work, not after it
    made = make()
    made.save(path)  # in the place of a damaged one, if there was one
    return made


def digest(method: Any, key: jax.Array, train: Dataset) -> str:
    """Name of the file: SHA-256 over data, key, method and version."""
    parts = {
        "version": fgw_jax.__version__,
        "jax": [str(jax.dtypes.canonicalize_dtype(np.float64))],
        "data": train.fingerprint(),
        "key": key_numbers(key),
        "method": describe(method),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def describe(value: Any) -> Any:
    """A method, solver or number as JSON: class names, field names, exact values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: describe(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.metadata.get("cached", True)
        }
        return {"class": type(value).__qualname__, "fields": fields}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.ndarray | np.generic | jax.Array):
        return np.asarray(value, np.float64).tolist()
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    return repr(value)
