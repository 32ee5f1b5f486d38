"""The barycenter of any number of graphs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.fgw.checks import check_problem
from fgw_jax.fgw.iteration import Solver
from fgw_jax.graphs import Batch, Graph, check_list
from fgw_jax.inputs import check_key, check_whole, floats, symmetric
from fgw_jax.midpoint import barycenter as solving
from fgw_jax.midpoint.barycenter import Midpoint
from fgw_jax.midpoint.descent import Descent
from fgw_jax.midpoint.roles import resolve_roles
from fgw_jax.runtime import parallel
from fgw_jax.runtime.shapes import round_up


def barycenter(
    graphs: Sequence[Graph],
    weights: ArrayLike | None = None,
    size: int | None = None,
    alpha: float = 0.95,
    solver: Solver | None = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
    *,
    aligner: Solver | None = None,
    descent: Descent | None = None,
    fixed_structure: ArrayLike | None = None,
    fixed_features: ArrayLike | None = None,
) -> Midpoint:
    r"""Barycenter of several graphs: :math:`\arg\min_G \sum_i w_i \mathrm{FGW}(G, G_i)`.

    Eq. 2 for any number of sources; :func:`fgw_jax.mixup` is the case of two. On the host; the pure
    function behind it is :func:`fgw_jax.midpoint.barycenter.solve`.

    Args:
        graphs: the sources.
        weights: ``[S]`` weights of the graphs, normalized to sum to one; equal by default.
        size: nodes of the barycenter; by default the weighted mean size of the sources.
        alpha: structure against features.
        solver: as in :func:`fgw_jax.mixup`.
        start: ``"geodesic"`` or ``"random"``.
        key: key of a random start.
        aligner: as in :func:`fgw_jax.mixup`.
        descent: as in :func:`fgw_jax.mixup`.
        fixed_structure: ``[size, size]`` structure to keep.
        fixed_features: ``[size, d]`` features to keep.

    Returns:
        The barycenter, as a midpoint of all graphs.

    Raises:
        InputError: for arguments that do not fit, or would have no effect.

    >>> from fgw_jax import Graph
    >>> path, star = Graph.from_edges([(0, 1), (1, 2)], 3), Graph.from_edges([(0, 1), (0, 2)], 3)
    >>> barycenter([path, star, path], [0.5, 0.25, 0.25]).graph.num_nodes
    3
    """
    graphs = list(graphs)
    check_list("graphs", graphs)
    ratios = np.ones(len(graphs)) if weights is None else np.asarray(weights, np.float64)
    check(
        ratios.shape == (len(graphs),)
        and bool((np.isfinite(ratios) & (ratios >= 0)).all())
        and ratios.sum() > 0,
        f"weights: expected {len(graphs)} finite weights, not negative and not all zero, got "
        f"{weights}",
    )
    roles = resolve_roles(solver, start, key, aligner, descent)
    check_problem(alpha, 2, "sqeuclidean")
    if key is not None:
        check_key(key)
    ratios = ratios / ratios.sum()
    counts = np.array([g.num_nodes for g in graphs])
    size = max(1, int(np.floor(ratios @ counts + 0.5))) if size is None else size
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
        ratios.astype(dtype),
        size,
        np.asarray(alpha, dtype),
        roles.aligner,
        roles.descent,
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
    sources,
    ratios,
    size,
    alpha,
    solver,
    descent,
    key,
    fixed_structure,
    fixed_features,
    *,
    padded,
    start,
):
    return solving.solve(
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
        descent=descent,
    )
