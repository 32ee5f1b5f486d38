"""Processes on one machine, one core each: seconds of the same midpoints.

    python -m experiments.benchmark --suite=processes --data_dir=FOLDER --out=FOLDER

FGWMixup draws ``--num_new`` midpoints of a dataset by one process, then by several that share them
(``across_processes``), each bound to a separate core; seconds are from the moment all are ready
until all hold all graphs, compilation apart (a first draw), the least of ``--repeats``. Written to
``processes.md``.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from absl import flags as absl_flags

from experiments import flags
from experiments.benchmarks.distance import markdown

SHARED = ("dataset", "data_dir", "out", "compilation_cache")
ROOT = Path(__file__).resolve().parents[2]


def measure(
    count: int, num_new: int, repeats: int, dataset: str, data_dir: str | None, cache: str | None
) -> dict[str, Any]:
    """Seconds of ``num_new`` midpoints by ``count`` processes, each on a separate core."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        address = f"localhost:{one.getsockname()[1]}"
    environment = dict(os.environ)
    if cache is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = cache
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
    processes = [
        subprocess.Popen(  # noqa: S603
            [
                sys.executable, "-m", "experiments.benchmarks.processes",
                json.dumps([address, count, number, num_new, repeats, dataset, data_dir]),
            ],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]  # fmt: skip
    texts = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("processes: one of them failed; its message stands above")
    return {"processes": count, "midpoints": num_new} | json.loads(texts[0].splitlines()[-1])


def process(
    address: str,
    count: int,
    number: int,
    num_new: int,
    repeats: int,
    dataset: str,
    data_dir: str | None,
) -> dict[str, Any]:
    """The work of one process."""
    if hasattr(os, "sched_setaffinity"):  # before JAX counts the cores
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    import jax

    from fgw_jax import augment, datasets
    from fgw_jax.runtime import processes

    processes.initialize(address, count, number)
    data = datasets.load(dataset, data_dir)
    method = augment.FGWMixup(across_processes=True)
    seconds = []
    for _ in range(1 + repeats):
        processes.wait("ready")
        begin = time.perf_counter()
        made = method.draw(jax.random.key(0), data, num_new).dataset
        processes.wait("done")
        seconds.append(time.perf_counter() - begin)
    best = min(seconds[1:])
    return {"s": best, "first draw s": seconds[0], "graphs": made.fingerprint()[:12]}


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this suite."""
    absl_flags.DEFINE_integer("num_new", 2000, "Midpoints.", 1, flag_values=values)
    absl_flags.DEFINE_integer("repeats", 2, "Draws that are timed.", 1, flag_values=values)
    absl_flags.DEFINE_list("counts", ["1", "2"], "Numbers of processes.", flag_values=values)


def main(values: absl_flags.FlagValues) -> None:
    """Measure and write ``processes.md``."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
        counts = flags.whole_numbers(values, "counts")
    rows: list[dict[str, Any]] = []
    given = (values.num_new, values.repeats, values.dataset, values.data_dir)
    for count in counts:
        row = measure(count, *given, values.compilation_cache)
        rows.append(row | {"to the first": row["s"] / (rows[0]["s"] if rows else row["s"])})
        print(markdown(rows[-1:]), flush=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / "processes.md").write_text(f"{values.dataset}\n\n{markdown(rows)}\n")
    print(f"\n{markdown(rows)}\n\n{out / 'processes.md'}")


if __name__ == "__main__":  # one process of several
    print(json.dumps(process(*json.loads(sys.argv[1]))))
