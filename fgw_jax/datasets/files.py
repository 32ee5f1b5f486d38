"""The files of one dataset, in a folder or in a zip, and the tables of numbers they hold.

A zip is read in memory, member by member, and never unpacked onto the disk, so nothing in it
can be written outside its folder; names that try are refused all the same. What a zip or a gz
file may grow to is bounded before it is read.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import itertools
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fgw_jax.errors import DataError

_LARGEST = 4 << 30  # bytes
#: what zipfile and gzip raise on damaged input; struct.error where a header is cut short
_DAMAGE = (
    OSError, EOFError, ValueError, IndexError, RuntimeError, struct.error, zlib.error,
    zipfile.BadZipFile,
)  # fmt: skip
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_REMEDY = "get the dataset again, or correct the file"


@dataclasses.dataclass(frozen=True)
class Table:
    """Numbers of one text file.

    Attributes:
      values: ``[rows, columns]``, blank lines left out.
      where: the file, as an error names it.
      text: its bytes, kept to find the line of a row.
    """

    values: np.ndarray
    where: str
    text: bytes

    def __len__(self) -> int:
        return len(self.values)

    def column(self) -> np.ndarray:
        """The only column, ``[rows]``."""
        return self.values[:, 0]

    def refuse(self, bad_rows: Any, reason: str) -> None:
        """Raise a :class:`DataError` that names the first line of ``bad_rows`` ``[rows]``."""
        if bad_rows.any():
            row = int(np.argmax(bad_rows))
            lines = (i for i, line in enumerate(io.BytesIO(self.text), 1) if line.strip())
            number = next(itertools.islice(lines, row, None))
            raise DataError(f"{self.where}, line {number}: {reason}; {_REMEDY}")

    def expect_rows(self, count: int, what: str) -> None:
        """Raise a :class:`DataError` unless there are ``count`` rows, one for each ``what``."""
        if len(self) != count:
            raise DataError(
                f"{self.where}: {len(self)} lines where there are {count} {what}; {_REMEDY}"
            )


class Files:
    """The files beside ``marker``, in a folder or a zip.

    Args:
      path: the folder or zip.
      marker: a file that must be there, such as ``"NCI1_A.txt"``; the others are looked for
        beside it, wherever in ``path`` it lies.
    """

    def __init__(self, path: Path, marker: str) -> None:
        self.path = path
        if path.is_dir():
            found = [p.relative_to(path).as_posix() for p in path.rglob(marker) if p.is_file()]
        else:
            self._sizes = _checked_members(path)
            found = [m for m in self._sizes if f"/{m}".endswith(f"/{marker}")]
        if not found:
            raise DataError(f"{path}: holds no file {marker}; {_REMEDY}")
        self._root = min(found, key=len).removesuffix(marker)

    def read(self, name: str) -> bytes | None:
        """Content of a file, unpacked if its name ends in ``.gz``; ``None`` if it is not there."""
        try:
            data = self._read(self._root + name)
            return gunzip(data) if data is not None and name.endswith(".gz") else data
        except zipfile.BadZipFile as error:
            raise DataError(f"{self._where(name)}: damaged ({error}); {_REMEDY}") from error
        except _DAMAGE as error:
            raise DataError(f"{self._where(name)}: cannot be read ({error}); {_REMEDY}") from error

    def table(self, name: str, dtype: Any, columns: int | None = None) -> Table:
        """Read a table of comma-separated numbers; see :func:`parse`."""
        table = self.optional_table(name, dtype, columns)
        if table is None:
            raise DataError(f"{self.path}: the file {name} is missing; {_REMEDY}")
        return table

    def optional_table(self, name: str, dtype: Any, columns: int | None = None) -> Table | None:
        """The same, or ``None`` when there is no such file."""
        data = self.read(name)
        return None if data is None else parse(data, self._where(name), dtype, columns)

    def _read(self, name: str) -> bytes | None:
        if self.path.is_dir():
            file = self.path / name
            if not file.is_file():
                return None
            if file.stat().st_size > _LARGEST:
                raise OSError(f"more than {_LARGEST} bytes")
            return file.read_bytes()
        if name not in self._sizes:
            return None
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(name)

    def _where(self, name: str) -> str:
        return str(self.path / (self._root + name))


def gunzip(data: bytes) -> bytes:
    """Unpack gz bytes up to a bound; beyond it, ``OSError``."""
    bound = _bound(len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        out = file.read(bound + 1)
    if len(out) > bound:
        raise OSError(f"unpacks to more than {bound} bytes")
    return out


def parse(data: bytes, where: str, dtype: Any, columns: int | None = None) -> Table:
    r"""Parse comma-separated numbers; any line ends read alike, blank lines are skipped.

    Args:
      data: the text.
      where: what an error calls the file.
      dtype: ``np.int64``, or ``np.float64`` for finite decimals.
      columns: numbers a line, or ``None`` to take the first line's count.

    >>> parse(b"1, 2\r\n3,4\r\n", "a.txt", np.int64).values.tolist()
    [[1, 2], [3, 4]]
    """
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not text.strip():
        return Table(np.zeros((0, columns or 1), dtype), where, text)
    try:
        values = np.loadtxt(io.BytesIO(text), dtype, delimiter=",", comments=None, ndmin=2)
    except ValueError:
        values = _parse_slowly(text, where, dtype)
    if columns is not None and values.shape[1] != columns:
        raise DataError(f"{where}: {values.shape[1]} columns, expected {columns}; {_REMEDY}")
    table = Table(values, where, text)
    table.refuse(~np.isfinite(values).all(1), "NaN or infinite number")
    return table


def _parse_slowly(text: bytes, where: str, dtype: Any) -> np.ndarray:
    """Names the line at fault; where none is, these are whole numbers written as ``1.0``."""
    whole = np.issubdtype(dtype, np.integer)
    columns = 0
    for number, line in enumerate(io.BytesIO(text), 1):
        if not line.strip():
            continue
        here = f"{where}, line {number}"
        fields = line.split(b",")
        for field in fields:
            shown = field[:40].decode("ascii", "backslashreplace").strip()
            try:
                value = float(field)
            except ValueError as error:
                raise DataError(f"{here}: {shown!r} is not a number; {_REMEDY}") from error
            if whole and not (value.is_integer() and abs(value) < 2**53):
                raise DataError(f"{here}: {shown!r} is not a whole number; {_REMEDY}")
        columns = columns or len(fields)
        if len(fields) != columns:
            raise DataError(
                f"{here}: {len(fields)} columns where the lines above have {columns}; {_REMEDY}"
            )
    try:
        # Read as floats only now, so that a large file is never held as Python numbers.
        lines = (line for line in io.BytesIO(text) if line.strip())
        values = np.loadtxt(lines, np.float64, delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        told = str(error)[:200]
        raise DataError(f"{where}: not a table of numbers ({told}); {_REMEDY}") from error
    return values.astype(dtype)


def _bound(packed: int) -> int:
    """Bytes a file of ``packed`` bytes may unpack to; TU and OGB files reach a factor of 30."""
    return min(_LARGEST, (64 << 20) + 100 * packed)


def _checked_members(path: Path) -> dict[str, int]:
    """Names and sizes of the files in a zip, after a look at what they claim."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except _DAMAGE as error:
        raise DataError(f"{path}: not a zip, or cut short ({error}); {_REMEDY}") from error
    for member in members:
        if not member.filename or member.compress_type not in _METHODS:
            raise DataError(
                f"{path}: the member {member.filename[:80]!r} has no name, or is packed by a "
                f"method other than deflate; {_REMEDY}"
            )
        inside = PurePosixPath(member.filename)
        escapes = inside.is_absolute() or ".." in inside.parts or "\\" in member.filename
        if escapes or ":" in member.filename or stat.S_ISLNK(member.external_attr >> 16):
            raise DataError(
                f"{path}: the member {member.filename[:80]!r} points outside the archive; "
                "do not use this file, get it from the publisher"
            )
    total = sum(m.file_size for m in members)
    bound = _bound(path.stat().st_size)
    if total > bound:
        raise DataError(
            f"{path}: would unpack to {total} bytes, more than the {bound} allowed for its size; "
            "do not use this file, get it from the publisher"
        )
    return {m.filename: m.file_size for m in members if not m.is_dir()}
