"""Checkpoints: the state of a run in one file, written atomically and without pickle."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import flax.serialization
import jax
import numpy as np

from fgw_jax.errors import DataError, InputError
from fgw_jax.runtime import files

_FORMAT = "fgw_jax.checkpoint.2"


def fingerprint(*parts: Any) -> str:
    """SHA-256 of everything a run depends on: the bytes of arrays, the text of other parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.tobytes() if isinstance(part, np.ndarray) else str(part).encode()
        digest.update(str(len(data)).encode() + b" " + data)
    return digest.hexdigest()


def save(path: str | os.PathLike[str], owner: str, content: Any) -> None:
    """Write a tree of arrays.

    The file is written under a temporary name, flushed to disk and renamed, so that a process
    killed at any moment leaves the old checkpoint or the new one.

    Args:
        path: the file.
        owner: :func:`fingerprint` of the run.
        content: a tree of arrays.

    Raises:
        DataError: if the disk is full or read-only.
    """
    leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(content))}
    data = flax.serialization.msgpack_serialize(
        {"format": _FORMAT, "owner": owner, "leaves": leaves}
    )
    with files.whole_file(path) as file:
        file.write(data)


def load(path: str | os.PathLike[str], owner: str, like: Any) -> Any | None:
    """Read a checkpoint.

    Args:
        path: the file.
        owner: :func:`fingerprint` of the run.
        like: a tree of the structure that was saved.

    Returns:
        The tree that :func:`save` wrote, or ``None`` if there is no file.

    Raises:
        DataError: if the file is damaged.
        InputError: if it belongs to another run.
    """
    path = Path(path)
    if not path.exists():
        return None
    try:
        found = flax.serialization.msgpack_restore(path.read_bytes())
        if found["format"] != _FORMAT:
            raise ValueError(f"format {found['format']!r}")
        leaves = [found["leaves"][str(i)] for i in range(len(found["leaves"]))]
        same = found["owner"] == owner
    except Exception as error:  # msgpack raises many types of errors on a damaged file
        raise DataError(
            f"{path}: not a checkpoint, or damaged ({error}); remove it to start over"
        ) from error
    if not same:
        raise InputError(
            f"checkpoint: {path} belongs to a run with another model, data, augmentation, key or "
            "config; remove it, or give another path"
        )
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
