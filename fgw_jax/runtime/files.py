"""Files that take their place whole or not at all, whatever ends the process that writes them.

What is being written lies in a folder of its own beside its destination, locked while its process
lives. A killed process leaves that folder behind unlocked, and the next one to write there removes
it, so that kills do not fill the disk.
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

PREFIX = ".fgw_jax-part-"  #: of the folders in which files are written
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  #: errors of a disk that has no room
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
#: errors of the disk itself, which trying again does not mend
OF_THE_DISK = (*FULL, *_FORBIDDEN, errno.EIO)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, that is at ``path`` once the block ends well; the folder is made.

    What was there before stays if the block raises or the process is killed. What the disk
    refuses is a :class:`DataError` that names the path.

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
    """Raise the :class:`DataError` of :func:`whole_file` now if nothing can be written there."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch(path.parent):
            pass
    except OSError as error:
        raise unwritable(path, error) from error


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """An empty folder in ``parent`` that is gone at the end, or when the next one is made."""
    _remove_abandoned(parent)
    folder, lock = _locked_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def unwritable(path: Path, error: OSError) -> DataError:
    """The error of a file that the disk refused, with what to do about it."""
    if error.errno in FULL:
        return DataError(f"{path}: the disk is full ({error}); make room and run again")
    if error.errno in _FORBIDDEN:
        return DataError(
            f"{path}: cannot be written to ({error}); give another place, or allow writing there"
        )
    return DataError(f"{path}: cannot be written to ({error}); look after the disk, or give "
                     "another place")  # fmt: skip


def _locked_folder(parent: Path) -> tuple[Path, int]:
    import fcntl  # here, since solvers import this module and run where there is none

    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # taken for abandoned before it was locked
            continue
        with contextlib.suppress(OSError):  # a network disk may have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes that are no more; those of living ones are locked."""
    import fcntl

    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, or removed by another process just now
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)
