"""Midpoints: ours and POT's on the same pairs in one run.

    python -m experiments.benchmark --suite=midpoint --data_dir=FOLDER --out=FOLDER

For every dataset named by ``--datasets``, one table of cross-class pairs with ratios from
Beta(0.2, 0.2): the authors' strict loop written with POT's conditional gradient, POT's own
``fgw_barycenters``, POT's conditional gradient from our geodesic start, and ours by start and
solver; with ``--restarts`` also the best of so many runs of ours on permuted copies of the sources,
which tells what is left to gain. An objective is sum_i w_i FGW(midpoint, G_i) at the feasible plans
a way ends with. Times are a pair, of results in host memory, preparation included, compilation
apart. On ``--num_checked`` pairs a second table counts broken promises (bound, start, marginals,
density and edges of the decoded graphs), and with ``--folds`` a third times a fold of FGWMixup.
Written to ``midpoint.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags as absl_flags

from experiments import flags
from experiments.benchmarks import peers
from experiments.benchmarks.distance import markdown
from fgw_jax import Graph, Relaxed, Strict, augment, datasets, decode, devices, mixups
from fgw_jax.buckets import grid_size
from fgw_jax.errors import check
from fgw_jax.graphs import Batch
from fgw_jax.midpoint import barycenter, descent, starts
from fgw_jax.midpoint.mixups import aligner
from fgw_jax.midpoint.objective import problem_of

SHARED = ("seed", "data_dir", "out", "compilation_cache")
ALPHA = 0.95
OUTER_LIMIT, OUTER_RTOL = 200, 5e-4


class Pair:
    """Two graphs in double precision, their ratios and the size of their midpoint."""

    def __init__(self, graph1: Graph, graph2: Graph, lam: float):
        self.graphs = (graph1, graph2)
        self.structures = [np.asarray(g.structure, np.float64) for g in self.graphs]
        self.features = [np.asarray(g.features, np.float64) for g in self.graphs]
        weights = [np.asarray(g.weights, np.float64) for g in self.graphs]
        self.weights = [w / w.sum() for w in weights]
        self.ratios = (lam, 1.0 - lam)
        self.size = max(1, round(lam * graph1.num_nodes + (1.0 - lam) * graph2.num_nodes))

    def average(self, plans: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Lines 7 and 8 of Alg. 1: structure and features that go with two plans."""
        n = self.size
        triples = list(zip(self.ratios, plans, self.structures, strict=True))
        structure = sum(w * n * n * (p @ a @ p.T) for w, p, a in triples)
        features = sum(
            w * n * (p @ x) for w, p, x in zip(self.ratios, plans, self.features, strict=True)
        )
        return np.asarray(structure), np.asarray(features)

    def objective(
        self, plans: Sequence[np.ndarray], averages: tuple[np.ndarray, np.ndarray] | None = None
    ) -> float:
        """sum_i w_i FGW at ``plans``, for the midpoint given or the one that goes with them."""
        structure, features = self.average(plans) if averages is None else averages
        total = 0.0
        for w, plan, a, x in zip(self.ratios, plans, self.structures, self.features, strict=True):
            rows, columns = plan.sum(1), plan.sum(0)
            squares = rows @ (structure**2 @ rows) + columns @ (a**2 @ columns)
            quadratic = squares - 2 * ((structure @ plan @ a) * plan).sum()
            cost = ((features[:, None] - x[None]) ** 2).sum(-1)
            total += w * ((1 - ALPHA) * (cost * plan).sum() + ALPHA * quadratic)
        return float(total)

    def solve(
        self, averages: tuple[np.ndarray, np.ndarray], warm: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """POT's conditional gradient from the product coupling, or from given plans."""
        import ot

        structure, features = averages
        new = np.full(self.size, 1.0 / self.size)
        plans = []
        for i, (a, x, weights) in enumerate(
            zip(self.structures, self.features, self.weights, strict=True)
        ):
            cost = ((features[:, None] - x[None]) ** 2).sum(-1)
            plans.append(
                ot.gromov.fused_gromov_wasserstein(
                    cost,
                    structure,
                    a,
                    new,
                    weights,
                    alpha=ALPHA,
                    G0=None if warm is None else warm[i],
                    max_iter=300,
                    tol_rel=1e-5,
                    tol_abs=1e-9,
                )
            )
        return plans


def random_midpoint(pair: Pair, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The paper's start: features zero, structure the distances of random points, at most one."""
    points = rng.normal(size=(pair.size, 2))
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    return distances / max(distances.max(), 1e-12), np.zeros((pair.size, pair.features[0].shape[1]))


def authors_loop(pair: Pair, rng: np.random.Generator) -> tuple[float, int]:
    """Alg. 1 with cold plans; ends when structure and features both change by less than 5e-4."""
    averages = random_midpoint(pair, rng)
    plans = pair.solve(averages)
    change: Any = np.inf
    count = 0
    while change >= OUTER_RTOL and count < OUTER_LIMIT:
        before, averages = averages, pair.average(plans)
        plans = pair.solve(averages)
        count += 1
        change = max(
            float(np.linalg.norm(new - old)) / max(float(np.linalg.norm(old)), 1e-12)
            for new, old in zip(averages, before, strict=True)
        )
    return pair.objective(plans, averages), count


def pot_barycenter(pair: Pair, rng: np.random.Generator) -> tuple[float, int]:
    """POT's fgw_barycenters with its own start and stopping rule."""
    import ot

    features, structure, log = ot.gromov.fgw_barycenters(
        pair.size,
        pair.features,
        pair.structures,
        pair.weights,
        pair.ratios,
        ALPHA,
        log=True,
        random_state=int(rng.integers(2**31)),
    )
    count = len(log.get("err_feature", []))
    # It returns plans from each source to the new nodes or the other way, depending on version.
    plans = [t if t.shape[0] == pair.size else t.T for t in log["T"]]
    return pair.objective(plans, (structure, features)), count


def warm_loop(pair: Pair, plans: Sequence[np.ndarray]) -> tuple[float, int]:
    """POT's conditional gradient from given plans, warm; ends when the objective settles."""
    plans = [_feasible(plan, w) for plan, w in zip(plans, pair.weights, strict=True)]
    best = new = pair.objective(plans)
    old, count = np.inf, 0
    while abs(new - old) > OUTER_RTOL * abs(new) + 1e-12 and count < OUTER_LIMIT:
        warm = [_feasible(plan, w) for plan, w in zip(plans, pair.weights, strict=True)]
        plans = pair.solve(pair.average(plans), warm)
        old, new, count = new, pair.objective(plans), count + 1
        best = min(best, new)
    return best, count


def _feasible(plan: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Marginals in double precision: POT checks that they agree to eight digits."""
    rows = np.full(plan.shape[0], 1.0 / plan.shape[0])
    plan = np.maximum(np.asarray(plan, np.float64), 0.0)
    plan = plan * np.minimum(1.0, rows / np.maximum(plan.sum(1), 1e-300))[:, None]
    plan = plan * np.minimum(1.0, columns / np.maximum(plan.sum(0), 1e-300))[None]
    short = np.maximum(columns - plan.sum(0), 0.0)
    return plan + np.outer(np.maximum(rows - plan.sum(1), 0.0), short / max(short.sum(), 1e-300))


def geodesic_starts(pairs: Sequence[Pair]) -> list[list[np.ndarray]]:
    """Plans of our geodesic start, one pair at a time on the grid of padded shapes."""

    def start(sources, lam, size, padded):
        ratios = jnp.stack([lam, 1.0 - lam])
        problem = problem_of(sources, ratios, barycenter.uniform(size, padded), ALPHA)
        plans = barycenter.align(problem, aligner(Strict()))
        return descent.feasible(problem, starts.geodesic(problem, plans), 0)

    compiled = devices.compiled(start, static_argnames="padded")
    out = []
    for pair in pairs:
        sizes = [g.num_nodes for g in pair.graphs]
        padded = grid_size(max(sizes))
        sources = Batch.stack(list(pair.graphs), padded)
        plans = compiled(sources, np.float32(pair.ratios[0]), pair.size, padded=padded)
        cropped = [np.asarray(plans)[i, : pair.size, :m] for i, m in enumerate(sizes)]
        out.append(cropped)
    return out


def timed(way: Callable[..., tuple[float, int]], items: Sequence[Any]) -> tuple[np.ndarray, float]:
    """Results of a peer, pair by pair on one thread of BLAS, and seconds."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        begin = time.perf_counter()
        results = np.array([way(*item) for item in items])
        return results, time.perf_counter() - begin


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


def best_of_restarts(pairs: Sequence[Pair], restarts: int, seed: int) -> np.ndarray:
    """The least objective of each pair over runs that number its nodes anew.

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
        left, right = ([pair.graphs[i] for pair in copies] for i in (0, 1))
        lams = [pair.ratios[0] for pair in copies]
        found.append(judged(copies, mixups(left, right, lams, ALPHA, Strict())))
    return np.min(found, 0)


def table(
    pairs: Sequence[Pair], seed: int, slow: bool = True, restarts: int = 0
) -> list[dict[str, Any]]:
    """All ways on the same pairs; ``slow=False`` leaves out the loops from random starts."""
    count = len(pairs)
    rows: list[dict[str, Any]] = []

    def add(name, rule, objective, outer, seconds, error=0.0, compile_seconds=0.0):
        row = {
            "way": name,
            "stops on": rule,
            "ms a pair": 1e3 * seconds / count,
            "compile s": compile_seconds,
            "objective": float(np.mean(objective)),
            "outer steps": float(np.mean(outer)),
            "marginal error": float(error),
        }
        rows.append(row)
        row["to the first"] = row["objective"] / rows[0]["objective"]
        row["faster"] = rows[0]["ms a pair"] / row["ms a pair"]
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
    left, right = ([pair.graphs[i] for pair in pairs] for i in (0, 1))
    lams = [pair.ratios[0] for pair in pairs]
    for name, (solver, start, rule) in ways.items():
        seconds = []
        for _ in range(4 if start == "geodesic" else 2):
            begin = time.perf_counter()
            mids = mixups(left, right, lams, ALPHA, solver, start=start, key=jax.random.key(seed))
            seconds.append(time.perf_counter() - begin)
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
    """What is promised of midpoints and of their decoded graphs, looked at on given pairs."""
    left, right = ([pair.graphs[i] for pair in pairs] for i in (0, 1))
    lams = [pair.ratios[0] for pair in pairs]
    mixups(left, right, lams, ALPHA, solver)
    begin = time.perf_counter()
    mids = mixups(left, right, lams, ALPHA, solver)
    solving = time.perf_counter() - begin
    wanted = [
        float(lam * a.density + (1 - lam) * b.density)
        for lam, a, b in zip(lams, left, right, strict=True)
    ]
    begin = time.perf_counter()
    edges = [
        decode(mid.graph.structure, density) for mid, density in zip(mids, wanted, strict=True)
    ]
    decoding = time.perf_counter() - begin
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
        "decode %": 100 * decoding / (solving + decoding),
    }


def draw(data: Any, count: int, seed: int) -> list[Pair]:
    """Pairs of two classes, drawn evenly, with ratios from Beta(0.2, 0.2)."""
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
