"""Datasets in the TU and OGB layout, and random ways to corrupt them.

A seed is a valid dataset as a dictionary of texts. :func:`corrupt` draws up to three changes of its
texts, its packed files or its archive and writes what comes of it into a folder, as a folder of
files or as a zip. The same generator state gives the same corruption.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import stat
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

Rng = np.random.Generator

#: what a number may turn into
NUMBERS = (
    b"0", b"-1", b"-9223372036854775808", b"9223372036854775807", b"9223372036854775808",
    b"4611686018427387904", b"1000000000000", b"4294967296", b"1e308", b"1e400", b"-1e300",
    b"1" * 400, b"1e3", b"1.0", b"1.5", b"0x10", b"1_0", b"nan", b"-inf", b"inf", b"NULL", b"",
    b" ", b"\xef\xbb\xbf1", "\u0661".encode(), b"1;2", b"'1'", b"--1", b"+1", b"1 2", b"True",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Seed:
    """A valid dataset.

    Attributes:
      name: what it is loaded by.
      folder: name of its folder or zip.
      files: text by path; paths that end in ``.gz`` are packed when written.
    """

    name: str
    folder: str
    files: dict[str, bytes]


def tiny_tu() -> Seed:
    """Six graphs with node labels, attributes of two columns, an isolated node and a loop."""
    sizes = (3, 4, 2, 5, 1, 3)
    edges, start = [], 1
    for n in sizes:
        edges += [(start + i, start + i + 1) for i in range(n - 1)]
        start += n
    edges += [(4, 6), (10, 12), (1, 1)]
    count = sum(sizes)
    texts = {
        "A": [f"{u}, {v}" for u, v in edges] + [f"{v}, {u}" for u, v in edges],
        "graph_indicator": [str(i) for i, n in enumerate(sizes, 1) for _ in range(n)],
        "graph_labels": ["1", "-1", "1", "1", "-1", "-1"],
        "node_labels": [str(i % 3) for i in range(count)],
        "node_attributes": [f"{i / 7:.3f}, {-i}" for i in range(count)],
    }
    files = {f"TINY_{part}.txt": _text(lines) for part, lines in texts.items()}
    return Seed("TINY", "TINY", files)


def tiny_ogb() -> Seed:
    """Five molecules with three atom features and a scaffold split."""
    sizes = (3, 4, 1, 2, 5)
    chains = [[f"{i},{i + 1}" for i in range(n - 1)] for n in sizes]
    texts = {
        "raw/num-node-list": [str(n) for n in sizes],
        "raw/num-edge-list": [str(n - 1) for n in sizes],
        "raw/edge": [line for chain in chains for line in chain],
        "raw/node-feat": [f"{5 + i % 3},{i % 2},{i}" for i in range(sum(sizes))],
        "raw/graph-label": ["1", "0", "1", "0", "0"],
        "split/scaffold/train": ["0", "1", "4"],
        "split/scaffold/valid": ["3"],
        "split/scaffold/test": ["2"],
    }
    files = {f"{part}.csv.gz": _text(lines) for part, lines in texts.items()}
    return Seed("ogbg-moltiny", "ogbg_moltiny", files)


def real(archive: Path, name: str) -> Seed:
    """A published dataset from its zip."""
    files = {}
    with zipfile.ZipFile(archive) as opened:
        for member in opened.namelist():
            data, inside = opened.read(member), member.partition("/")[2]
            files[inside] = gzip.decompress(data) if inside.endswith(".gz") else data
    return Seed(name, archive.stem, files)


# --- one text -------------------------------------------------------------------------------


def _flip(rng: Rng, data: bytes) -> bytes:
    """Flip bits in a few bytes."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 6)) if out else 0):
        out[rng.integers(len(out))] ^= int(rng.integers(1, 256))
    return bytes(out)


def _cut(rng: Rng, data: bytes) -> bytes:
    return data[: rng.integers(len(data) + 1)]


def _lines(change: Callable[[Rng, list[bytes]], list[bytes]]) -> Callable[[Rng, bytes], bytes]:
    def changed(rng: Rng, data: bytes) -> bytes:
        lines = data.split(b"\n")
        return b"\n".join(change(rng, lines))

    return changed


def _drop(rng: Rng, lines: list[bytes]) -> list[bytes]:
    at = rng.integers(len(lines))
    return lines[:at] + lines[at + 1 :]


def _double(rng: Rng, lines: list[bytes]) -> list[bytes]:
    at = rng.integers(len(lines))
    return lines[: at + 1] + lines[at:]


def _swap(rng: Rng, lines: list[bytes]) -> list[bytes]:
    i, j = rng.integers(len(lines), size=2)
    lines[i], lines[j] = lines[j], lines[i]
    return lines


def _number(rng: Rng, lines: list[bytes]) -> list[bytes]:
    at = rng.integers(len(lines))
    fields = lines[at].split(b",")
    fields[rng.integers(len(fields))] = NUMBERS[rng.integers(len(NUMBERS))]
    lines[at] = b",".join(fields)
    return lines


def _column(rng: Rng, lines: list[bytes]) -> list[bytes]:
    """Give every line, or one of them, another column."""
    if rng.random() < 0.5:
        return [line + b", 1" if line else line for line in lines]
    at = rng.integers(len(lines))
    lines[at] += b", 1"
    return lines


def _same_number(rng: Rng, lines: list[bytes]) -> list[bytes]:
    """One huge number in several lines, so that sums may wrap around."""
    value = NUMBERS[rng.integers(2, 8)]
    for at in rng.integers(len(lines), size=4):
        lines[at] = b",".join([value] * (lines[at].count(b",") + 1))
    return lines


def _encoding(rng: Rng, data: bytes) -> bytes:
    name = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037", "utf-7")[rng.integers(6)]
    return data.decode("latin-1").encode(name, "replace")


def _ends(rng: Rng, data: bytes) -> bytes:
    ends = (b"\r", b"\r\n", b"\n\n\n", b" \n", b"\0\n", b"\x85")
    return data.replace(b"\n", ends[rng.integers(len(ends))])


def _other(rng: Rng, data: bytes) -> bytes:
    """Unrelated content."""
    junk = (
        b"", b"\0" * 1000, b"\n" * 1000, b"<html>Please log in</html>", b"," * 1000,
        b"1" * 100_000, b"1," * 10_000 + b"1", rng.bytes(200), b"# comment\n" + data, b'"1\n2"\n',
    )  # fmt: skip
    return junk[rng.integers(len(junk))]


TEXT: tuple[Callable[[Rng, bytes], bytes], ...] = (
    _flip, _cut, _lines(_drop), _lines(_double), _lines(_swap), _lines(_number), _lines(_number),
    _lines(_number), _lines(_column), _lines(_same_number), _encoding, _ends, _other,
)  # fmt: skip


# --- the files of a dataset -----------------------------------------------------------------


def corrupt(seed: Seed, rng: Rng, folder: Path, outside: Path) -> Path:
    """Write a corrupted copy of ``seed`` into ``folder``, and return its path.

    Hostile names in archives point at ``outside``, where no file may appear.
    """
    files = {name: packed(name, text) for name, text in seed.files.items()}
    names = sorted(files)
    for _ in range(rng.choice(4, p=(0.1, 0.6, 0.2, 0.1))):
        name, kind = names[rng.integers(len(names))], rng.random()
        text = seed.files[name]
        if kind < 0.75:
            files[name] = packed(name, TEXT[rng.integers(len(TEXT))](rng, text))
        elif kind < 0.85:  # of the packed bytes, or of the text once more
            files[name] = (_flip, _cut, _other)[rng.integers(3)](rng, files.get(name, b""))
        elif kind < 0.9:
            files.pop(name, None)
        elif kind < 0.95:
            files[name] = packed(name, seed.files[names[rng.integers(len(names))]])
        else:
            files[name] = gzip.compress(files.get(name, b"")) if rng.random() < 0.5 else text
    if rng.random() < 0.5:
        return _as_folder(seed, files, rng, folder)
    return _as_zip(seed, files, rng, folder, outside)


def _as_folder(seed: Seed, files: dict[str, bytes], rng: Rng, folder: Path) -> Path:
    place = folder / seed.folder
    place.mkdir()
    strange = rng.integers(4 * len(files) + 1)
    for i, (name, data) in enumerate(files.items()):
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if i != strange:
            file.write_bytes(data)
        elif rng.random() < 0.5:
            file.mkdir()
        else:  # to itself, to nothing, to a folder, to a device that never ends
            targets = (file.name, "nowhere", ".", "/dev/zero")
            file.symlink_to(targets[rng.integers(len(targets))])
    return place


def _as_zip(seed: Seed, files: dict[str, bytes], rng: Rng, folder: Path, outside: Path) -> Path:
    buffer = io.BytesIO()
    method = (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)[
        rng.choice(4, p=(0.7, 0.2, 0.05, 0.05))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a member's name is there twice: on purpose
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, data in files.items():
                archive.writestr(f"{seed.folder}/{name}", data)
            if rng.random() < 0.4:
                _hostile_member(seed, files, rng, archive, outside)
    data = buffer.getvalue()
    if rng.random() < 0.4:
        data = (_flip, _cut, _header)[rng.integers(3)](rng, data)
    path = folder / f"{seed.folder}.zip"
    path.write_bytes(data)
    return path


def _hostile_member(
    seed: Seed, files: dict[str, bytes], rng: Rng, archive: zipfile.ZipFile, outside: Path
) -> None:
    own = [f"{seed.folder}/{name}" for name in files] or ["file"]
    inside = own[rng.integers(len(own))]
    names = (
        str(outside / "absolute"), "../outside/parent", f"{seed.folder}/../../outside/parent",
        "C:\\outside", "..\\outside\\parent", inside, inside.upper(), f"{inside}/", ".",
        "a" * 60_000, "x/" * 5000 + "deep",
    )  # fmt: skip
    member = zipfile.ZipInfo(names[rng.integers(len(names))])
    data = (b"1\n", b"\0" * (80 << 20), b"1\n" * 10_000)[rng.choice(3, p=(0.85, 0.05, 0.1))]
    member.compress_type = zipfile.ZIP_DEFLATED
    if rng.random() < 0.2:
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        data = str(outside).encode()
    if member.filename.endswith("/"):
        data = b""
    archive.writestr(member, data)


def _header(rng: Rng, data: bytes) -> bytes:
    """Lie in a header: versions, flags, methods, sizes, offsets are numbers near a signature."""
    out = bytearray(data)
    places = [
        i for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06") for i in _places(data, mark)
    ]
    for _ in range(int(rng.integers(1, 4))):
        at = places[rng.integers(len(places))] + int(rng.integers(4, 46))
        if at < len(out):
            out[at] = (0, 1, 255, int(rng.integers(256)))[rng.integers(4)]
    return bytes(out)


def _places(data: bytes, mark: bytes) -> list[int]:
    found, at = [], data.find(mark)
    while at >= 0:
        found.append(at)
        at = data.find(mark, at + 1)
    return found


def packed(name: str, text: bytes) -> bytes:
    """The bytes of a file: packed, if its name says so."""
    # no time of day in the header: the same seed gives the same bytes
    return gzip.compress(text, mtime=0) if name.endswith(".gz") else text


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()
