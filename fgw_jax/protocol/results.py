"""The results store: an append-only file with one JSON line per fold.

A line is written atomically, by one ``write`` under a file lock, so that several processes may
share the file. A process killed inside that ``write`` leaves at most an incomplete last line;
readers ignore it and the next writer truncates it. A record whose key exists is not written again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fgw_jax.errors import DataError, InputError
from fgw_jax.runtime import files

FORMAT = "fgw_jax.result.1"
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "ott-jax", "numpy", "scikit-learn")


def fingerprint(content: Any) -> str:
    """SHA-256 of JSON-compatible data; the order of dictionary keys does not matter.

    Raises:
      InputError: if ``content`` is not JSON-compatible, or not finite.

    >>> fingerprint({"a": 1, "b": [2.0]}) == fingerprint({"b": [2.0], "a": 1})
    True
    """
    return hashlib.sha256(_dumps(content).encode()).hexdigest()


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the packages a result depends on, and the machine and device."""
    import jax

    import fgw_jax

    found = {"fgw_jax": fgw_jax.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    found["device"] = str(jax.devices()[0].device_kind)
    return found


class Store:
    """An append-only file of records, each a dictionary with a unique ``"key"``.

    The file and its folder are created by the first :meth:`append`.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "results.jsonl")
    >>> store.append({"key": "a", "test": 0.75}), store.append({"key": "a", "test": 0.5})
    (True, False)
    >>> [line["test"] for line in store.records()], "a" in store
    ([0.75], True)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._records: dict[str, dict[str, Any]] = {}
        self._offset = 0
        self._line = 0
        self._inode: int | None = None

    def __contains__(self, key: object) -> bool:
        """Whether a record with this key is in the file now."""
        self._catch_up()
        return key in self._records

    def __getitem__(self, key: str) -> dict[str, Any]:
        """The record with this key."""
        self._catch_up()
        return self._records[key]

    def records(self) -> list[dict[str, Any]]:
        """All complete records, in file order."""
        self._catch_up()
        return list(self._records.values())

    def append(self, record: Mapping[str, Any]) -> bool:
        """Write a record unless its key exists.

        When this returns, the line is on disk; when it raises, the file is unchanged.

        Returns:
          Whether the record was written.

        Raises:
          InputError: if the record has no key or is not JSON-compatible.
          DataError: if the file cannot be written.
        """
        key = record.get("key")
        if not isinstance(key, str) or not key:
            raise InputError("record: needs a string under 'key'; see results.fingerprint")
        data = (_dumps({"format": FORMAT, **record}) + "\n").encode()
        with self._locked() as file:
            self._read(file)
            if key in self._records:
                return False
            size = os.fstat(file).st_size
            if size > self._offset:  # a process was killed while writing
                os.ftruncate(file, self._offset)
                size = self._offset
            try:
                if os.write(file, data) != len(data):
                    raise OSError(errno.ENOSPC, "only a part of the line could be written")
                os.fsync(file)
            except BaseException:
                os.ftruncate(file, size)
                raise
            self._read(file)
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
            finally:
                os.close(file)  # releases the lock
        except OSError as error:
            raise files.unwritable(self.path, error) from error

    def _catch_up(self) -> None:
        """Read what was appended since the last read; a missing file counts as empty."""
        try:
            file = os.open(self.path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            self._forget(None)
            return
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self._read(file)
        except OSError as error:
            raise self._unreadable(error) from error
        finally:
            os.close(file)

    def _unreadable(self, error: OSError) -> DataError:
        return DataError(f"{self.path}: cannot be read ({error}); give another file of results")

    def _read(self, file: int) -> None:
        state = os.fstat(file)
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._forget(state.st_ino)
        data = os.pread(file, state.st_size - self._offset, self._offset)
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            self._line += 1
            record = self._parse(line)
            if record is not None:
                self._records.setdefault(record["key"], record)
        self._offset += whole

    def _parse(self, line: bytes) -> dict[str, Any] | None:
        if not line.strip():
            return None
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("key"), str):
            raise DataError(
                f"{self.path}, line {self._line}: not a result; remove the line, and its fold "
                "is run again"
            )
        return record

    def _forget(self, inode: int | None) -> None:
        """Start over, after the file was replaced, truncated or removed."""
        self._records, self._offset, self._line, self._inode = {}, 0, 0, inode


def load(paths: Iterable[str | os.PathLike[str]]) -> list[dict[str, Any]]:
    """Read several files, and keep the first record of each key.

    Raises:
      DataError: if a file is missing or damaged.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        if not Path(path).is_file():
            raise DataError(f"results: no such file {path}; run an experiment with --out first")
        for record in Store(path).records():
            found.setdefault(record["key"], record)
    return list(found.values())


def _dumps(content: Any) -> str:
    try:
        return json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"record: {error}; use finite numbers, strings, lists and dictionaries"
        ) from error
