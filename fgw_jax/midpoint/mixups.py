"""Public API: one midpoint (:func:`mixup`), ragged lists of pairs (:func:`mixups`)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import InputError, check
from fgw_jax.fgw import distances, from_graphs
from fgw_jax.fgw.checks import check_problem
from fgw_jax.fgw.iteration import Solver
from fgw_jax.graphs import Graph, check_list, is_single
from fgw_jax.inputs import check_whole, concrete
from fgw_jax.midpoint import lanes, sizes
from fgw_jax.midpoint.barycenter import Midpoint
from fgw_jax.midpoint.descent import Descent
from fgw_jax.midpoint.roles import resolve_roles
from fgw_jax.runtime import batching

#: Pairs whose alignments are held at a time: what is held beside the results does not grow.
BLOCK = 8192


def mixup(
    graph1: Graph,
    graph2: Graph,
    lam: ArrayLike,
    alpha: ArrayLike = 0.95,
    solver: Solver | None = None,
    size: int | None = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
    *,
    aligner: Solver | None = None,
    descent: Descent | None = None,
) -> Midpoint:
    r"""Midpoint of two graphs, Eq. 2 of the paper.

    .. math::

        \arg\min_{\tilde G} \lambda\, \mathrm{FGW}(\tilde G, G_1)
            + (1 - \lambda)\, \mathrm{FGW}(\tilde G, G_2)

    Pure: works under jit, vmap and grad on padded graphs, where the result is padded to the larger
    of the two unless ``size`` is given. On concrete graphs the result has no padding. Derivatives
    are those of the objective at fixed plans, as for :func:`fgw_jax.distance`.

    Args:
        graph1: first graph, ``n1`` nodes.
        graph2: second graph, ``n2`` nodes, of the same feature width.
        lam: weight of the first graph, in [0, 1]; at 0 and 1 the source comes back as it is.
        alpha: structure against features, in [0, 1].
        solver: ``Strict()`` (default, Alg. 1) or ``Relaxed()`` (Alg. 2). From a geodesic start it
            aligns the two graphs (``Strict()`` and ``Relaxed()`` as :meth:`Solver.aligner` says)
            and names the descent; from a random one it solves every outer step.
        size: nodes of the midpoint; round(lam n1 + (1 - lam) n2) by default.
        start: ``"geodesic"`` (default) or the paper's ``"random"``, which needs a ``key``.
        key: random key of the random start.
        aligner: aligns the two graphs for a geodesic start, instead of ``solver``.
        descent: improves the plans of a geodesic start:
            :class:`fgw_jax.midpoint.VertexDescent` (default) or
            :class:`fgw_jax.midpoint.RelaxedDescent` (default for ``Relaxed()``).

    Returns:
        The midpoint.

    Raises:
        InputError: for arguments that do not fit, or would have no effect.

    >>> from fgw_jax import Graph, mixup
    >>> path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], 4)
    >>> star = Graph.from_edges([(0, 1), (0, 2), (0, 3)], 4)
    >>> mid = mixup(path, star, 0.5)
    >>> mid.graph.num_nodes, mid.plans[0].shape, bool(mid.objective >= mid.bound)
    (4, (4, 4), True)
    """
    key = _stacked(key)
    roles = resolve_roles(solver, start, key, aligner, descent)
    _check(graph1, graph2, lam, alpha)
    # One key is this pair's own, as in mixups(key=[key]), not one to draw keys from.
    key = key[None] if key is not None and _is_one(key) else key
    check(np.ndim(lam) == 0, f"lam: expected one number, got shape {np.shape(lam)}; see mixups")
    if size is not None:
        check_whole("size", size)
    traced = (graph1, graph2, lam, alpha, roles.aligner, roles.descent, key)
    if all(concrete(leaf) for leaf in jax.tree.leaves(traced)):
        ratios = [float(np.asarray(lam))]
        options: dict[str, Any] = {"aligner": aligner, "descent": descent}
        return mixups([graph1], [graph2], ratios, alpha, solver, size, start, key, **options)[0]
    return _traced(
        graph1, graph2, lam, alpha, roles.aligner, roles.descent, key, size=size, start=start
    )


# Compiled by itself, for derivatives asked for outside of any jit.
@functools.partial(jax.jit, static_argnames=("size", "start"))
def _traced(graph1, graph2, lam, alpha, solver, descent, key, *, size, start) -> Midpoint:
    n1, n2 = graph1.mask.shape[-1], graph2.mask.shape[-1]
    m = max(n1, n2)
    lam = jnp.asarray(lam, jnp.result_type(float))
    sources = jax.tree.map(lambda a, b: jnp.stack([a, b]), graph1.pad(m), graph2.pad(m))
    plan = None
    if start == "geodesic":
        fixed, problem = jax.lax.stop_gradient((solver, from_graphs(graph1, graph2, alpha)))
        plan = jnp.pad(fixed.solve(problem).plan, ((0, m - n1), (0, m - n2)))
    nodes = sizes.adaptive(graph1.num_nodes, graph2.num_nodes, lam) if size is None else size
    key = None if key is None else _keys(key, 1)[0]
    mid = lanes.of_pair(
        sources, lam, nodes, m if size is None else size, alpha, solver, descent, start, key, plan
    )
    return dataclasses.replace(mid, plans=(mid.plans[0, :, :n1], mid.plans[1, :, :n2]))


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

    @property
    def estimate(self) -> np.ndarray:
        """``[N]`` estimates of the least objective."""
        return np.array([mid.estimate for mid in self.items])


def mixups(
    graphs1: Sequence[Graph],
    graphs2: Sequence[Graph],
    lams: ArrayLike | Sequence[float],
    alpha: ArrayLike = 0.95,
    solver: Solver | None = None,
    size: int | Sequence[int] | None = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
    *,
    aligner: Solver | None = None,
    descent: Descent | None = None,
    chunk_size: int | None = None,
    max_shapes: int | None = None,
    progress: bool = False,
) -> Midpoints:
    """Midpoint of ``graphs1[i]`` and ``graphs2[i]`` at ``lams[i]`` for every ``i``, input order.

    Pairs are sorted into few padded shapes and run chunk by chunk. A pair that
    occurs with several ratios (the same two graph objects) is aligned once.

    Args:
        graphs1: first graphs of the pairs.
        graphs2: second graphs, as many.
        lams: ``[N]`` weights of the first graphs.
        alpha: as in :func:`mixup`.
        solver: as in :func:`mixup`.
        size: nodes of every midpoint, or one number for each; adaptive by default.
        start: as in :func:`mixup`.
        key: one random key, from which every pair gets its own (``jax.random.split``), or ``[N]``
            keys, one per pair: ``mixups([a], [b], [lam], key=[key])`` is ``mixup(a, b, lam,
            key=key)``.
        aligner: as in :func:`mixup`.
        descent: as in :func:`mixup`.
        chunk_size: most pairs solved at once; by default a bound on memory.
        max_shapes: number of padded shapes fitted to these lists; by default a fixed grid.
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
    key = _stacked(key)
    roles = resolve_roles(solver, start, key, aligner, descent)
    _check(graphs1[0], graphs2[0], lams_, alpha)
    pool, first, second = batching.pool(graphs1, graphs2)
    counts = np.array([g.num_nodes for g in pool])
    nodes = _sizes(size, counts[first], counts[second], lams_)
    # The larger graph first: half as many padded shapes. Plans and values are turned back below.
    turned = counts[first] < counts[second]
    first, second = np.where(turned, second, first), np.where(turned, first, second)
    lams_ = np.where(turned, 1.0 - lams_, lams_)
    dtype = np.asarray(pool[0].weights).dtype
    keys = None if key is None else _keys(key, len(graphs1))
    items: list[Any] = [None] * len(graphs1)
    with batching.progress_bar(len(items), progress, "midpoints") as advance:
        for block in blocks(first, second):
            ends = pool, first[block], second[block]
            alignments = None
            if start == "geodesic":
                alignments = _alignments(*ends, alpha, roles.aligner, chunk_size, max_shapes)
            pairs = lanes.Pairs(
                *ends,
                lams_[block].astype(dtype),
                nodes[block],
                turned[block],
                np.asarray(alpha, dtype),
                roles,
                None if keys is None else keys[block],
                alignments,
            )
            groups = batching.pair_groups(
                nodes[block], pairs.sides.max(1), max_shapes=max_shapes, chunk_size=chunk_size
            )
            for found in lanes.solve(pairs, groups):
                for item, mid in found:
                    items[block[item]] = mid
                advance(len(found))
    return Midpoints(items)


def _alignments(pool, first, second, alpha, solver, chunk_size, max_shapes) -> list[np.ndarray]:
    """Plan between the two sources of each item; a pair that occurs again is solved once."""
    pairs, inverse = np.unique(np.stack([first, second], 1), axis=0, return_inverse=True)
    outs = distances(
        [pool[i] for i in pairs[:, 0]],
        [pool[i] for i in pairs[:, 1]],
        alpha,
        solver,
        chunk_size=chunk_size,
        max_shapes=max_shapes,
    )
    assert outs.plans is not None  # noqa: S101 - plans are kept by default
    return [outs.plans[k] for k in inverse]


def blocks(first: np.ndarray, second: np.ndarray, size: int = BLOCK) -> list[np.ndarray]:
    """Positions of pairs in blocks of at most ``size``; equal pairs stand together."""
    if len(first) <= size:
        return [np.arange(len(first))]
    order = np.lexsort((second, first))
    return [order[start : start + size] for start in range(0, len(order), size)]


def _keys(key: jax.Array, count: int) -> jax.Array:
    """``count`` keys from one; as many given are taken as they are."""
    if _is_one(key):
        return jax.random.split(key, count)
    check(len(key) == count, f"key: {len(key)} keys for {count} pairs; pass one, or one a pair")
    return key


def _is_one(key: jax.Array) -> bool:
    """Whether this is a single key, typed or raw."""
    return key.ndim == (0 if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else 1)


def _stacked(key: Any) -> Any:
    """A list of keys as an array of keys; anything else as it is."""
    if not isinstance(key, list | tuple) or not all(isinstance(k, jax.Array) for k in key):
        return key
    return jnp.stack(key) if key else key


def _sizes(size: Any, n1: np.ndarray, n2: np.ndarray, lams: np.ndarray) -> np.ndarray:
    if size is None:
        return sizes.adaptive(n1, n2, lams)
    nodes = np.asarray(size)
    check(
        nodes.shape in ((), lams.shape) and nodes.dtype.kind in "iu" and bool((nodes >= 1).all()),
        f"size: expected a whole number of nodes, at least 1, or one a pair, got {size}",
    )
    return np.broadcast_to(nodes, lams.shape)


def _check(graph1, graph2, lam, alpha) -> None:
    for name, graph in (("graph1", graph1), ("graph2", graph2)):
        if not is_single(graph):
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
    check_problem(alpha, 2, "sqeuclidean")
    if concrete(lam):
        ratios = np.asarray(lam, float)
        inside = bool(((ratios >= 0) & (ratios <= 1)).all())
        check(inside, f"lam: must lie in [0, 1], got {lam}")
