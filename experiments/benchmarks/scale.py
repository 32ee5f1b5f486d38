"""Growth: time and memory against number of pairs, size of graphs, devices; and large graphs.

    python -m experiments.benchmark --suite=scale --out=FOLDER

Every row is measured in a separate process, so that memory is that of the row alone: by how much
the peak of the whole list is above what the process held after its first few pairs (inputs made,
programs compiled, a chunk in work), less what the results hold. Random sparse graphs, mean degree
3, four kinds of nodes, seed 0. Parts:

- ``pairs``: ``distances`` without plans, against the number of pairs;
- ``midpoints``: ``mixups``, against the number of pairs;
- ``sizes``: ``distances``, against the nodes of both graphs;
- ``devices``: ``mixups`` on virtual devices of the same cores;
- ``large``: one pair of sparse graphs, beside POT's conditional gradient up to ``--pot_nodes``.

Exponents are slopes of log time over log count or size. Written to ``scale.md`` and ``scale.png``.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags as absl_flags

from experiments import flags
from experiments.benchmarks.distance import markdown
from fgw_jax.errors import check

SHARED = ("out", "compilation_cache")
PARTS = ("pairs", "midpoints", "sizes", "devices", "large")
#: nodes of the graphs whose number grows
NODES = 24
#: minimum seconds of measurement per row
LEAST = 2.0


def random_graph(rng: np.random.Generator, nodes: int, sparse: bool = False) -> Any:
    """A graph of mean degree 3 and four kinds of nodes."""
    from fgw_jax import Graph, large

    edges = rng.integers(nodes, size=(3 * nodes // 2, 2))
    kinds = np.eye(4)[rng.integers(4, size=nodes)]
    edges = edges[edges[:, 0] != edges[:, 1]]
    return (large.SparseGraph if sparse else Graph).from_edges(edges, nodes, features=kinds)


def resident() -> int:
    """Bytes of memory the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak_ever() -> int:
    """The most bytes the process ever held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Peak:
    """The most memory held while a block runs, sampled every few milliseconds."""

    def __enter__(self) -> Peak:
        self.most, self._done = resident(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.most = max(self.most, resident())

    def __exit__(self, *_: object) -> None:
        self.most = max(self.most, resident())
        self._done.set()
        self._thread.join()


def measured(
    work: Callable[[int], Any], count: int, size_of: Callable[[Any], int], repeats: int
) -> dict[str, Any]:
    """Least seconds of ``work(count)``, by the clock and of all cores; memory beside the results.

    A few chunks go first, which compiles; ``repeats`` whole lists are timed, and more of a list so
    short that they are over within :data:`LEAST`.
    """
    import jax

    begin = time.perf_counter()
    work(min(count, 64 * jax.local_device_count()))
    compiling = time.perf_counter() - begin
    before = resident()
    seconds, on_cores, memory = np.inf, np.inf, 0.0
    begun = time.perf_counter()
    for number in itertools.count():
        if number >= repeats and time.perf_counter() - begun > LEAST:
            break
        with Peak() as peak:
            begin, cores = time.perf_counter(), time.process_time()
            result = work(count)
            seconds = min(seconds, time.perf_counter() - begin)
            on_cores = min(on_cores, time.process_time() - cores)
        if number == 0:  # later ones find what the first has freed
            memory = max(0.0, peak.most - before - size_of(result))
        del result
    return {"s": seconds, "core s": on_cores, "compiling s": compiling, "MB": memory / 1e6}


def worker(part: str, count: int, nodes: int, repeats: int) -> dict[str, Any]:
    """Measure one row in this process."""
    from fgw_jax import Relaxed, distances, large, mixups

    rng = np.random.default_rng(0)
    if part in ("large", "pot"):
        begun = resident()
        pair = [random_graph(rng, nodes, sparse=True) for _ in range(2)]
        if part == "pot":
            return _pot(*pair)
        out: list[Any] = []

        def once(_: int) -> Any:
            out[:] = [large.distance(*pair)]
            return float(out[0].value)

        row = measured(once, 1, lambda _: 0, repeats)
        # Of one pair the first call holds as much as the next: all above the process with JAX.
        return row | {"MB": (peak_ever() - begun) / 1e6, "value": float(out[0].value)}
    # So many that few pairs occur twice: midpoints of equal pairs share their alignment.
    pool = [random_graph(rng, nodes) for _ in range(min(2 * count, 2000))]
    first, second = rng.integers(len(pool), size=(2, count))
    left, right = [pool[i] for i in first], [pool[i] for i in second]
    solver = Relaxed()
    if part in ("midpoints", "devices"):
        lams = rng.random(count)
        mix = lambda n: mixups(left[:n], right[:n], lams[:n], solver=solver)  # noqa: E731
        return measured(mix, count, _held, repeats)
    work = lambda n: distances(left[:n], right[:n], solver=solver, plans=False)  # noqa: E731
    return measured(work, count, lambda out: 8 * out.value.nbytes, repeats)


def _held(mids: Any) -> int:
    """Bytes of the arrays of midpoints, each a separate object."""
    import jax

    return sum(sys.getsizeof(leaf) for mid in mids for leaf in jax.tree.leaves(mid))


def _pot(graph1: Any, graph2: Any) -> dict[str, Any]:
    """POT's conditional gradient on the same pair, dense, in double precision."""
    import ot

    cost = ((graph1.features[:, None] - graph2.features[None]) ** 2).sum(-1)
    structures = [graph.adjacency.toarray().astype(np.float64) for graph in (graph1, graph2)]
    with Peak() as peak:
        before, begin, cores = resident(), time.perf_counter(), time.process_time()
        value = ot.gromov.fused_gromov_wasserstein2(cost, *structures, alpha=0.95, tol_rel=1e-5)
        row = {"s": time.perf_counter() - begin, "core s": time.process_time() - cores}
    memory = max(0, peak.most - before) / 1e6
    return row | {"compiling s": 0.0, "MB": memory, "value": float(value)}


def row(
    part: str, count: int, nodes: int, devices: int, cache: str | None, repeats: int = 2
) -> dict[str, Any]:
    """Measure one row in a separate process."""
    environment = dict(os.environ)
    kept = environment.get("XLA_FLAGS", "")
    environment["XLA_FLAGS"] = f"{kept} --xla_force_host_platform_device_count={devices}".strip()
    if cache is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = cache
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
    given = [part, count, nodes, repeats]
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "experiments.benchmarks.scale", *map(str, given)],
        env=environment,
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(f"scale: a row failed: {result.stderr[-2000:]}")
    measured_row = json.loads(result.stdout.splitlines()[-1])
    found = {"part": part, "pairs": count, "nodes": nodes, "devices": devices} | measured_row
    print(markdown([found]), flush=True)
    return found


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of log y over log x.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(x) > 1 else float("nan")


def run(
    parts: Sequence[str],
    counts: Sequence[int],
    sizes: Sequence[int],
    devices: Sequence[int],
    large_nodes: Sequence[int],
    pot_nodes: int,
    cache: str | None,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of the requested parts."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        if part in ("pairs", "midpoints"):
            rows = [row(part, n, NODES, 1, cache) for n in counts]
        elif part == "sizes":
            # As many pairs as keep a row at some seconds, and one chunk at least.
            rows = [row(part, max(4, 2**18 // n**2), n, 1, cache) for n in sizes]
            for each in rows:
                each["ms per pair"] = 1e3 * each["s"] / each["pairs"]
        elif part == "devices":
            rows = [row(part, 1920, NODES, n, cache) for n in devices]
            for each in rows:
                each["to one"] = each["s"] / rows[0]["s"]
        else:
            rows = []
            for n in large_nodes:
                rows.append(row("large", 1, n, 1, cache, 1))
                if n <= pot_nodes:
                    rows.append(row("pot", 1, n, 1, None))
        tables[part] = rows
    return tables


def growth(tables: dict[str, list[dict[str, Any]]]) -> str:
    """The fitted exponents as text."""
    lines = []
    for part, rows in tables.items():
        if part in ("pairs", "midpoints"):
            fitted = exponent([r["pairs"] for r in rows], [r["s"] for r in rows])
            large_ones = [r for r in rows if r["pairs"] >= 1000]
            rest = exponent([r["pairs"] for r in large_ones], [r["s"] for r in large_ones])
            lines.append(f"{part}: time ~ pairs^{fitted:.2f} (from 1,000 on: {rest:.2f})")
        elif part == "sizes":
            fitted = exponent([r["nodes"] for r in rows], [r["ms per pair"] for r in rows])
            lines.append(f"sizes: time per pair ~ nodes^{fitted:.2f}")
        elif part == "large":
            ours = [r for r in rows if r["part"] == "large"]
            fitted = exponent([r["nodes"] for r in ours], [r["s"] for r in ours])
            lines.append(f"large: time ~ nodes^{fitted:.2f}")
    return "\n".join(lines)


def plot(tables: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Time (and memory, dashed) of every part, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axis_of = {"pairs": "pairs", "midpoints": "pairs", "devices": "devices"}
    figure, axes = plt.subplots(1, len(tables), figsize=(4 * len(tables), 3.5), squeeze=False)
    for axis, (part, rows) in zip(axes[0], tables.items(), strict=True):
        name = axis_of.get(part, "nodes")
        for kind in dict.fromkeys(r["part"] for r in rows):
            own = [r for r in rows if r["part"] == kind]
            x = [r[name] for r in own]
            seconds = [r["s"] / (r["pairs"] if part == "sizes" else 1) for r in own]
            axis.loglog(x, seconds, "o-", label=f"{kind}: s")
            axis.loglog(x, [max(r["MB"], 0.1) for r in own], "s--", label=f"{kind}: MB")
        axis.set_xlabel(name)
        axis.set_title(part)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this suite."""
    numbers = {
        "counts": ([100, 1000, 10_000, 100_000], "Numbers of pairs."),
        "sizes": ([16, 32, 64, 128, 256, 512, 1024], "Nodes of both graphs."),
        "devices": ([1, 2, 4, 8], "Virtual devices."),
        "large_nodes": ([1000, 2000, 5000], "Nodes of large graphs."),
    }
    absl_flags.DEFINE_list("parts", list(PARTS), "Parts to measure.", flag_values=values)
    for name, (default, text) in numbers.items():
        absl_flags.DEFINE_list(name, [str(n) for n in default], text, flag_values=values)
    absl_flags.DEFINE_integer(
        "pot_nodes", 2000, "Largest graphs POT is given.", 0, flag_values=values
    )


def main(values: absl_flags.FlagValues) -> None:
    """Measure the parts asked for and write ``scale.md`` and ``scale.png``."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
        unknown = sorted(set(values.parts) - set(PARTS))
        check(
            len(values.parts) > 0 and not unknown,
            f"parts: no part {','.join(unknown)!r}; use some of {', '.join(PARTS)}",
        )
        names = ("counts", "sizes", "devices", "large_nodes")
        numbers: dict[str, Any] = {name: flags.whole_numbers(values, name) for name in names}
    numbers["pot_nodes"], numbers["cache"] = values.pot_nodes, values.compilation_cache
    tables = run(values.parts, **numbers)
    texts = [f"## {part}\n\n{markdown(rows)}" for part, rows in tables.items()]
    out.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([*texts, growth(tables)]) + "\n"
    (out / "scale.md").write_text(text)
    plot(tables, out / "scale.png")
    print(f"\n{text}\n{out / 'scale.md'}, {out / 'scale.png'}")


if __name__ == "__main__":  # one row, in a separate process
    name, *rest = sys.argv[1:]
    print(json.dumps(worker(name, *map(int, rest))))
