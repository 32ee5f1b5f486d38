"""Workers to be killed, and the inspection of the files they leave.

A worker writes numbered pieces into a folder and reports each when it is done. Reported pieces must
exist (otherwise they are lost), and files must be complete (otherwise torn).
"""

from __future__ import annotations

import dataclasses
import io
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.robustness import corrupted_files
from fgw_jax import Dataset, Graph
from fgw_jax.augment import cache
from fgw_jax.datasets import load
from fgw_jax.errors import FgwJaxError
from fgw_jax.protocol import results
from fgw_jax.training import checkpoints

SHARED = 12  #: pieces of work that concurrent workers share


@dataclasses.dataclass
class Outcome:
    """Counts of what killed or concurrent workers left."""

    kills: int = 0
    done: int = 0
    lost: int = 0
    torn: int = 0
    left: int = 0

    def line(self, title: str) -> str:
        """One row of the table."""
        cells = (title, *(str(number) for number in dataclasses.astuple(self)))
        return f"| {' | '.join(cells)} |"


def _download(folder: str, url: str, start: int, report: Any) -> None:
    os.environ["NO_PROXY"] = "127.0.0.1"
    load("TINY", folder, urls=[url], timeout=10)
    report.send_bytes(b"0")


def _augment(folder: str, url: str, start: int, report: Any) -> None:
    for i in range(start, start + 10_000):
        remember(folder, i)
        report.send_bytes(str(i).encode())


def _checkpoint(folder: str, url: str, start: int, report: Any) -> None:
    for i in range(start, start + 10_000):
        checkpoints.save(Path(folder) / "state", "owner", state(i))
        report.send_bytes(str(i).encode())


def _append(folder: str, url: str, start: int, report: Any) -> None:
    store = results.Store(Path(folder) / "results.jsonl")
    for i in range(start, start + 10_000):
        store.append({"key": str(i), "padding": "x" * 20_000})
        report.send_bytes(str(i).encode())


def together(kind: str, folder: str, url: str, barrier: Any) -> None:
    """One of several concurrent workers: every worker writes every shared piece."""
    barrier.wait()
    for i in range(SHARED):
        if kind == "download":
            _download(folder, url, 0, _Silent())
        elif kind == "augment":
            remember(folder, i)
        elif kind == "checkpoint":
            checkpoints.save(Path(folder) / "state", "owner", state(i))
        else:
            for key in (str(i), f"{os.getpid()}-{i}"):
                results.Store(Path(folder) / "results.jsonl").append({"key": key, "x": "x" * 5000})


class _Silent:
    def send_bytes(self, data: bytes) -> None:
        """Report nothing."""


KINDS: dict[str, Callable[[str, str, int, Any], None]] = {
    "download": _download,
    "augment": _augment,
    "checkpoint": _checkpoint,
    "append": _append,
}


def made(i: int) -> Dataset:
    """Dataset number ``i``, large enough to be killed while it is written."""
    rng = np.random.default_rng(i)
    features = rng.normal(size=(60, 30, 8))
    return Dataset([Graph.from_adjacency(np.zeros((30, 30)), x) for x in features], [0] * 60)


def state(i: int) -> dict[str, np.ndarray]:
    """Checkpoint number ``i``: one constant everywhere, so that mixtures are detected."""
    return {"count": np.full(1, i), "weights": np.full(200_000, i, np.float32)}


def remember(folder: str | Path, i: int, make: Callable[[], Dataset] | None = None) -> None:
    """Dataset number ``i``, from the cache in ``folder`` or computed now."""
    cache.remember(folder, None, _key(i), _train(), make or (lambda: made(i)))


def _key(i: int) -> Any:
    return np.array([0, i], np.uint32)


def _train() -> Dataset:
    return Dataset([Graph.from_adjacency(np.zeros((1, 1)))], [0])


def look(kind: str, folder: Path, reported: Sequence[int], outcome: Outcome) -> int:
    """Count lost and torn pieces.

    Returns:
        The number at which the next worker resumes.
    """
    wanted = set(reported)
    if kind == "download":
        path = folder / "TINY.zip"
        if path.exists():
            outcome.torn += path.read_bytes() != archive()
            path.unlink()  # so that the next worker downloads again
        else:
            outcome.lost += len(wanted)
        return 0
    if kind == "augment":
        there = {_place(folder, i): i for i in range(max(wanted, default=0) + 2)}
        outcome.lost += sum(not _place(folder, i).exists() for i in wanted)
        for path in folder.glob("*.npz"):
            try:
                whole = Dataset.load(path).fingerprint() == made(there[path]).fingerprint()
            except FgwJaxError:
                whole = False
            outcome.torn += not whole
        return max(wanted, default=0) + 1
    if kind == "checkpoint":
        try:
            found = checkpoints.load(folder / "state", "owner", state(0))
        except FgwJaxError:
            outcome.torn += 1
            return max(wanted, default=0) + 1
        count = -1 if found is None else int(found["count"][0])
        outcome.lost += count < max(wanted, default=-1)
        outcome.torn += found is not None and not bool((found["weights"] == count).all())
        return max(count, 0) + 1
    records = results.Store(folder / "results.jsonl").records()
    keys = [int(record["key"]) for record in records]
    outcome.lost += len(wanted - set(keys))
    outcome.torn += len(keys) - len(set(keys))
    return max(keys, default=0) + 1


def _place(folder: Path, i: int) -> Path:
    return folder / f"{cache.digest(None, _key(i), _train())}.npz"


def archive() -> bytes:
    """The zip of the server: a dataset and 50 kB that do not compress."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for name, text in corrupted_files.tiny_tu().files.items():
            opened.writestr(zipfile.ZipInfo(f"TINY/{name}"), text)
        opened.writestr(zipfile.ZipInfo("TINY/README"), np.random.default_rng(0).bytes(50_000))
    return buffer.getvalue()
