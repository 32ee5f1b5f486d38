"""Public API: `distance`, `distances`, `pairwise`, `trace`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.fgw import gradients, iteration, lanes
from fgw_jax.fgw.checks import (
    check_graphs,
    check_named,
    check_plan,
    check_problem,
    check_solver,
    is_traced,
)
from fgw_jax.fgw.iteration import Output, Solver
from fgw_jax.fgw.problem import from_graphs
from fgw_jax.fgw.scaling import warn_if_dwarfed
from fgw_jax.fgw.strict import Strict
from fgw_jax.graphs import Batch, Graph, check_list
from fgw_jax.inputs import check_whole
from fgw_jax.runtime import batching
from fgw_jax.runtime.shapes import grid_shapes


def distance(
    graph1: Graph,
    graph2: Graph,
    alpha: ArrayLike = 0.95,
    solver: Solver | None = None,
    init: ArrayLike | None = None,
    q: int = 2,
    feature_cost: str | ArrayLike = "sqeuclidean",
) -> Output:
    r"""FGW between two graphs: :math:`\min_{\pi} \mathrm{Eq.~1}`, its plan and diagnostics.

    Pure: works under jit, vmap and grad, on padded graphs. Called on concrete graphs it pads them
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
    check_solver(solver)
    check_problem(alpha, q, feature_cost)
    check_graphs(graph1, graph2, feature_cost)
    n, m = graph1.mask.shape[-1], graph2.mask.shape[-1]
    check_plan(init, (n, m))
    if is_traced(graph1, graph2, alpha, init, feature_cost, solver):
        problem = from_graphs(graph1, graph2, alpha, q, feature_cost)
        return _solve(solver, problem, None if init is None else jnp.asarray(init))
    rows, columns = grid_shapes([n], [m]).shapes[0]
    grow = lambda x: np.pad(np.asarray(x), [(0, rows - n), (0, columns - m)])[None]  # noqa: E731
    named = isinstance(feature_cost, str)
    # A batch of one: the same compiled function, and the same rounding, as distances().
    out = lanes.solve_batch(
        solver,
        Batch.stack([graph1], rows),
        Batch.stack([graph2], columns),
        _number(alpha),
        None if init is None else grow(init),
        None if named else grow(feature_cost),
        q=q,
        feature_cost=feature_cost if named else "given",
        plans=True,
    )
    out = batching.take(out, 0)
    return dataclasses.replace(out, plan=out.plan[:n, :m])


# Compiled by itself, for derivatives asked for outside of any jit.
_solve = jax.jit(gradients.solve)


def trace(
    graph1: Graph,
    graph2: Graph,
    alpha: ArrayLike = 0.95,
    solver: Solver | None = None,
    init: ArrayLike | None = None,
    q: int = 2,
    feature_cost: str | ArrayLike = "sqeuclidean",
    *,
    every: int = 1,
) -> Output:
    """As :func:`distance`, with the objective after every ``every`` steps as ``history`` ``[k]``.

    For plots: all whole blocks of ``every`` steps up to the solver's limit are done, settled or
    not, from one start.

    >>> from fgw_jax import Graph, Relaxed
    >>> path, star = Graph.from_edges([(0, 1), (1, 2), (2, 3)], 4), Graph.from_edges([(0, 1)], 4)
    >>> trace(path, star, solver=Relaxed(schedule=None, max_steps=20), every=5).history.shape
    (4,)
    """
    solver = Strict() if solver is None else solver
    check_solver(solver)
    check(
        hasattr(solver, "step"),
        f"solver: {type(solver).__name__} cannot be followed step by step; use Strict or Relaxed",
    )
    check(
        solver.starts == 1,
        "solver: only one start can be followed; use Strict(starts=1)",
    )
    check_whole("every", every)
    check_problem(alpha, q, feature_cost)
    check_graphs(graph1, graph2, feature_cost)
    check_plan(init, (graph1.mask.shape[-1], graph2.mask.shape[-1]))
    problem = from_graphs(graph1, graph2, alpha, q, feature_cost)
    return _record(solver, problem, None if init is None else jnp.asarray(init), every=every)


_record = jax.jit(iteration.record, static_argnames="every")


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
    solver: Solver | None = None,
    q: int = 2,
    feature_cost: str = "sqeuclidean",
    *,
    plans: bool = True,
    chunk_size: int | None = None,
    max_shapes: int | None = None,
    progress: bool = False,
) -> Distances:
    """FGW between ``graphs1[i]`` and ``graphs2[i]`` for every ``i``, results in input order.

    Pairs are sorted into few padded shapes and run in batches of bounded memory;
    pairs that finish early leave their batch, so that one slow pair does not hold the others.

    Args:
        graphs1: first graphs of the pairs.
        graphs2: second graphs, as many.
        alpha: as in :func:`distance`.
        solver: as in :func:`distance`.
        q: as in :func:`distance`.
        feature_cost: ``"sqeuclidean"`` or ``"euclidean"``.
        plans: keep the plans; without them memory does not grow with the list.
        chunk_size: most pairs solved at once; by default a bound on memory.
        max_shapes: number of padded shapes, fitted to these lists and compiled for them; by default
            shapes come from a fixed grid, and a second list compiles nothing.
        progress: show a bar.

    >>> from fgw_jax import Graph, distances
    >>> path, edge = Graph.from_edges([(0, 1), (1, 2)], 3), Graph.from_edges([(0, 1)], 2)
    >>> distances([path, edge], [path, path]).value.shape
    (2,)
    """
    solver = Strict() if solver is None else solver
    check_solver(solver)
    check_problem(alpha, q, feature_cost)
    check_named(feature_cost)
    graphs1, graphs2 = list(graphs1), list(graphs2)
    check(
        len(graphs1) == len(graphs2),
        f"graphs1, graphs2: {len(graphs1)} and {len(graphs2)} graphs; pair by pair needs as many "
        "of each (pairwise() compares all with all)",
    )
    check_list("graphs1, graphs2", graphs1 + graphs2)
    pool, first, second = batching.pool(graphs1, graphs2)
    warn_if_dwarfed(pool, alpha)
    pairs = lanes.Pairs(pool, first, second, _number(alpha), solver, q, feature_cost, plans)
    return _solve_pairs(pairs, chunk_size, max_shapes, progress)


def pairwise(
    graphs: Sequence[Graph],
    others: Sequence[Graph] | None = None,
    alpha: float = 0.95,
    solver: Solver | None = None,
    q: int = 2,
    feature_cost: str = "sqeuclidean",
    *,
    chunk_size: int | None = None,
    max_shapes: int | None = None,
    progress: bool = False,
) -> np.ndarray:
    """Matrix ``[N, M]`` of FGW values between ``graphs`` and ``others``.

    Without ``others``: between all pairs of ``graphs``. FGW is symmetric, so the upper half of the
    matrix is solved, and copied; a graph's distance to itself is zero.

    >>> from fgw_jax import Graph, pairwise
    >>> path, edge = Graph.from_edges([(0, 1), (1, 2)], 3), Graph.from_edges([(0, 1)], 2)
    >>> matrix = pairwise([path, edge, path])
    >>> matrix.shape, float(matrix[0, 0]), bool(matrix[0, 1] == matrix[1, 0])
    ((3, 3), 0.0, True)
    """
    solver = Strict() if solver is None else solver
    check_solver(solver)
    check_problem(alpha, q, feature_cost)
    check_named(feature_cost)
    left = list(graphs)
    right = left if others is None else list(others)
    check_list("graphs, others", left + right)
    pool = left if others is None else left + right
    warn_if_dwarfed(pool, alpha)
    matrix = np.zeros((len(left), len(right)), np.asarray(left[0].weights).dtype)
    if others is None:
        first, second = row, column = np.triu_indices(len(left), 1)
    else:
        row, column = np.indices(matrix.shape).reshape(2, -1)
        first, second = row, column + len(left)
    if len(row):
        pairs = lanes.Pairs(pool, first, second, _number(alpha), solver, q, feature_cost, False)
        most = len(row) if max_shapes is None else max_shapes
        values = _solve_pairs(pairs, chunk_size, most, progress, _COMPILATION).value
        matrix[row, column] = values
    return matrix + matrix.T if others is None else matrix


#: What a compilation is worth, in entries n^2 m + n m^2 of padded work saved: a second or two.
_COMPILATION = 5e8


def _solve_pairs(
    pairs: lanes.Pairs,
    chunk_size: int | None,
    max_shapes: int | None,
    progress: bool,
    min_gain: float = 0.0,
) -> Distances:
    sizes, count = _sizes(pairs.pool), len(pairs.first)
    groups = batching.pair_groups(
        sizes[pairs.first],
        sizes[pairs.second],
        max_shapes=max_shapes,
        chunk_size=chunk_size,
        min_gain=min_gain,
    )
    kept: list[Any] = [None] * count
    scalars: dict[str, np.ndarray] = {}
    with batching.progress_bar(count, progress, "pairs") as tick:
        for items, out in itertools.chain.from_iterable(lanes.solve(pairs, groups)):
            for name in _SCALARS:
                values = getattr(out, name)
                scalars.setdefault(name, np.zeros(count, values.dtype))[items] = values
            if pairs.plans:
                for lane, item in enumerate(items):
                    n, m = sizes[pairs.first[item]], sizes[pairs.second[item]]
                    kept[item] = out.plan[lane, :n, :m].copy()
            tick(len(items))
    return Distances(plans=kept if pairs.plans else None, **scalars)


def _sizes(graphs: Sequence[Graph]) -> np.ndarray:
    return np.array([g.mask.shape[-1] for g in graphs])


def _number(value: Any) -> jax.Array:
    return jnp.asarray(value, jnp.result_type(float))
