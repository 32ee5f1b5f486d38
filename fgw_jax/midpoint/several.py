"""The barycenter of any number of graphs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.fgw.checks import check_problem, check_solver
from fgw_jax.fgw.strict import Strict
from fgw_jax.graphs import Batch, Graph, check_list
from fgw_jax.inputs import check_key, check_whole, floats, symmetric
from fgw_jax.midpoint import barycenter
from fgw_jax.midpoint.barycenter import Midpoint
from fgw_jax.midpoint.mixups import check_start
from fgw_jax.runtime import parallel
from fgw_jax.runtime.shapes import round_up


def mean(
    graphs: Sequence[Graph],
    ratios: ArrayLike | None = None,
    size: int | None = None,
    alpha: float = 0.95,
    solver: Any = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
    *,
    fixed_structure: ArrayLike | None = None,
    fixed_features: ArrayLike | None = None,
) -> Midpoint:
    r"""Barycenter of several graphs: :math:`\arg\min_G \sum_i w_i \mathrm{FGW}(G, G_i)`.

    Eq. 2 for any number of sources; :func:`fgw_jax.mixup` is the case of two. On the host; the pure
    function behind it is :func:`fgw_jax.midpoint.barycenter.solve`.

    Args:
        graphs: the sources.
        ratios: ``[S]`` weights, normalised to sum to one; equal by default.
        size: nodes of the barycenter; by default the mean size of the sources by their ratios.
        alpha: structure against features.
        solver: ``Strict()`` by default.
        start: ``"geodesic"`` or ``"random"``.
        key: key of a random start.
        fixed_structure: ``[size, size]`` structure to keep.
        fixed_features: ``[size, d]`` features to keep.

    >>> from fgw_jax import Graph
    >>> path, star = Graph.from_edges([(0, 1), (1, 2)], 3), Graph.from_edges([(0, 1), (0, 2)], 3)
    >>> mean([path, star, path], [0.5, 0.25, 0.25]).graph.num_nodes
    3
    """
    graphs = list(graphs)
    check_list("graphs", graphs)
    weights = np.ones(len(graphs)) if ratios is None else np.asarray(ratios, np.float64)
    check(
        weights.shape == (len(graphs),)
        and bool((np.isfinite(weights) & (weights >= 0)).all())
        and weights.sum() > 0,
        f"ratios: expected {len(graphs)} finite weights, not negative and not all zero, got "
        f"{ratios}",
    )
    solver = Strict() if solver is None else solver
    check_solver(solver)
    check_problem(alpha, 2, "sqeuclidean")
    check_start(start, key)
    if key is not None:
        check_key(key)
    weights = weights / weights.sum()
    counts = np.array([g.num_nodes for g in graphs])
    size = max(1, int(np.floor(weights @ counts + 0.5))) if size is None else size
    check_whole("size", size)
    padded, wide = round_up(size), round_up(int(max(g.mask.shape[-1] for g in graphs)))
    more = (0, padded - size)
    width = graphs[0].features.shape[-1]
    if fixed_structure is not None:
        fixed_structure = symmetric("fixed_structure", fixed_structure)
        _check_shape("fixed_structure", fixed_structure, (size, size))
        fixed_structure = np.pad(fixed_structure, [more, more])
    if fixed_features is not None:
        fixed_features = floats("fixed_features", fixed_features)
        _check_shape("fixed_features", fixed_features, (size, width))
        fixed_features = np.pad(fixed_features, [more, (0, 0)])
    stacked = Batch.stack(graphs, wide)
    dtype = np.asarray(stacked.weights).dtype
    mid = _solve(
        stacked,
        weights.astype(dtype),
        size,
        np.asarray(alpha, dtype),
        solver,
        key,
        fixed_structure,
        fixed_features,
        padded=padded,
        start=start,
    )
    host = jax.tree.map(np.asarray, mid)
    g, both = host.graph, (slice(size), slice(size))
    graph = Graph(
        g.structure[both], g.features[:size], g.weights[:size], g.adjacency[both], g.mask[:size]
    )
    sides = [s.mask.shape[-1] for s in graphs]
    plans = tuple(host.plans[i, :size, :m] for i, m in enumerate(sides))
    history = host.history[: host.num_outer + 1]
    return dataclasses.replace(host, graph=graph, plans=plans, history=history)


def _check_shape(name: str, values: np.ndarray, shape: tuple[int, int]) -> None:
    told = f"{name}: expected shape {shape}, got {values.shape}; pass size= to go with it"
    check(values.shape == shape, told)


@functools.partial(parallel.compiled, static_argnames=("padded", "start"))
def _solve(
    sources, ratios, size, alpha, solver, key, fixed_structure, fixed_features, *, padded, start
):
    return barycenter.solve(
        sources,
        ratios,
        size,
        padded,
        alpha,
        solver,
        start,
        key,
        fixed_structure=fixed_structure,
        fixed_features=fixed_features,
    )
