"""Atomic writes: a file is replaced completely or not at all, even if its process is killed.

Content is written in a separate folder beside the destination, locked while its process lives. A
killed process leaves that folder unlocked, and the next process that writes there removes it, so
that kills do not fill the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fgw_jax.errors import DataError

PREFIX = ".fgw_jax-part-"  #: names of folders in which files are written
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  #: errors of a full disk
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
#: errors of the disk, which a second attempt does not fix
OF_THE_DISK = (*FULL, *_FORBIDDEN, errno.EIO)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that appears at ``path`` when the block ends without an error.

    The previous content stays if the block raises or the process is killed. Missing folders are
    created.

    Args:
        path: destination.

    Raises:
        DataError: if the file cannot be written; the message names the path.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with whole_file(folder / "new" / "file") as file:
    ...     _ = file.write(b"content")
    >>> [p.name for p in (folder / "new").iterdir()]
    ['file']
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch(path.parent) as folder:
            part = folder / path.name
            with part.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
    except OSError as error:
        raise unwritable(path, error) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the :class:`DataError` of :func:`whole_file` now if ``path`` cannot be written."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch(path.parent):
            pass
    except OSError as error:
        raise unwritable(path, error) from error


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A temporary folder in ``parent``, removed at the end, or by the next call after a kill."""
    _remove_abandoned(parent)
    folder, lock = _locked_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def unwritable(path: Path, error: OSError) -> DataError:
    """The error of a file that could not be written, with advice."""
    if error.errno in FULL:
        return DataError(f"{path}: the disk is full ({error}); free some space and run again")
    if error.errno in _FORBIDDEN:
        return DataError(
            f"{path}: cannot be written to ({error}); choose another path, or allow writing there"
        )
    return DataError(f"{path}: cannot be written to ({error}); check the disk, or choose "
                     "another path")  # fmt: skip


def _locked_folder(parent: Path) -> tuple[Path, int]:
    import fcntl  # missing on Windows, where datasets must still be importable

    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another process removed it before it was locked
            continue
        with contextlib.suppress(OSError):  # a network disk may have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of dead processes; those of living ones are locked."""
    import fcntl

    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, or removed by another process
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)
