"""Fuzzing of the loaders: a corrupted file loads to a valid dataset or raises an error.

    python -m experiments.fuzz --mutations=10000

Corrupts small datasets in the TU and OGB layout and files of ``Dataset.save``, and MUTAG and
ogbg-molbace if --data_dir has them. Counts files that were loaded, that were refused with an error
of this package, and that ended in a foreign exception or warning (printed; there should be none);
files written outside the cache folder; and the memory above that of the idle process, which is
limited to --headroom megabytes.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import resource
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags as absl_flags

from experiments import flags
from experiments.robustness import corrupted_files
from fgw_jax import Dataset, Graph
from fgw_jax.datasets import load
from fgw_jax.errors import FgwJaxError

#: share of the mutations that go to published datasets, which take longer to read
REAL = {"MUTAG": 0.04, "ogbg-molbace": 0.01}


@dataclasses.dataclass
class Report:
    """Counts of outcomes."""

    loaded: int = 0
    refused: int = 0
    foreign: list[str] = dataclasses.field(default_factory=list)
    outside: list[str] = dataclasses.field(default_factory=list)
    peak: float = 0.0  #: megabytes above those of the process at the start
    kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def __str__(self) -> str:
        tried = self.loaded + self.refused + len(self.foreign)
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.kinds.items()))
        return (
            f"{tried} mutations ({kinds}): {self.loaded} loaded, {self.refused} refused, "
            f"{len(self.foreign)} foreign exceptions, {len(self.outside)} files outside the "
            f"cache, peak memory {self.peak:.0f} MB above the start"
        )


def check_dataset(data: Dataset) -> None:
    """Check the invariants of :class:`fgw_jax.Graph` on every graph."""
    for graph in (graph.unpad() for graph in data.graphs):
        again = Graph.from_adjacency(graph.adjacency, graph.features, measure=graph.weights)
        if not graph.num_nodes == len(graph.mask) == len(graph.structure) >= 1:
            raise AssertionError("the fields of a graph have different sizes")
        if not np.array_equal(again.adjacency, graph.adjacency):
            raise AssertionError("an adjacency is not symmetric with a zero diagonal")
        if not np.isclose(graph.weights.sum(dtype=np.float64), 1, atol=1e-5):
            raise AssertionError("node weights do not sum to one")
    if len(data.labels) != len(data) or not np.isfinite(data.soft_labels()).all():
        raise AssertionError("labels are missing or not finite")


def seeds(data_dir: Path | None) -> dict[str, corrupted_files.Seed]:
    """The datasets to corrupt, those of ``data_dir`` last."""
    found = [corrupted_files.tiny_tu(), corrupted_files.tiny_ogb()]
    for name in REAL:
        archive = None if data_dir is None else data_dir / f"{name.replace('-', '_')}.zip"
        if archive is not None and archive.is_file():
            found.append(corrupted_files.real(archive, name))
    return {seed.name: seed for seed in found}


def run(
    count: int,
    seed: int = 0,
    data_dir: Path | None = None,
    headroom: int = 1024,
    only: Sequence[str] | None = None,
) -> Report:
    """Corrupt and load ``count`` times, with the address space limited to ``headroom`` MB more.

    ``only`` names the datasets to corrupt; by default the published ones get their shares.
    """
    known, report = seeds(data_dir), Report()
    begin = peak()
    with tempfile.TemporaryDirectory() as folder, limited(headroom), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*published copies differ")
        for i in range(count):
            rng = np.random.default_rng([seed, i])
            name = _draw(rng, list(known)) if only is None else only[i % len(only)]
            _one(f"{name} {i}", known[name], rng, Path(folder) / str(i), report)
    report.peak = peak() - begin
    return report


def _one(
    title: str, seed: corrupted_files.Seed, rng: np.random.Generator, sandbox: Path, report: Report
) -> None:
    cache, outside = sandbox / "cache", sandbox / "outside"
    for place in (cache, outside):
        place.mkdir(parents=True)
    options: dict[str, Any] = {
        "verify": rng.random() < 0.3,
        "attributes": seed.name == "TINY" and rng.random() < 0.5,
        "encoding": ("scaled", "one_hot")[rng.integers(2)],
    }
    kind = seed.name
    if kind not in REAL and rng.random() < 0.1:
        kind, path = "saved", cache / "saved.npz"
        path.write_bytes(corrupted_files.TEXT[rng.integers(2)](rng, _saved(sandbox)))
    else:
        path = corrupted_files.corrupt(seed, rng, cache, outside)
        if path.suffix == ".zip" and rng.random() < 0.3:
            kind = "downloaded"
            options["urls"] = path.rename(sandbox / "published.zip").as_uri()
    before = _tree(sandbox)
    try:
        data = Dataset.load(path) if kind == "saved" else load(seed.name, cache, **options)
        check_dataset(data)
        report.loaded += 1
    except FgwJaxError:
        report.refused += 1
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        report.foreign.append(f"{title}: {type(error).__name__}: {str(error)[:300]} ({where})")
    report.kinds[kind] += 1
    allowed = {cache / f"{seed.folder}.zip"} if kind == "downloaded" else set()
    new = _tree(sandbox) - before - allowed
    report.outside += [f"{title}: {found}" for found in sorted(map(str, new))]
    shutil.rmtree(sandbox)


def _draw(rng: np.random.Generator, names: Sequence[str]) -> str:
    """A random dataset, rarely a published one."""
    at = rng.random()
    for name in names[2:]:
        if at < REAL[name]:
            return name
        at -= REAL[name]
    return names[int(rng.integers(2))]


def _saved(folder: Path) -> bytes:
    edge = Graph.from_adjacency(np.ones((2, 2)), np.ones((2, 1)))
    path = folder / "whole.npz"
    Dataset([edge, edge.pad(3)], [0, 1]).save(path)
    data = path.read_bytes()
    path.unlink()
    return data


def _tree(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@contextlib.contextmanager
def limited(megabytes: int) -> Iterator[None]:
    """At most so many megabytes of address space more than now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + (megabytes << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def peak() -> float:
    """Peak memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer("mutations", 300, "Corrupted files to try.", 1, flag_values=values)
    absl_flags.DEFINE_integer(
        "headroom", 1024, "Maximum memory of one load in megabytes.", 256, flag_values=values
    )


def main(values: absl_flags.FlagValues) -> None:
    """Fuzz, and print the counts; exit code 1 after any foreign exception or file."""
    folder = values.data_dir or os.environ.get("FGW_JAX_DATA")
    report = run(
        values.mutations, values.seed, None if folder is None else Path(folder), values.headroom
    )
    for message in (*report.foreign[:50], *report.outside[:50]):
        print(message)
    print(report)
    if report.foreign or report.outside:
        sys.exit(1)


if __name__ == "__main__":
    flags.launch(main, ["seed", "data_dir"], define)
