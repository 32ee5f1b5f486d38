"""The way in: one pair (:func:`distance`), ragged lists (:func:`distances`), all pairs."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax import streaming
from fgw_jax.buckets import round_up
from fgw_jax.errors import InputError, check
from fgw_jax.fgw import iteration
from fgw_jax.fgw.iteration import Output
from fgw_jax.fgw.problem import check_feature_cost, from_graphs
from fgw_jax.fgw.strict import Strict
from fgw_jax.graphs import Graph, check_list


def distance(
    graph1: Graph,
    graph2: Graph,
    alpha: ArrayLike = 0.95,
    solver: Any = None,
    init: ArrayLike | None = None,
    q: int = 2,
    feature_cost: str | ArrayLike = "sqeuclidean",
) -> Output:
    r"""FGW between two graphs: :math:`\min_{\pi} \mathrm{Eq.~1}`, its plan and diagnostics.

    Pure: goes under jit, vmap and grad, on padded graphs. Called on concrete graphs it pads them
    to the bucket grid, so that graphs of similar size share one compilation, and crops the plan.

    Args:
        graph1: first graph, ``n`` nodes.
        graph2: second graph, ``m`` nodes, of the same feature width.
        alpha: structure against features, in [0, 1]; 1 is Gromov-Wasserstein, 0 Wasserstein.
        solver: ``Strict()`` (default), ``Relaxed()`` or ``Reference()``.
        init: plan ``[n, m]`` to start from.
        q: exponent of Eq. 1; q = 1 contracts the fourfold sum directly, for small graphs.
        feature_cost: ``"sqeuclidean"``, ``"euclidean"`` or a matrix ``[n, m]``, taken as d^q.

    A batch inside one's own jit::

        batch1, batch2 = Batch.stack(graphs1), Batch.stack(graphs2)
        values = jax.jit(jax.vmap(lambda a, b: fgw_jax.distance(a, b).value))(batch1, batch2)

    >>> from fgw_jax import Graph, distance
    >>> path = Graph.from_edges([(0, 1), (1, 2)], 3)
    >>> round(float(distance(path, path).value), 5)
    0.0
    """
    solver = Strict() if solver is None else solver
    _check_arguments(graph1, graph2, alpha, q, feature_cost)
    _check_init(init, graph1, graph2)
    leaves = jax.tree.leaves((graph1, graph2, alpha, init, feature_cost, solver))
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        problem = from_graphs(graph1, graph2, alpha, q, feature_cost)
        return solver.solve(problem, None if init is None else jnp.asarray(init))
    n, m = graph1.mask.shape[-1], graph2.mask.shape[-1]
    rows, columns = round_up(n), round_up(m)
    grow = lambda x: np.pad(np.asarray(x), [(0, rows - n), (0, columns - m)])  # noqa: E731
    if not isinstance(feature_cost, str):
        feature_cost = grow(feature_cost)
    out = _solve_one(
        solver,
        graph1.pad(rows),
        graph2.pad(columns),
        alpha,
        None if init is None else grow(init),
        None if isinstance(feature_cost, str) else feature_cost,
        q=q,
        name=feature_cost if isinstance(feature_cost, str) else None,
    )
    return dataclasses.replace(out, plan=out.plan[:n, :m])


@functools.partial(jax.jit, static_argnames=("q", "name"))
def _solve_one(solver, graph1, graph2, alpha, init, cost, *, q, name):
    problem = from_graphs(graph1, graph2, alpha, q, cost if name is None else name)
    return solver.solve(problem, init)


@dataclasses.dataclass(frozen=True, eq=False)
class Distances:
    """Results of :func:`distances` in input order, in host memory.

    Scalars of :class:`Output` are numpy arrays ``[N]``; ``outs[i]`` is the output of pair ``i``
    with its plan cropped to ``(n1, n2)``.
    """

    value: np.ndarray
    linear: np.ndarray
    quadratic: np.ndarray
    marginal_error: np.ndarray
    gap: np.ndarray
    num_steps: np.ndarray
    converged: np.ndarray
    status: np.ndarray
    plans: list[np.ndarray] | None

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.value)

    def __getitem__(self, index: int) -> Output:
        """Output of pair ``index``."""
        check(
            self.plans is not None,
            "plans: they were not kept; call distances(..., plans=True) to read single outputs",
        )
        assert self.plans is not None  # noqa: S101 - told above, for the type checker
        scalars = {name: getattr(self, name)[index] for name in _SCALARS}
        return Output(plan=self.plans[index], **scalars)


_SCALARS = (
    "value",
    "linear",
    "quadratic",
    "marginal_error",
    "gap",
    "num_steps",
    "converged",
    "status",
)


def distances(
    graphs1: Sequence[Graph],
    graphs2: Sequence[Graph],
    alpha: float = 0.95,
    solver: Any = None,
    q: int = 2,
    feature_cost: str = "sqeuclidean",
    *,
    plans: bool = True,
    chunk_size: int | None = None,
    max_shapes: int = 12,
    progress: bool = False,
) -> Distances:
    """FGW between ``graphs1[i]`` and ``graphs2[i]`` for every ``i``, results in input order.

    Pairs are oriented (larger graph first), sorted into at most ``max_shapes`` padded shapes, and
    run chunk by chunk; pairs that finish early leave the batch, so that one slow pair does not
    hold the others.

    Args:
        graphs1: first graphs of the pairs.
        graphs2: second graphs, as many.
        alpha: as in :func:`distance`.
        solver: as in :func:`distance`.
        q: as in :func:`distance`.
        feature_cost: ``"sqeuclidean"`` or ``"euclidean"``.
        plans: keep the plans; without them memory does not grow with the list.
        chunk_size: most pairs solved at once; by default a bound on memory.
        max_shapes: most padded shapes, each compiled once.
        progress: show a bar.

    >>> from fgw_jax import Graph, distances
    >>> path, edge = Graph.from_edges([(0, 1), (1, 2)], 3), Graph.from_edges([(0, 1)], 2)
    >>> distances([path, edge], [path, path]).value.shape
    (2,)
    """
    solver = Strict() if solver is None else solver
    graphs1, graphs2 = list(graphs1), list(graphs2)
    check(
        len(graphs1) == len(graphs2),
        f"graphs1, graphs2: {len(graphs1)} and {len(graphs2)} graphs; pair by pair needs as many "
        "of each (pairwise() compares all with all)",
    )
    check_list("graphs1, graphs2", graphs1 + graphs2)
    _check_arguments(graphs1[0], graphs2[0], alpha, q, feature_cost)
    pool, first, second = _pool(graphs1, graphs2)
    _warn_if_dwarfed(pool, alpha)
    return _solve_pairs(
        pool, first, second, alpha, solver, q, feature_cost, plans, chunk_size, max_shapes, progress
    )


def pairwise(
    graphs: Sequence[Graph],
    others: Sequence[Graph] | None = None,
    alpha: float = 0.95,
    solver: Any = None,
    q: int = 2,
    feature_cost: str = "sqeuclidean",
    *,
    chunk_size: int | None = None,
    max_shapes: int = 8,
    progress: bool = False,
) -> np.ndarray:
    """Matrix ``[N, M]`` of FGW values between ``graphs`` and ``others``.

    Without ``others``: between all pairs of ``graphs``; half of the symmetric matrix is solved,
    and the diagonal is solved from the identity plan, which is exact there.
    """
    solver = Strict() if solver is None else solver
    symmetric = others is None
    left = list(graphs)
    right = left if others is None else list(others)
    check_list("graphs, others", left + right)
    _check_arguments(left[0], right[0], alpha, q, feature_cost)
    _warn_if_dwarfed(left, alpha)
    pool = left if symmetric else left + right
    if symmetric:
        first, second = np.triu_indices(len(left), 1)
    else:
        grid = np.indices((len(left), len(right))).reshape(2, -1)
        first, second = grid[0], grid[1] + len(left)
    matrix = np.zeros((len(left), len(right)), np.asarray(left[0].weights).dtype)
    if len(first):
        values = _solve_pairs(
            pool, first, second, alpha, solver, q, feature_cost, False, chunk_size, max_shapes,
            progress,
        ).value  # fmt: skip
        if symmetric:
            matrix[first, second] = values
            matrix += matrix.T
        else:
            matrix[first, second - len(left)] = values
    return matrix


def scale_features(graphs: Sequence[Graph], target: float = 1.0) -> list[Graph]:
    """The graphs with features divided by one number, so that the mean |x - y|^2 is ``target``.

    alpha weighs structure against features only while their costs are of one size; adjacency
    differences are at most 1, so a mean squared feature distance of 1 is a natural choice.
    """
    check_list("graphs", list(graphs))
    spread = _mean_feature_cost(graphs)
    factor = np.sqrt(target / spread) if spread > 0 else 1.0
    return [
        dataclasses.replace(g, features=(g.features * factor).astype(g.features.dtype))
        for g in graphs
    ]


def _solve_pairs(
    pool, first, second, alpha, solver, q, feature_cost, plans, chunk_size, max_shapes, progress
) -> Distances:
    sizes = np.array([g.mask.shape[-1] for g in pool])
    # The larger graph first: FGW is symmetric, and half of the shapes are saved.
    swap = sizes[first] < sizes[second]
    rows, columns = np.where(swap, second, first), np.where(swap, first, second)
    chunks = streaming.pair_chunks(
        sizes[rows], sizes[columns], max_shapes=max_shapes, chunk_size=chunk_size
    )
    kept: list[Any] = [None] * len(first)
    scalars: dict[str, np.ndarray] = {}
    alpha = jnp.asarray(alpha, jnp.result_type(float))
    for chunk in streaming.with_progress(chunks, progress, "pairs"):
        n, m = chunk.shape
        batch1 = streaming.stack(pool, rows[chunk.lanes], n)
        batch2 = streaming.stack(pool, columns[chunk.lanes], m)
        problem = _problems(batch1, batch2, alpha, q=q, feature_cost=feature_cost)
        out = jax.tree.map(np.asarray, _solve_batch(solver, problem, plans))
        for name in _SCALARS:
            values = getattr(out, name)
            column = scalars.setdefault(name, np.zeros(len(first), values.dtype))
            column[chunk.items] = values[: len(chunk.items)]
        if plans:
            for lane, item in enumerate(chunk.items):
                plan = out.plan[lane, : sizes[rows[item]], : sizes[columns[item]]]
                kept[item] = plan.T if swap[item] else plan
    return Distances(plans=kept if plans else None, **scalars)


@functools.partial(jax.jit, static_argnames=("q", "feature_cost"))
def _problems(batch1, batch2, alpha, *, q, feature_cost):
    build = lambda a, b: from_graphs(a, b, alpha, q, feature_cost)  # noqa: E731
    return jax.vmap(build)(batch1, batch2)


def _solve_batch(solver: Any, problem: Any, plans: bool) -> Output:
    """Solve stacked problems; lanes that finish leave the batch at every fourfold reduction."""
    if not hasattr(solver, "step_limit") or iteration.fixed_count(solver):
        return _solve_lanes(solver, problem, plans=plans)
    lanes = np.arange(problem.cost.shape[0])
    state = _init_lanes(solver, problem)
    done: list[tuple[np.ndarray, Any]] = []
    while True:
        state, ready = _advance_lanes(solver, problem, state)
        ready = np.array(ready)
        if ready.all():
            done.append((lanes, _output_lanes(solver, problem, state, plans=plans)))
            break
        remaining = int((~ready).sum())
        if remaining * 4 <= len(lanes):
            keep = np.flatnonzero(~ready)
            keep = np.concatenate([keep, np.full(_quarter(len(lanes)) - remaining, keep[0])])
            leave = np.flatnonzero(ready)
            out = _output_lanes(solver, problem, state, plans=plans)
            done.append((lanes[leave], streaming.take(jax.tree.map(np.asarray, out), leave)))
            problem, state = streaming.take((problem, state), keep)
            lanes = lanes[keep]
    return _merge(done)


def _quarter(count: int) -> int:
    return -(-count // 4)


def _merge(parts: list[tuple[np.ndarray, Any]]) -> Output:
    """Outputs of the parts put back in lane order (filler lanes overwrite with equal values)."""
    total = max(int(lanes.max()) for lanes, _ in parts) + 1

    def place(*leaves):
        out = np.zeros((total, *leaves[0].shape[1:]), np.asarray(leaves[0]).dtype)
        for (lanes, _), leaf in zip(parts, leaves, strict=True):
            out[lanes] = np.asarray(leaf)
        return out

    return jax.tree.map(place, *(out for _, out in parts))


def _drop_plan(out: Output, plans: bool) -> Output:
    return out if plans else dataclasses.replace(out, plan=None)


@functools.partial(jax.jit, static_argnames="plans")
def _solve_lanes(solver, problem, *, plans):
    return _drop_plan(jax.vmap(solver.solve)(problem), plans)


@jax.jit
def _init_lanes(solver, problem):
    return jax.vmap(lambda p: solver.init(p, None))(problem)


@jax.jit
def _advance_lanes(solver, problem, state):
    def block(p, s):
        # A finished lane stays as it is: its result must not depend on its neighbours.
        new = iteration.advance(solver, p, s)
        ready = iteration.finished(solver, s)
        return jax.tree.map(lambda a, b: jnp.where(ready, a, b), s, new)

    state = jax.vmap(block)(problem, state)
    return state, jax.vmap(lambda s: iteration.finished(solver, s))(state)


@functools.partial(jax.jit, static_argnames="plans")
def _output_lanes(solver, problem, state, *, plans):
    return _drop_plan(jax.vmap(solver.output)(problem, state), plans)


def _pool(graphs1: list[Graph], graphs2: list[Graph]):
    """Distinct graphs of both lists, and the position of each side of each pair among them."""
    position: dict[int, int] = {}
    pool: list[Graph] = []

    def place(graph):
        if id(graph) not in position:
            position[id(graph)] = len(pool)
            pool.append(graph)
        return position[id(graph)]

    first = np.array([place(g) for g in graphs1], np.int64)
    second = np.array([place(g) for g in graphs2], np.int64)
    return pool, first, second


def _check_arguments(graph1, graph2, alpha, q, feature_cost) -> None:
    for name, graph in (("graph1", graph1), ("graph2", graph2)):
        if not isinstance(graph, Graph):
            raise InputError(
                f"{name}: expected a Graph, got {type(graph).__name__}; "
                "build one with Graph.from_adjacency"
            )
    widths = graph1.features.shape[-1], graph2.features.shape[-1]
    check(
        widths[0] == widths[1] or not isinstance(feature_cost, str),
        f"graph1, graph2: feature widths differ ({widths[0]} and {widths[1]}); "
        "give both graphs the same features, or pass feature_cost as a matrix",
    )
    check(q in (1, 2), f"q: must be 1 or 2, got {q!r}")
    if isinstance(feature_cost, str):
        check_feature_cost(feature_cost)
    if not isinstance(alpha, jax.core.Tracer):
        array = np.asarray(alpha)
        check(
            bool(((array >= 0) & (array <= 1)).all()),
            f"alpha: must lie in [0, 1], got {alpha}; 1 compares structures only, 0 features only",
        )


def _check_init(init, graph1, graph2) -> None:
    if init is None:
        return
    shape = (graph1.mask.shape[-1], graph2.mask.shape[-1])
    check(
        tuple(np.shape(init)) == shape,
        f"init: expected a plan of shape {shape}, got {np.shape(init)}",
    )


def _mean_feature_cost(graphs: Sequence[Graph]) -> float:
    """Mean |x - y|^2 over nodes of all graphs: twice the total variance of the features."""
    rows = np.concatenate([np.asarray(g.features, np.float64)[np.asarray(g.mask)] for g in graphs])
    return float(2.0 * rows.var(0).sum())


def _warn_if_dwarfed(graphs: Sequence[Graph], alpha: Any) -> None:
    """Warn when the feature cost is so large beside the structure that alpha means nothing."""
    sample = list(graphs[:64])
    structure = np.mean([np.square(np.asarray(g.structure, np.float64)).max() for g in sample])
    features = _mean_feature_cost(sample)
    weight = float(np.asarray(alpha))
    if 0 < weight < 1 and (1 - weight) * features > 1e3 * weight * max(structure, 1e-30):
        warnings.warn(
            f"the mean feature cost ({features:.3g}) dwarfs the structure (largest squared entry "
            f"{structure:.3g}) at alpha={weight}: structure hardly counts. "
            "fgw_jax.fgw.scale_features brings features to one scale.",
            UserWarning,
            stacklevel=3,
        )
