"""The way in: one midpoint (:func:`mixup`), ragged lists of pairs (:func:`mixups`)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax import streaming
from fgw_jax.errors import InputError, check
from fgw_jax.fgw.distances import distances
from fgw_jax.graphs import Graph, check_list
from fgw_jax.inputs import concrete
from fgw_jax.midpoint import barycenter, sizes
from fgw_jax.midpoint.barycenter import Midpoint

STARTS = ("geodesic", "random")


def mixup(
    graph1: Graph,
    graph2: Graph,
    lam: ArrayLike,
    alpha: ArrayLike = 0.95,
    solver: Any = None,
    size: int | None = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
) -> Midpoint:
    r"""Midpoint of two graphs, Eq. 2 of the paper.

    .. math::

        \arg\min_{\tilde G} \lambda\, \mathrm{FGW}(\tilde G, G_1)
            + (1 - \lambda)\, \mathrm{FGW}(\tilde G, G_2)

    Pure: goes under jit and vmap on padded graphs, where the midpoint is padded to the larger of
    the two unless ``size`` is given. On concrete graphs the result has no padding.

    Args:
        graph1: first graph, ``n1`` nodes.
        graph2: second graph, ``n2`` nodes, of the same feature width.
        lam: weight of the first graph, in [0, 1]; at 0 and 1 the source comes back as it is.
        alpha: structure against features, in [0, 1].
        solver: ``Strict()`` (default, Alg. 1) or ``Relaxed()`` (Alg. 2).
        size: nodes of the midpoint; round(lam n1 + (1 - lam) n2) by default.
        start: ``"geodesic"`` (default) or the paper's ``"random"``, which needs a ``key``.
        key: random key of the random start.

    >>> from fgw_jax import Graph, mixup
    >>> path, star = Graph.from_edges([(0, 1), (1, 2), (2, 3)], 4), Graph.from_edges([(0, 1), (0, 2), (0, 3)], 4)
    >>> mid = mixup(path, star, 0.5)
    >>> mid.graph.num_nodes, mid.plans[0].shape, bool(mid.objective >= mid.bound)
    (4, (4, 4), True)
    """
    _check(graph1, graph2, lam, alpha, start, key)
    if all(concrete(leaf) for leaf in jax.tree.leaves((graph1, graph2, lam, alpha, solver, key))):
        return mixups(
            [graph1], [graph2], [float(np.asarray(lam))], alpha, solver, size, start, key
        )[0]
    n = max(graph1.mask.shape[-1], graph2.mask.shape[-1])
    padded = n if size is None else size
    lam = jnp.asarray(lam, jnp.result_type(float))
    swap = lam < 0.5
    first, second = graph1.pad(n), graph2.pad(n)
    choose = lambda a, b: jax.tree.map(lambda x, y: jnp.where(swap, y, x), a, b)  # noqa: E731
    main, other = choose(first, second), choose(second, first)
    nodes = sizes.adaptive(graph1.num_nodes, graph2.num_nodes, lam) if size is None else size
    heavy = jnp.maximum(lam, 1.0 - lam)
    mid = barycenter.solve(
        (main, other), jnp.stack([heavy, 1.0 - heavy]), nodes, padded, alpha, solver, start, key
    )
    a, b = mid.plans
    plans = (
        jnp.where(swap, b, a)[:, : graph1.mask.shape[-1]],
        jnp.where(swap, a, b)[:, : graph2.mask.shape[-1]],
    )
    return dataclasses.replace(mid, plans=plans)


@dataclasses.dataclass(frozen=True, eq=False)
class Midpoints:
    """Results of :func:`mixups` in input order, in host memory, unpadded.

    Attributes:
        items: the midpoints.
    """

    items: list[Midpoint]

    def __len__(self) -> int:
        """Number of midpoints."""
        return len(self.items)

    def __getitem__(self, index: int) -> Midpoint:
        """Midpoint ``index``."""
        return self.items[index]

    def __iter__(self) -> Iterator[Midpoint]:
        """Iterate in input order."""
        return iter(self.items)

    @property
    def objective(self) -> np.ndarray:
        """``[N]`` objectives."""
        return np.array([mid.objective for mid in self.items])

    @property
    def bound(self) -> np.ndarray:
        """``[N]`` lower bounds."""
        return np.array([mid.bound for mid in self.items])


def mixups(
    graphs1: Sequence[Graph],
    graphs2: Sequence[Graph],
    lams: ArrayLike,
    alpha: float = 0.95,
    solver: Any = None,
    size: int | Sequence[int] | None = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
    *,
    chunk_size: int | None = None,
    max_shapes: int = 8,
    progress: bool = False,
) -> Midpoints:
    """Midpoint of ``graphs1[i]`` and ``graphs2[i]`` at ``lams[i]`` for every ``i``, input order.

    Pairs are sorted into at most ``max_shapes`` padded shapes and run chunk by chunk. A pair that
    occurs with several ratios (the same two graph objects) is aligned once.

    Args:
        graphs1: first graphs of the pairs.
        graphs2: second graphs, as many.
        lams: ``[N]`` weights of the first graphs.
        alpha: as in :func:`mixup`.
        solver: as in :func:`mixup`.
        size: nodes of every midpoint, or one number for each; adaptive by default.
        start: as in :func:`mixup`.
        key: as in :func:`mixup`; every pair gets a key of its own from it.
        chunk_size: most pairs solved at once; by default a bound on memory.
        max_shapes: most padded shapes, each compiled once.
        progress: show a bar.

    >>> from fgw_jax import Graph, mixups
    >>> path, edge = Graph.from_edges([(0, 1), (1, 2)], 3), Graph.from_edges([(0, 1)], 2)
    >>> [mid.graph.num_nodes for mid in mixups([path, path], [edge, edge], [0.9, 0.1])]
    [3, 2]
    """
    graphs1, graphs2 = list(graphs1), list(graphs2)
    check(
        len(graphs1) == len(graphs2),
        f"graphs1, graphs2: {len(graphs1)} and {len(graphs2)} graphs; give as many of each",
    )
    check_list("graphs1, graphs2", graphs1 + graphs2)
    lams_ = np.asarray(lams, np.float64)
    check(
        lams_.shape == (len(graphs1),),
        f"lams: expected {len(graphs1)} ratios, one a pair, got shape {lams_.shape}",
    )
    _check(graphs1[0], graphs2[0], lams_, alpha, start, key)
    pool, first, second = _pool(graphs1, graphs2)
    counts = np.array([g.num_nodes for g in pool])
    nodes = _sizes(size, counts[first], counts[second], lams_)
    # The heavier source first, so that the compiled function need not choose.
    swap = lams_ < 0.5
    main, other = np.where(swap, second, first), np.where(swap, first, second)
    heavy = np.maximum(lams_, 1.0 - lams_)
    alignments = None
    if start == "geodesic":
        alignments = _shared_alignments(pool, main, other, alpha, solver, chunk_size)
    padded = np.array([g.mask.shape[-1] for g in pool])
    chunks = streaming.pair_chunks(
        np.maximum(padded[main], nodes), padded[other], max_shapes=max_shapes, chunk_size=chunk_size
    )
    keys = None if key is None else jax.random.split(key, len(graphs1))
    items: list[Any] = [None] * len(graphs1)
    alpha = jnp.asarray(alpha, jnp.result_type(float))
    for chunk in streaming.with_progress(chunks, progress, "midpoints"):
        n, m = chunk.shape
        lanes = chunk.lanes
        batch = (streaming.stack(pool, main[lanes], n), streaming.stack(pool, other[lanes], m))
        ratios = np.stack([heavy[lanes], 1.0 - heavy[lanes]], 1)
        plans = None
        if alignments is not None:
            plans = np.zeros((len(lanes), n, m), np.asarray(pool[0].weights).dtype)
            for lane, item in enumerate(lanes):
                plan = alignments[item]
                plans[lane, : plan.shape[0], : plan.shape[1]] = plan
        mids = _solve_lanes(
            batch, ratios, nodes[lanes], alpha, solver,
            None if keys is None else keys[lanes], plans, padded=n, start=start,
        )  # fmt: skip
        host = jax.tree.map(np.asarray, mids)
        for lane, item in enumerate(chunk.items):
            items[item] = _crop(
                host, lane, nodes[item], (padded[main[item]], padded[other[item]]), swap[item]
            )
    return Midpoints(items)


@functools.partial(jax.jit, static_argnames=("padded", "start"))
def _solve_lanes(batch, ratios, nodes, alpha, solver, keys, plans, *, padded, start):
    def one(sources, ratios, nodes, key, plan):
        given = None if plan is None else (plan,)
        return barycenter.solve(sources, ratios, nodes, padded, alpha, solver, start, key, given)

    return jax.vmap(one)(batch, ratios, nodes, keys, plans)


def _crop(host: Midpoint, lane: int, nodes: int, sources: tuple[int, int], swap: bool) -> Midpoint:
    """One lane without padding, its plans in the caller's order of sources."""
    fields = {f.name: getattr(host, f.name) for f in dataclasses.fields(Midpoint)}
    g = host.graph
    both = (lane, slice(nodes), slice(nodes))
    fields["graph"] = Graph(
        g.structure[both].copy(),
        g.features[lane, :nodes].copy(),
        g.weights[lane, :nodes].copy(),
        g.adjacency[both].copy(),
        g.mask[lane, :nodes].copy(),
    )
    plans = [p[lane, :nodes, :m].copy() for p, m in zip(host.plans, sources, strict=True)]
    fields["plans"] = tuple(reversed(plans)) if swap else tuple(plans)
    for name in ("values", "objective", "bound", "num_outer", "converged", "status", "history"):
        fields[name] = fields[name][lane]
    return Midpoint(**fields)


def _shared_alignments(pool, main, other, alpha, solver, chunk_size):
    """Plans between main and other source of each item, each pair solved once; None if all differ."""
    low, high = np.minimum(main, other), np.maximum(main, other)
    pairs, inverse = np.unique(np.stack([low, high], 1), axis=0, return_inverse=True)
    if len(pairs) == len(main):
        return None
    outs = distances(
        [pool[i] for i in pairs[:, 0]], [pool[i] for i in pairs[:, 1]], alpha, solver,
        chunk_size=chunk_size,
    )  # fmt: skip
    assert outs.plans is not None  # noqa: S101 - plans are kept by default
    plans = outs.plans
    return [
        plans[k] if a == lo else plans[k].T for k, a, lo in zip(inverse, main, low, strict=True)
    ]


def _sizes(size: Any, n1: np.ndarray, n2: np.ndarray, lams: np.ndarray) -> np.ndarray:
    if size is None:
        return sizes.adaptive(n1, n2, lams)
    nodes = np.broadcast_to(np.asarray(size), lams.shape)
    check(
        nodes.dtype.kind in "iu" and bool((nodes >= 1).all()),
        f"size: expected whole numbers of nodes, at least 1, got {size}",
    )
    return nodes


def _pool(graphs1: list[Graph], graphs2: list[Graph]):
    """Distinct graph objects, and the position of each side of each pair among them."""
    position: dict[int, int] = {}
    pool: list[Graph] = []
    for graph in (*graphs1, *graphs2):
        if position.setdefault(id(graph), len(pool)) == len(pool):
            pool.append(graph)
    places = [np.array([position[id(g)] for g in side]) for side in (graphs1, graphs2)]
    return pool, places[0], places[1]


def _check(graph1, graph2, lam, alpha, start, key) -> None:
    for name, graph in (("graph1", graph1), ("graph2", graph2)):
        if not isinstance(graph, Graph):
            raise InputError(
                f"{name}: expected a Graph, got {type(graph).__name__}; "
                "build one with Graph.from_adjacency"
            )
    widths = graph1.features.shape[-1], graph2.features.shape[-1]
    check(
        widths[0] == widths[1],
        f"graph1, graph2: feature widths differ ({widths[0]} and {widths[1]}); "
        "give both graphs the same features",
    )
    for name, value in (("lam", lam), ("alpha", alpha)):
        if concrete(value):
            array = np.asarray(value, float)
            check(
                bool(((array >= 0) & (array <= 1)).all()),
                f"{name}: must lie in [0, 1], got {value}",
            )
    check(start in STARTS, f"start: unknown name {start!r}; use one of {STARTS}")
    check(
        start != "random" or key is not None,
        "key: a random start needs a random key; pass key=jax.random.key(0)",
    )
