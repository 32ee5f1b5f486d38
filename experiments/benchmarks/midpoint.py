"""Midpoints: ours and POT's on the same pairs in one run.

    python -m experiments.benchmark --suite=midpoint --data_dir=FOLDER --out=FOLDER

For every dataset named by ``--datasets``, one table of cross-class pairs with ratios from
Beta(0.2, 0.2): the authors' strict loop written with POT's conditional gradient, POT's own
``fgw_barycenters``, POT's conditional gradient from our geodesic start, and ours by start and
solver; with ``--restarts`` also the best of so many runs of ours on permuted copies of the sources,
which tells what is left to gain. An objective is sum_i w_i FGW(midpoint, G_i) at the feasible plans
a way ends with. Times are per pair, of results in host memory, preparation included, compilation
apart. On ``--num_checked`` pairs a second table counts broken promises (bound, start, marginals,
density and edges of the decoded graphs), and with ``--folds`` a third times a fold of FGWMixup.
Written to ``midpoint.md``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from absl import flags as absl_flags

from experiments import flags
from experiments.benchmarks import peers
from experiments.benchmarks.distance import markdown
from experiments.benchmarks.midpoint_peers import (
    ALPHA,
    Pair,
    authors_loop,
    geodesic_starts,
    pot_barycenter,
    warm_loop,
)
from fgw_jax import Graph, Relaxed, Strict, augment, datasets, decode, mixups
from fgw_jax.errors import check

SHARED = ("seed", "data_dir", "out", "compilation_cache")


def timed(way: Callable[..., tuple[float, int]], items: Sequence[Any]) -> tuple[np.ndarray, float]:
    """Results of a peer, pair by pair on one thread of BLAS, and seconds."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        begin = time.perf_counter()
        results = np.array([way(*item) for item in items])
        return results, time.perf_counter() - begin


def repeated(run: Callable[[], Any], times: int) -> tuple[list[float], Any]:
    """Seconds of each call, and the last result."""
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - begin)
    return seconds, result


def solved(pairs: Sequence[Pair], solver: Any, **options: Any) -> Any:
    """Our midpoints of the pairs."""
    left, right = ([pair.graphs[i] for pair in pairs] for i in (0, 1))
    lams = [pair.ratios[0] for pair in pairs]
    return mixups(left, right, lams, ALPHA, solver, **options)


def marginal_error(pairs: Sequence[Pair], mids: Any) -> float:
    """The largest of all plans of all midpoints."""
    return max(
        peers.marginal_error(mid.graph, graph, plan)
        for mid, pair in zip(mids, pairs, strict=True)
        for graph, plan in zip(pair.graphs, mid.plans, strict=True)
    )


def judged(pairs: Sequence[Pair], mids: Any) -> np.ndarray:
    """Objectives of our plans in double precision, as the peers' are."""
    return np.array(
        [
            pair.objective([np.asarray(plan, np.float64) for plan in mid.plans])
            for mid, pair in zip(mids, pairs, strict=True)
        ]
    )


def ratio_of_means(values: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Mean to mean over the same pairs, and its standard error (delta method).

    A few pairs whose ratio is near one half make up most of a mean, so the error is large.
    """
    ratio = float(np.mean(values) / np.mean(reference))
    spread = np.std(values - ratio * reference, ddof=1) if len(values) > 1 else np.nan
    return ratio, float(spread / np.mean(reference) / np.sqrt(len(values)))


def best_of_restarts(pairs: Sequence[Pair], restarts: int, seed: int) -> np.ndarray:
    """The least objective of each pair over runs with permuted nodes.

    Ties are broken by position, so that another order of the nodes is another start.
    """
    rng = np.random.default_rng(seed)

    def permuted(graph: Graph) -> Graph:
        order = rng.permutation(graph.num_nodes)
        adjacency, features = np.asarray(graph.adjacency), np.asarray(graph.features)
        return Graph.from_adjacency(adjacency[np.ix_(order, order)], features[order])

    found = []
    for _ in range(restarts):
        copies = [
            Pair(permuted(pair.graphs[0]), permuted(pair.graphs[1]), pair.ratios[0])
            for pair in pairs
        ]
        found.append(judged(copies, solved(copies, Strict())))
    return np.min(found, 0)


def table(
    pairs: Sequence[Pair], seed: int, slow: bool = True, restarts: int = 0
) -> list[dict[str, Any]]:
    """All ways on the same pairs; ``slow=False`` leaves out the loops from random starts."""
    count = len(pairs)
    rows: list[dict[str, Any]] = []
    reference: Any = None

    def add(name, rule, objective, outer, seconds, error=0.0, compile_seconds=0.0):
        nonlocal reference
        reference = objective if reference is None else reference
        row = {
            "way": name,
            "stops on": rule,
            "ms per pair": 1e3 * seconds / count,
            "compile s": compile_seconds,
            "objective": float(np.mean(objective)),
            "outer steps": float(np.mean(outer)),
            "marginal error": float(error),
        }
        rows.append(row)
        row["to the first"], row["s.e."] = ratio_of_means(objective, reference)
        row["faster"] = rows[0]["ms per pair"] / row["ms per pair"]
        print(markdown(rows[-1:]), flush=True)

    if slow:
        peers_of = {
            "authors' loop, POT CG": (authors_loop, "X and A, relative 5e-4"),
            "POT fgw_barycenters": (pot_barycenter, "X or A, absolute"),
        }
        for name, (way, rule) in peers_of.items():
            rng = np.random.default_rng(seed)
            results, taken = timed(way, [(pair, rng) for pair in pairs])
            add(name, rule, results[:, 0], results[:, 1], taken)
    begun = geodesic_starts(pairs)
    results, taken = timed(warm_loop, list(zip(pairs, begun, strict=True)))
    add("POT CG, our start", "objective, relative 5e-4", results[:, 0], results[:, 1], taken)
    ways: dict[str, tuple[Any, str, str]] = {
        "ours, geodesic, Strict()": (Strict(), "geodesic", "8 rounds"),
        "ours, geodesic, Relaxed()": (Relaxed(), "geodesic", "8 rounds"),
    }
    if slow:
        rule = "objective, relative 5e-4"
        ways["ours, random, Strict()"] = (Strict(), "random", rule)
        ways["ours, random, Relaxed()"] = (Relaxed(), "random", rule)
    for name, (solver, start, rule) in ways.items():
        way = functools.partial(solved, pairs, solver, start=start, key=jax.random.key(seed))
        seconds, mids = repeated(way, 4 if start == "geodesic" else 2)
        objective = judged(pairs, mids)
        best = min(seconds[1:])
        outer = [mid.num_outer for mid in mids]
        error = marginal_error(pairs, mids)
        add(name, rule, objective, outer, best, error, max(0.0, seconds[0] - best))
    if restarts:
        begin = time.perf_counter()
        objective = best_of_restarts(pairs, restarts, seed)
        name = f"ours, best of {restarts} restarts"
        add(name, "8 rounds", objective, 8 * restarts, time.perf_counter() - begin)
    return rows


def fold_table(names: Sequence[str], data_dir: str | None, seed: int) -> list[dict[str, Any]]:
    """A fold of FGWMixup (81 % of a dataset, a quarter as many midpoints): first call and next."""
    rows = []
    for name in names:
        data = datasets.load(name, data_dir)
        order = np.random.default_rng(seed).permutation(len(data))
        train = data[order[: int(0.81 * len(data))]]
        for method in ("fgwmixup", "fgwmixup_star"):
            mixup = augment.make(method)
            seconds = []
            for key in (0, 0, 1, 1):
                begin = time.perf_counter()
                out = mixup(jax.random.key(key), train)
                seconds.append(time.perf_counter() - begin)
            rows.append(
                {
                    "dataset": name,
                    "method": method,
                    "midpoints": len(out) - len(train),
                    "first call s": seconds[0],
                    "again s": seconds[1],
                    "another key s": seconds[3],
                }
            )
            print(markdown(rows[-1:]), flush=True)
    return rows


def checks(pairs: Sequence[Pair], solver: Any) -> dict[str, Any]:
    """Count violations of the properties of midpoints and their decoded graphs.

    Times are the least of three, compilation apart.
    """
    (_, *solving), mids = repeated(lambda: solved(pairs, solver), 4)
    wanted = [
        float(sum(w * g.density for w, g in zip(pair.ratios, pair.graphs, strict=True)))
        for pair in pairs
    ]
    structures = [mid.graph.structure for mid in mids]
    decoding, edges = repeated(lambda: list(map(decode, structures, wanted)), 3)
    found = [a.sum() / max(len(a) * (len(a) - 1), 1) for a in edges]
    first = np.array([mid.history[0] for mid in mids])
    return {
        "pairs": len(pairs),
        "solver": type(solver).__name__,
        "below the bound": int((mids.objective < (1 - 1e-4) * mids.bound - 1e-7).sum()),
        "above the start": int((mids.objective > (1 + 1e-4) * first + 1e-7).sum()),
        "marginal error": marginal_error(pairs, mids),
        "density difference": float(np.mean(np.abs(np.subtract(found, wanted)))),
        "not simple": sum(
            bool((a != a.T).any() or a.diagonal().any() or not np.isin(a, (0, 1)).all())
            for a in edges
        ),
        "decode %": 100 * min(decoding) / (min(solving) + min(decoding)),
    }


def draw(data: Any, count: int, seed: int) -> list[Pair]:
    """Pairs of two classes, drawn uniformly, with ratios from Beta(0.2, 0.2)."""
    rng = np.random.default_rng(seed)
    labels = np.asarray(data.labels)
    first = rng.choice(np.flatnonzero(labels == 0), count)
    second = rng.choice(np.flatnonzero(labels == 1), count)
    ratios = rng.beta(0.2, 0.2, count)
    graphs = data.graphs
    return [
        Pair(graphs[i], graphs[j], lam) for i, j, lam in zip(first, second, ratios, strict=True)
    ]


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this suite."""
    names = ["PROTEINS", "NCI1", "IMDB-BINARY"]
    absl_flags.DEFINE_list("datasets", names, "Datasets of the tables.", flag_values=values)
    absl_flags.DEFINE_integer("num_pairs", 60, "Pairs of each.", 1, flag_values=values)
    absl_flags.DEFINE_bool("slow", True, "With the loops from random starts.", flag_values=values)
    absl_flags.DEFINE_integer(
        "restarts", 0, "Runs on permuted copies, the best of each pair kept.", 0, flag_values=values
    )
    absl_flags.DEFINE_bool("folds", True, "With the table of whole folds.", flag_values=values)
    absl_flags.DEFINE_integer(
        "num_checked", 225, "Pairs of the table of checks.", 0, flag_values=values
    )


def main(values: absl_flags.FlagValues) -> None:
    """Run the tables asked for and write ``midpoint.md``."""
    with flags.usage_errors(values):
        check(len(values.datasets) > 0, "datasets: names none; give at least one")
        out = flags.out_folder(values)
    parts = [f"alpha {ALPHA}, seed {values.seed}, {jax.default_backend()}, jax {jax.__version__}"]
    out.mkdir(parents=True, exist_ok=True)
    for name in values.datasets:
        data = datasets.load(name, values.data_dir)
        print(f"{name}: {values.num_pairs} pairs", flush=True)
        pairs = draw(data, values.num_pairs, values.seed)
        rows = table(pairs, values.seed, values.slow, values.restarts)
        parts.append(f"## {values.num_pairs} pairs of {name}\n\n{markdown(rows)}")
        (out / "midpoint.md").write_text("\n\n".join(parts) + "\n")
    if values.num_checked:
        rows = []
        for name in values.datasets:
            pairs = draw(datasets.load(name, values.data_dir), values.num_checked, values.seed)
            for solver in (Strict(), Relaxed()):
                rows.append({"dataset": name} | checks(pairs, solver))
                print(markdown(rows[-1:]), flush=True)
        parts.append(f"## Checks\n\n{markdown(rows)}")
        (out / "midpoint.md").write_text("\n\n".join(parts) + "\n")
    if values.folds:
        rows = fold_table(values.datasets, values.data_dir, values.seed)
        parts.append(f"## Whole folds\n\n{markdown(rows)}")
        (out / "midpoint.md").write_text("\n\n".join(parts) + "\n")
    print("\n\n".join(parts))
