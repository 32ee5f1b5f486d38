"""Fingerprints of what decides a result: values, settings and the source code itself."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np


def fingerprint(parts: Any, *, root: str | os.PathLike[str] | None = None) -> str:
    """SHA-256 of some values and of the code that turns them into a result.

    Whatever is kept on disk under this name is found again only by the same values, the same
    sources of the package, the same version of JAX and the same default precision.

    Args:
        parts: dataclasses, dictionaries, lists, numbers, arrays and strings (:func:`describe`).
        root: folder of the sources; by default the installed package.

    Returns:
        64 hexadecimal digits.

    >>> fingerprint({"alpha": 0.5}) == fingerprint({"alpha": 0.6})
    False
    """
    whole = {
        "parts": describe(parts),
        "code": code_fingerprint(root),
        "jax": jax.__version__,
        "precision": str(jax.dtypes.canonicalize_dtype(np.float64)),
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def code_fingerprint(root: str | os.PathLike[str] | None = None) -> str:
    """SHA-256 of all Python sources in a folder, names included.

    Args:
        root: the folder; by default that of the installed package, read once per process.

    Returns:
        64 hexadecimal digits.
    """
    return _own_code() if root is None else _of_sources(Path(root))


@functools.cache
def _own_code() -> str:
    return _of_sources(Path(__file__).resolve().parent)


def _of_sources(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def describe(value: Any) -> Any:
    """A method, solver or number as JSON: class names, field names, exact values.

    Fields of dataclasses with the metadata ``cached=False`` decide no result and are left out.
    """
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
    if isinstance(value, dict):
        return {str(name): describe(item) for name, item in value.items()}
    return repr(value)
