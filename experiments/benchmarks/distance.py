"""FGW distances: ours, POT and ott-jax on the same pairs in one run.

    python -m experiments.benchmark --suite=distance --data_dir=FOLDER --out=FOLDER

Five tables, in ``distance.md``, and a plot, ``distance.png``:

1. random pairs of a dataset: milliseconds per pair, value against POT's conditional gradient,
   errors of the marginals, the columns of the paper's infeasibility table; the mean lower bound;
2. pairs of at most 64 nodes against ott-jax;
3. graphs of one size, 16 to 512 nodes, in batches of 1 to 4096: time per pair beside POT's solvers,
   and the share of this machine's float32 matmul rate that the products of the solver reach;
4. the trade-off: value against time, over steps and starts;
5. graphs and their permuted copies: how many are found to be the same, over starts.

Every time is of results in host memory; compilation is timed apart; ours is the best of three
runs. Where the dataset is missing, SYNTHETIC takes its place.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags as absl_flags

from experiments import flags
from experiments.benchmarks import peers
from experiments.robustness.random_graphs import permuted
from fgw_jax import Graph, Reference, Relaxed, Strict, datasets
from fgw_jax.errors import DataError, check
from fgw_jax.fgw import Schedule, lower_bounds

SHARED = ("dataset", "seed", "data_dir", "out", "compilation_cache")
ALPHA = 0.95
PARTS = ("pairs", "ott", "sizes", "tradeoff", "copies")
#: Rows of the first table.
SOLVERS: dict[str, Any] = {
    "Strict()": Strict(),
    "Strict(starts=2)": Strict(starts=2),
    'Strict(method="mirror")': Strict(method="mirror"),
    "Relaxed()": Relaxed(),
    "Relaxed(round=True)": Relaxed(round=True),
    "Alg. 2 to the letter": Relaxed(step_size=1.0, schedule=None, plan="last"),
    "the same, round=True": Relaxed(step_size=1.0, schedule=None, plan="last", round=True),
}


def random_pairs(
    graphs: Sequence[Graph], count: int, seed: int, most: int | None = None
) -> tuple[list[Graph], list[Graph]]:
    """Pairs of two different graphs (of at most ``most`` nodes), drawn uniformly."""
    graphs = [g for g in graphs if most is None or g.num_nodes <= most]
    rng = np.random.default_rng(seed)
    draws = [rng.choice(len(graphs), 2, replace=False) for _ in range(count)]
    return [graphs[i] for i, _ in draws], [graphs[j] for _, j in draws]


def random_graph(rng: np.random.Generator, size: int, degree: float = 3.7) -> Graph:
    """A random graph as sparse as a protein, with one of three labels per node."""
    upper = np.triu(rng.random((size, size)) < degree / max(size - 1, 1), 1)
    labels = np.eye(3)[rng.integers(3, size=size)]
    return Graph.from_adjacency((upper | upper.T).astype(float), labels)


def scores(
    left: Sequence[Graph], right: Sequence[Graph], solved: peers.Solved, strict: peers.Solved
) -> dict[str, float]:
    """The first table's row of a solver, against the strict plans of the same pairs."""
    pairs = list(zip(left, right, solved.plans, strict.plans, strict=True))
    values = np.array([peers.value(g, h, plan, ALPHA) for g, h, plan, _ in pairs])
    base = np.array([peers.value(g, h, plan, ALPHA) for g, h, _, plan in pairs])
    error, positive = np.abs(values - base), base > 1e-9
    return {
        "ms per pair": 1e3 * solved.seconds / len(left),
        "faster": strict.seconds / solved.seconds,
        "compile s": solved.compile,
        "mean value": values.mean(),
        "to CG": values.mean() / base.mean(),
        "MAPE": (error[positive] / base[positive]).mean(),
        "MAE": error.mean(),
        "T-diff": float(np.mean([np.linalg.norm(p - s) / p.size for _, _, p, s in pairs])),
        "marginal error": float(np.mean([peers.marginal_error(*pair[:3]) for pair in pairs])),
    }


def pairs_table(
    left: list[Graph], right: list[Graph], max_shapes: int, solvers: Sequence[str] = tuple(SOLVERS)
) -> list[dict[str, Any]]:
    """Solvers that take ragged lists on the same pairs; POT's conditional gradient first."""
    strict = peers.pot_cg(left, right, ALPHA)
    rows: list[dict[str, Any]] = [{"solver": "POT CG", **scores(left, right, strict, strict)}]
    for name in solvers:
        solved = peers.ours(SOLVERS[name], max_shapes=max_shapes)(left, right, ALPHA)
        rows.append({"solver": name, **scores(left, right, solved, strict)})
        print(markdown(rows[-1:]), flush=True)
    rows.append(
        {"solver": "POT BAPG", **scores(left, right, peers.pot_bapg(left, right, ALPHA), strict)}
    )
    bound = float(lower_bounds(left, right, ALPHA, max_shapes=max_shapes).mean())
    rows.append(
        {"solver": "lower bound", "mean value": bound, "to CG": bound / rows[0]["mean value"]}
    )
    return rows


def ott_table(left: list[Graph], right: list[Graph]) -> list[dict[str, Any]]:
    """Pairs of at most 64 nodes: Strict against ott-jax's plan, rounded to feasibility."""
    strict = peers.pot_cg(left, right, ALPHA)
    ott = peers.ours(Reference(), repeats=1, max_shapes=1)(left, right, ALPHA)
    theirs = np.array(
        [peers.value(g, h, plan, ALPHA) for g, h, plan in zip(left, right, ott.plans, strict=True)]
    )
    rows = [{"solver": "POT CG", **scores(left, right, strict, strict)}]
    rows.append({"solver": "ott-jax, rounded", **scores(left, right, ott, strict)})
    for name, solver in (
        ("Strict()", Strict()),
        ('Strict(method="mirror")', Strict(method="mirror")),
    ):
        solved = peers.ours(solver, max_shapes=4)(left, right, ALPHA)
        values = [
            peers.value(g, h, plan, ALPHA)
            for g, h, plan in zip(left, right, solved.plans, strict=True)
        ]
        row = {"solver": name, **scores(left, right, solved, strict)}
        row["at most ott-jax's"] = f"{int((values <= theirs + 1e-6).sum())} of {len(left)}"
        row["faster than ott-jax"] = ott.seconds / solved.seconds
        rows.append(row)
    return rows


def matmul_rate(size: int = 1024, repeats: int = 8) -> float:
    """Float32 operations per second of a square matrix product on this machine."""
    x = jnp.ones((size, size), jnp.float32)
    product = jax.jit(lambda a, b: a @ b)
    jax.block_until_ready(product(x, x))
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(product(x, x))
        seconds.append(time.perf_counter() - begin)
    return 2.0 * size**3 / min(seconds)


def sizes_table(
    sizes: Sequence[int], batches: Sequence[int], budget: float, seed: int
) -> list[dict[str, Any]]:
    """Graphs of one size in batches; ``budget`` bounds n^3 times the batch, and so the time."""
    rate = matmul_rate()
    rng = np.random.default_rng(seed)
    relaxed, rows = Relaxed(), []
    steps = relaxed.step_limit
    for size in sizes:
        most = int(min(max(batches), max(1, budget // size**3)))
        left = [random_graph(rng, size) for _ in range(most)]
        right = [random_graph(rng, size) for _ in range(most)]
        few = max(1, min(16, most, int(2e7 // size**3)))  # peers that solve pair by pair
        cg, bapg = (
            solve(left[:few], right[:few], ALPHA) for solve in (peers.pot_cg, peers.pot_bapg)
        )
        for batch in [b for b in batches if b <= most]:
            solved = peers.ours(relaxed)(left[:batch], right[:batch], ALPHA)
            mirror = peers.ours(Strict(method="mirror"))(left[:batch], right[:batch], ALPHA)
            row = {
                "nodes": size,
                "batch": batch,
                "Relaxed() us": 1e6 * solved.seconds / batch,
                "mirror us": 1e6 * mirror.seconds / batch,
                "POT CG us": 1e6 * cg.seconds / few,
                "POT BAPG us": 1e6 * bapg.seconds / few,
                "POT batched us": None,
                "compile s": solved.compile + mirror.compile,
                "share of matmul rate": steps * 4.0 * size**3 * batch / solved.seconds / rate,
            }
            if batch * size**3 <= budget / 8:
                batched = peers.pot_batched(left[:batch], right[:batch], ALPHA)
                row["POT batched us"] = 1e6 * batched.seconds / batch
            rows.append(row)
            print(markdown(rows[-1:]), flush=True)
    return rows


def tradeoff_table(left: list[Graph], right: list[Graph]) -> list[dict[str, Any]]:
    """Value against time over steps and starts, on pairs of at most 64 nodes."""
    strict = peers.pot_cg(left, right, ALPHA)
    rows = [{"curve": "POT CG", "setting": "", **scores(left, right, strict, strict)}]
    mirror = {
        f"{k} steps": Strict(method="mirror", max_steps=k, check_every=k) for k in (5, 10, 20, 40)
    }
    cg = {f"{k} starts": Strict(starts=k) for k in (1, 2, 4, 8)}
    relaxed = {f"{k} steps": Relaxed(schedule=Schedule(num_steps=k)) for k in (4, 8, 16)}
    literal = {
        f"{k} steps": Relaxed(schedule=None, plan="last", max_steps=k) for k in (50, 100, 300)
    }
    curves: dict[str, dict[str, Any]] = {
        "Strict(cg)": cg,
        "Strict(mirror)": mirror,
        "Relaxed": relaxed,
        "Alg. 2": literal,
    }
    for curve, settings in curves.items():
        for setting, solver in settings.items():
            solved = peers.ours(solver, max_shapes=2)(left, right, ALPHA)
            rows.append({"curve": curve, "setting": setting, **scores(left, right, solved, strict)})
            print(markdown(rows[-1:]), flush=True)
    return rows


def copies_table(
    graphs: Sequence[Graph], count: int, seed: int, starts: Sequence[int] = (1, 2, 4, 8)
) -> list[dict[str, Any]]:
    """Graphs of at most 64 nodes against themselves with the nodes in another order.

    A copy is found where the value is below 1e-5: no plan that moves anything is as cheap here.
    """
    rng = np.random.default_rng(seed)
    graphs = [g for g in graphs if g.num_nodes <= 64]
    left = [graphs[i] for i in rng.choice(len(graphs), min(count, len(graphs)), replace=False)]
    right = [permuted(g, rng.permutation(g.num_nodes)) for g in left]
    rows: list[dict[str, Any]] = []
    for number in starts:
        solved = peers.ours(Strict(starts=number), max_shapes=2)(left, right, ALPHA)
        values = np.array(
            [peers.value(g, h, t, ALPHA) for g, h, t in zip(left, right, solved.plans, strict=True)]
        )
        rows.append(
            {
                "starts": number,
                "found": f"{int((values < 1e-5).sum())} of {len(left)}",
                "mean value": values.mean(),
                "ms per pair": 1e3 * solved.seconds / len(left),
            }
        )
        print(markdown(rows[-1:]), flush=True)
    return rows


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table of the rows; the columns are those of any row, in order."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(_cell(row.get(c)) for c in columns)} |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plot(tables: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Value against time, and time per pair against size: one panel per table."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = {"tradeoff": _plot_tradeoff, "sizes": _plot_sizes}
    shown = [name for name in panels if tables.get(name)]
    if not shown:
        return
    figure, axes = plt.subplots(
        1, len(shown), figsize=(6 * len(shown), 4.5), layout="constrained", squeeze=False
    )
    for name, axis in zip(shown, axes[0], strict=True):
        panels[name](axis, tables[name])
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _plot_tradeoff(axis: Any, rows: list[dict[str, Any]]) -> None:
    from matplotlib import ticker

    for curve in dict.fromkeys(row["curve"] for row in rows):
        own = [row for row in rows if row["curve"] == curve]
        x, y = [row["ms per pair"] for row in own], [row["to CG"] for row in own]
        axis.plot(x, y, "o-", label=curve)
        for row, at in zip(own, zip(x, y, strict=True), strict=True):
            text = row["setting"].split(" ")[0]
            axis.annotate(text, at, (4, 4), textcoords="offset points", fontsize=7)
    axis.set(xscale="log", xlabel="milliseconds per pair", ylabel="mean value / POT CG's")
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
    axis.axhline(1.0, color="grey", linewidth=0.5)


def _plot_sizes(axis: Any, rows: list[dict[str, Any]]) -> None:
    largest = {row["nodes"]: row for row in rows}  # the largest batch of every size
    for name in ("Relaxed() us", "mirror us", "POT CG us", "POT BAPG us", "POT batched us"):
        points = [(n, row[name]) for n, row in largest.items() if row[name] is not None]
        if points:
            axis.plot(*zip(*points, strict=True), "o-", label=name.removesuffix(" us"))
    axis.set(xscale="log", yscale="log", xlabel="nodes", ylabel="microseconds per pair")


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this suite."""
    absl_flags.DEFINE_multi_enum(
        "part", list(PARTS), PARTS, "Tables to make (may be repeated).", flag_values=values
    )
    absl_flags.DEFINE_multi_enum(
        "solver", list(SOLVERS), list(SOLVERS), "Rows of table 1.", flag_values=values
    )
    absl_flags.DEFINE_integer("num_pairs", 1000, "Pairs of table 1.", 1, flag_values=values)
    absl_flags.DEFINE_integer("small_pairs", 64, "Pairs of tables 2 and 4.", 1, flag_values=values)
    absl_flags.DEFINE_integer("copies", 100, "Graphs of table 5.", 1, flag_values=values)
    absl_flags.DEFINE_integer("max_shapes", 48, "Padded shapes of table 1.", 1, flag_values=values)
    absl_flags.DEFINE_list(
        "sizes", ["16", "32", "64", "128", "256", "512"], "Of table 3.", flag_values=values
    )
    absl_flags.DEFINE_list(
        "batches", ["1", "8", "64", "512", "4096"], "Of table 3.", flag_values=values
    )
    absl_flags.DEFINE_float(
        "budget", 6e8, "Table 3: largest n^3 times batch; bounds the time.", flag_values=values
    )
    values.set_default("dataset", "PROTEINS")


def run(
    graphs: Sequence[Graph],
    parts: Sequence[str] = PARTS,
    *,
    solvers: Sequence[str] = tuple(SOLVERS),
    num_pairs: int = 1000,
    small_pairs: int = 64,
    copies: int = 100,
    max_shapes: int = 48,
    sizes: Sequence[int] = (16, 32, 64, 128, 256, 512),
    batches: Sequence[int] = (1, 8, 64, 512, 4096),
    budget: float = 6e8,
    seed: int = 0,
) -> dict[str, list[dict[str, Any]]]:
    """The tables named by ``parts``."""
    tables = {}
    if "pairs" in parts:
        pairs = random_pairs(graphs, num_pairs, seed)
        tables["pairs"] = pairs_table(*pairs, max_shapes, solvers)
    if "ott" in parts:
        tables["ott"] = ott_table(*random_pairs(graphs, small_pairs, seed, 64))
    if "sizes" in parts:
        tables["sizes"] = sizes_table(sizes, batches, budget, seed)
    if "tradeoff" in parts:
        tables["tradeoff"] = tradeoff_table(*random_pairs(graphs, 4 * small_pairs, seed, 64))
    if "copies" in parts:
        tables["copies"] = copies_table(graphs, copies, seed)
    return tables


def main(values: absl_flags.FlagValues) -> None:
    """Run the requested parts; write ``distance.md``, ``distance.json`` and ``distance.png``."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
        sizes, batches = (flags.whole_numbers(values, name) for name in ("sizes", "batches"))
        check(values.budget > 0, f"budget: {values.budget} must be above 0; 6e8 takes minutes")
    try:
        data = datasets.load(values.dataset, values.data_dir)
    except DataError as error:
        print(f"{values.dataset} is not here ({error}); SYNTHETIC takes its place")
        data = datasets.load("SYNTHETIC")
    begin = time.perf_counter()
    tables = run(
        data.graphs,
        values.part,
        solvers=values.solver,
        num_pairs=values.num_pairs,
        small_pairs=values.small_pairs,
        copies=values.copies,
        max_shapes=values.max_shapes,
        sizes=sizes,
        batches=batches,
        budget=values.budget,
        seed=values.seed,
    )
    titles = {
        "pairs": f"{values.num_pairs} random pairs of {data.name}",
        "ott": f"{values.small_pairs} pairs of {data.name} of at most 64 nodes",
        "sizes": "Random graphs of one size",
        "tradeoff": f"Value against time, {4 * values.small_pairs} pairs of at most 64 nodes",
        "copies": f"Graphs of {data.name} of at most 64 nodes against permuted copies",
    }
    head = f"alpha {ALPHA}, seed {values.seed}, {jax.default_backend()}, jax {jax.__version__}"
    text = "\n\n".join(
        [head, *(f"## {titles[name]}\n\n{markdown(rows)}" for name, rows in tables.items())]
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "distance.md").write_text(text + "\n")
    (out / "distance.json").write_text(json.dumps(tables, indent=1))
    plot(tables, out / "distance.png")
    print(f"\n{text}\n\n{time.perf_counter() - begin:.0f} s; written to {out}/distance.md")
