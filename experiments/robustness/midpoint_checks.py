"""Properties of midpoints, of decoding and of augmentations, as checks over batches of cases."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from experiments.robustness.checks import (
    MARGINALS,
    SOLVERS,
    Verdict,
    exact_value,
    lower_bounds,
    scales,
)
from experiments.robustness.random_graphs import SIZE, SMALL, draw
from fgw_jax import Dataset, augment, decode, mixup
from fgw_jax.fgw import Status
from fgw_jax.graphs import Batch
from fgw_jax.midpoint import sizes
from fgw_jax.runtime import parallel

#: name -> solver of SOLVERS, start; the paper's loop is slow, and tried on small graphs.
MIDPOINTS = {
    "geodesic, cg": ("cg", "geodesic"),
    "geodesic, relaxed": ("relaxed", "geodesic"),
    "random, mirror": ("mirror", "random"),
    "random, relaxed": ("relaxed", "random"),
    "random, literal": ("literal", "random"),
}
#: Methods whose call leaves the graphs alone, or changes them one by one: no new graphs.
NOT_MIXING = ("vanilla", "mmixup", "dropedge", "dropnode", "attrmask", "subgraph")


@functools.cache
def _mix_batch(name: str) -> Callable[..., Any]:
    solver, start = SOLVERS[MIDPOINTS[name][0]][0], MIDPOINTS[name][1]

    def one(graph1, graph2, lam, alpha, key):
        return mixup(graph1, graph2, lam, alpha, solver, start=start, key=key)

    return parallel.compiled(jax.vmap(one))


def midpoint_check(name: str, seed: int, count: int, features: str = "any") -> Verdict:
    """Feasible plans, an objective that is theirs, never below its bounds; sources at the ends."""
    size = SMALL if MIDPOINTS[name][1] == "random" else SIZE
    cases = draw(seed, count, features, most=size)
    batches = cases.batches(size)
    rng = np.random.default_rng(seed + 1)
    lam = rng.choice([0.0, 1.0, 0.5, 1e-3, *rng.random(6)], count).astype(cases.alpha.dtype)
    keys = jax.random.split(jax.random.key(seed), count)
    mid = jax.tree.map(np.asarray, _mix_batch(name)(*batches, lam, cases.alpha, keys))
    graph, verdict = mid.graph, Verdict(f"midpoint {name}, seed {seed}, features {features}", count)
    verdict.require_finite(graph, mid.plans, mid.values, mid.objective, mid.bound)
    verdict.require("status", mid.status != Status.NON_FINITE)
    nodes = sizes.adaptive(batches[0].num_nodes, batches[1].num_nodes, lam)
    verdict.require("size", graph.mask.sum(1) == nodes)
    verdict.require("symmetric", (graph.structure == graph.structure.swapaxes(1, 2)).all((1, 2)))
    verdict.require("weights", np.abs(graph.weights.sum(1) - 1) <= 1e-5)
    verdict.require("nothing on padding", ~np.where(graph.mask[:, :, None], 0, graph.features)
                    .any((1, 2)))  # fmt: skip
    objective, slack, exact = np.zeros(count), np.zeros(count), np.zeros(count)
    for ratio, source, plan in zip((lam, 1 - lam), batches, mid.plans, strict=True):
        wide = plan.astype(np.float64)
        rows = np.abs(wide.sum(2) - graph.weights).sum(1)
        columns = np.abs(wide.sum(1) - source.weights).sum(1)
        verdict.require("feasible", np.maximum(rows, columns) <= MARGINALS)
        verdict.require("not negative", (plan >= 0).all((1, 2)))
        objective += ratio * exact_value(graph, source, wide, cases.alpha)
        slack += _rounding(graph, source, cases.alpha)
        exact = np.where(ratio == 1, _difference(graph, source), exact)
    verdict.require("objective", np.abs(mid.objective - objective) <= slack + 1e-5 * objective)
    verdict.require("bound", mid.objective >= mid.bound - slack)
    least = lam * (1 - lam) * np.asarray(lower_bounds(*batches, cases.alpha), np.float64)
    verdict.require("lower bound", objective >= least - slack)
    verdict.require("sources at the ends", exact == 0)
    ends = (lam == 0) | (lam == 1)
    verdict.require("nothing lost at the ends", ~ends | (mid.objective <= slack))
    return verdict


def _rounding(graph: Batch, source: Batch, alpha: np.ndarray) -> np.ndarray:
    """Of an objective in float32 ``[B]``: features are averaged, and squares expanded."""
    cost, square = scales(graph, source, alpha)
    eps = np.finfo(graph.features.dtype).eps
    largest = np.abs(np.asarray(source.features, np.float64)).max((1, 2))
    moved = eps * largest
    return 1e-5 * (cost + square) + 4 * (np.sqrt(cost) * moved + moved**2) + 1e-7


def _difference(graph: Batch, source: Batch) -> np.ndarray:
    """Maximum difference of structure and features, without padding, ``[B]``."""
    real = source.mask[:, :, None]
    features = np.abs(graph.features - np.where(real, source.features, 0)).max((1, 2))
    return np.maximum(features, np.abs(graph.structure - source.structure).max((1, 2)))


@parallel.compiled
def _decode_batch(structures, densities, masks):
    return jax.vmap(decode)(structures, densities, masks)


def decode_check(seed: int, count: int, features: str = "any") -> Verdict:
    """0/1, symmetric, no loop, and no threshold comes closer to the density."""
    del features  # decoding reads no features
    rng = np.random.default_rng(seed)
    levels = rng.choice([1, 2, 5, 1000], (count, 1, 1))  # few levels are many ties
    values = np.round(rng.normal(size=(count, SIZE, SIZE)) * levels) / levels
    values = (np.triu(values, 1) * rng.choice([1e-20, 1, 1e6], (count, 1, 1))).astype(np.float32)
    structures = values + values.swapaxes(1, 2)
    nodes = rng.integers(1, SIZE + 1, count)
    masks = np.arange(SIZE) < nodes[:, None]
    densities = rng.choice([0, 1, 0.5, *rng.random(7)], count).astype(np.float32)
    out = np.asarray(_decode_batch(structures, densities, masks))
    verdict = Verdict(f"decode, seed {seed}", count)
    verdict.require_finite(out)
    verdict.require("zero or one", np.isin(out, (0, 1)).all((1, 2)))
    verdict.require("symmetric", (out == out.swapaxes(1, 2)).all((1, 2)))
    verdict.require("no loop", ~out.diagonal(axis1=1, axis2=2).any(1))
    verdict.require("no edge on padding", ~np.where(masks[:, :, None], 0, out).any((1, 2)))
    best = [_is_best(*case) for case in zip(out, structures, densities, nodes, strict=True)]
    verdict.require("closest density", best)
    return verdict


def _is_best(edges: np.ndarray, structure: np.ndarray, density: float, n: int) -> bool:
    """Whether no threshold at all leaves a number of edges closer to ``density``."""
    upper = np.triu_indices(n, 1)
    entries, chosen = structure[upper], edges[upper]
    if density == 0 or not len(entries):
        return not edges.any()
    shares = np.array([(entries >= t).mean() for t in np.unique(entries)])
    error = np.abs(shares - density).min()
    together = entries[chosen > 0].min() > entries[chosen == 0].max(initial=-np.inf)
    return bool(abs(chosen.mean() - density) <= error + 1e-6 and together)


def augment_check(name: str, seed: int, count: int, features: str = "any") -> Verdict:
    """``count`` valid graphs that every backbone can read, with labels on the simplex."""
    fields = {} if name in NOT_MIXING else {"ratio": 1.0}
    method = augment.make(name, **fields)
    given = count if name in NOT_MIXING else count // 2
    cases = draw(seed, given, features, places=1, most=SMALL)
    # Padded to one size, to compile once.
    data = Dataset([g.pad(SMALL) for g in cases.graphs[0]], np.arange(given) % 2, num_classes=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # features much larger than the structure
        out = method(jax.random.key(seed % 2**31), data)
    verdict = Verdict(f"augment {name}, seed {seed}, features {features}", len(out))
    every = lambda test: [bool(test(graph.unpad())) for graph in out.graphs]  # noqa: E731
    arrays = lambda g: (g.features, g.adjacency, g.structure, g.weights)  # noqa: E731
    finite = every(lambda g: all(np.isfinite(x).all() for x in arrays(g)))
    verdict.not_finite = len(out) - sum(finite)
    verdict.require("finite", finite)
    verdict.require("symmetric", every(lambda g: np.array_equal(g.adjacency, g.adjacency.T)))
    verdict.require("no loop", every(lambda g: not g.adjacency.diagonal().any()))
    verdict.require("weights", every(lambda g: abs(g.weights.sum() - 1) <= 1e-5))
    verdict.require("nodes", every(lambda g: g.num_nodes >= 1))
    verdict.require("labels", (out.labels >= 0).all(1) & (np.abs(out.labels.sum(1) - 1) <= 1e-5))
    return verdict
