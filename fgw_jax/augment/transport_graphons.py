"""Graphons as barycenters of a class: GW, GW with the relaxed solver, attributed FGW.

The outer loop of Alg. 1 with many sources: all graphs of a class are coupled with the grid at
once, in few padded shapes, each plan going on from the one before. It starts at the monotone
coupling of degree-sorted graphs, so that it begins where the classical estimators end.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment.graphons import Accumulator, Graphon, align, degree_order, overlaps
from fgw_jax.fgw.problem import Problem
from fgw_jax.graphs import Graph
from fgw_jax.inputs import float_dtype
from fgw_jax.runtime import batching

#: Relative change of the mean FGW that ends the outer loop, as in the paper.
TOLERANCE = 5e-4


def barycenter_graphon(
    graphs: Sequence[Graph],
    cells: int,
    alpha: float,
    solver: Any,
    max_outer: int = 10,
) -> Graphon:
    r"""The graphon :math:`\arg\min_{W, X} \sum_i \mathrm{FGW}((W, X), G_i)`, sorted by degree.

    Args:
        graphs: unpadded graphs of one class; their adjacency and features are read, nodes weigh
            the same.
        cells: number of cells K. A fine grid is bent to the noise of the graphs, and bends them in
            turn: with 200 planted graphs of 100 nodes the mean error is 0.044 with 10 cells, 0.064
            with 25, 0.082 with 100.
        alpha: structure against features; 1 is Gromov-Wasserstein.
        solver: solver of the inner problems, started at the plan of the outer step before.
        max_outer: most updates of W and X.
    """
    graphs = _sorted(graphs)
    start = align(graphs, cells)
    dtype = float_dtype()
    edges, features = start.edges.astype(dtype), start.features.astype(dtype)
    sizes = np.array([len(graph.mask) for graph in graphs])
    chunks = batching.pair_chunks([cells] * len(sizes), sizes.tolist(), max_shapes=3)
    work = []
    for chunk in chunks:
        width = chunk.shape[1]
        batch = jax.device_put(batching.stack(graphs, chunk.lanes, width))
        plans = np.zeros((len(chunk.lanes), cells, width), dtype)
        for lane, item in enumerate(chunk.lanes):
            plans[lane, :, : sizes[item]] = overlaps(cells, sizes[item])
        real = (np.arange(len(chunk.lanes)) < len(chunk.items)).astype(dtype)
        work.append([batch, jnp.asarray(real), jnp.asarray(plans)])
    alpha, before = jnp.asarray(alpha, dtype), np.inf
    for _ in range(max_outer):
        sums: Any = 0.0
        for part in work:
            part[2], totals = _couple(solver, edges, features, *part, alpha)
            sums = jax.tree.map(jnp.add, sums, totals) if sums else totals
        value = float(sums["value"]) / len(graphs)
        tiny = np.finfo(dtype).tiny  # relaxed plans may leave a cell without mass
        mass = np.maximum(np.asarray(sums["mass"]), tiny)
        edges = np.asarray(sums["edges"]) / np.maximum(np.asarray(sums["area"]), tiny)
        features = np.asarray(sums["features"]) / mass[:, None]
        if abs(before - value) <= TOLERANCE * abs(value):
            break
        before = value
    total = Accumulator(cells, features.shape[1])
    for chunk, (_, _, plans) in zip(chunks, work, strict=True):
        for item, plan in zip(chunk.items, np.asarray(plans, np.float64), strict=False):
            graph = graphs[item]
            total.add(plan[:, : sizes[item]], graph.adjacency, graph.features)
    found = total.graphon()
    order = degree_order(found.edges)
    return Graphon(found.edges[np.ix_(order, order)], found.features[order], found.num_graphs)


@functools.partial(jax.jit, donate_argnums=(5,))
def _couple(solver, edges, features, batch, real, plans, alpha):
    """Plans of one chunk, and its share of the averages of lines 7 and 8 (lanes ``real`` only)."""

    def one(adjacency, x, mask, plan):
        weights = mask / mask.sum()
        new = jnp.full(edges.shape[0], 1.0 / edges.shape[0], edges.dtype)
        cost = ((features[:, None, :] - x[None, :, :]) ** 2).sum(-1) * mask[None, :]
        problem = Problem(edges, adjacency, cost, new, weights.astype(edges.dtype), alpha)
        out = solver.solve(problem, plan)
        return out.plan, out.value

    plans, values = jax.vmap(one)(batch.adjacency, batch.features, batch.mask, plans)
    shares = plans * real[:, None, None]
    rows = plans.sum(2)
    totals = {
        "edges": jnp.einsum("bkn,bnm,blm->kl", shares, batch.adjacency, plans),
        "area": jnp.einsum("b,bk,bl->kl", real, rows, rows),
        "features": jnp.einsum("bkn,bnd->kd", shares, batch.features),
        "mass": real @ rows,
        "value": real @ values,
    }
    return plans, totals


def _sorted(graphs: Sequence[Graph]) -> list[Graph]:
    """The graphs with nodes by falling degree, so that the monotone coupling starts them."""
    out = []
    for graph in graphs:
        adjacency = np.asarray(graph.adjacency)
        order = degree_order(adjacency)
        adjacency = adjacency[np.ix_(order, order)]
        out.append(
            Graph(
                adjacency,
                np.asarray(graph.features)[order],
                np.asarray(graph.weights)[order],
                adjacency,
                np.asarray(graph.mask)[order],
            )
        )
    return out
