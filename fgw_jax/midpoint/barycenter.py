"""Midpoints of padded sources: from the geodesic between them, or by the paper's outer loop.

``start="random"`` is the paper's loop (:mod:`fgw_jax.midpoint.paper`). ``start="geodesic"`` begins
at plans composed from FGW between the sources and takes a few rounds of
:mod:`fgw_jax.midpoint.descent`. Both end with feasible plans, the averages of those plans, and the
objective they have.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fgw_jax.fgw.iteration import Solver, Status, summary
from fgw_jax.fgw.strict import Strict
from fgw_jax.graphs import Graph
from fgw_jax.midpoint import paper, starts
from fgw_jax.midpoint.descent import Descent, VertexDescent, feasible
from fgw_jax.midpoint.limits import limits
from fgw_jax.midpoint.objective import MidpointProblem, problem_of, reciprocal

ADVICE = {
    Status.CONVERGED: "converged: the last outer step changed the objective within its tolerance",
    Status.STEP_LIMIT: (
        "stopped at the limit of outer steps before the objective settled; the objective is still "
        "that of the returned plans: a geodesic start settles sooner than a random one"
    ),
    Status.NON_FINITE: (
        "not finite: the inputs overflow; scale features and structures "
        "(fgw_jax.fgw.scale_features), or turn on float64"
    ),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Midpoint:
    """A midpoint and what is known of it.

    Attributes:
        graph: the mixed graph before decoding, uniform weights; ``adjacency`` is the same average
            taken of the sources' adjacencies, without its diagonal.
        plans: ``[n, n_i]`` feasible plan between the new nodes and each source.
        values: ``[S]`` FGW(graph, G_i) at these plans.
        objective: sum_i w_i FGW(graph, G_i), the values weighted by the ratios.
        bound: no midpoint's objective is below it: sum_{i<j} w_i w_j L(G_i, G_j), where L is the
            lower bound of the distance (:func:`fgw_jax.fgw.lower_bound`); see :func:`limits`.
        estimate: the same sum with the least FGW values known in place of L: near the least
            objective, but no bound, since lower values may exist.
        num_outer: updates of structure and features.
        converged: whether the last update changed the objective by less than its tolerance.
        status: code of :class:`fgw_jax.fgw.iteration.Status`.
        history: ``[T]`` objective at each outer step, the reported one last: T is
            ``num_outer + 1``, or under ``jit`` the limit of steps, the rest filled with the last.
    """

    graph: Graph
    plans: Any
    values: Any
    objective: Any
    bound: Any
    estimate: Any
    num_outer: Any
    converged: Any
    status: Any
    history: Any

    def message(self) -> str:
        """The status in words, with advice."""
        return ADVICE[Status(int(self.status))]

    def __repr__(self) -> str:
        """One line: objective, the graph, how the solve ended."""
        return f"Midpoint({summary(self.objective, self.status)}, {self.graph!r})"


def solve(
    sources: Graph,
    ratios: ArrayLike,
    size: ArrayLike,
    padded_size: int,
    alpha: ArrayLike,
    solver: Solver | None = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
    alignments: jax.Array | None = None,
    fixed_structure: ArrayLike | None = None,
    fixed_features: ArrayLike | None = None,
    descent: Descent | None = None,
) -> Midpoint:
    """Midpoint of stacked sources (fields with a leading axis ``S``); pure, for jit, vmap and grad.

    A source that has all the weight, asked for at its own size, comes back as it is. Derivatives
    hold the plans fixed. Of the objective that is the envelope theorem, as far as the plans are
    those of a minimum: nearly so from a geodesic start, not where the paper's loop ends. Of the
    graph it is the motion of the averages alone.

    Args:
        sources: graphs padded to ``m`` nodes and stacked.
        ratios: ``[S]`` weights on the simplex.
        size: number of new nodes, may be traced; padded to ``padded_size`` = ``n``.
        padded_size: static number of nodes of the result.
        alpha: structure against features.
        solver: aligns the sources of a geodesic start, and solves every outer step of a random one;
            ``Strict().aligner()`` and ``Strict().inner()`` by default.
        start: ``"geodesic"`` or ``"random"``.
        key: key of the random start.
        alignments: ``[S, m, m]`` plans from the main source to every source, solved here unless
            given (see :func:`align`).
        fixed_structure: ``[n, n]`` structure to keep.
        fixed_features: ``[n, d]`` features to keep.
        descent: improves the plans of a geodesic start; :class:`VertexDescent` by default.

    Returns:
        The midpoint.
    """
    weights = uniform(size, padded_size)
    problem = problem_of(sources, ratios, weights, alpha, fixed_structure, fixed_features)
    fixed = jax.lax.stop_gradient(problem)
    if start == "random":
        inner = jax.lax.stop_gradient(Strict().inner() if solver is None else solver)
        found = paper.paper_loop(fixed, inner, key)
        return paper_finish(problem, sources, jax.lax.stop_gradient(found))
    if alignments is None:
        alignments = align(fixed, Strict().aligner() if solver is None else solver)
    alignments = jax.lax.stop_gradient(alignments)
    descent = jax.lax.stop_gradient(VertexDescent() if descent is None else descent)
    plans, history, count = jax.lax.stop_gradient(warm_loop(fixed, alignments, descent))
    return _describe(problem, sources, plans, alignments, history, count)


def uniform(size: ArrayLike, padded_size: int) -> jax.Array:
    """Weights ``[n]`` of ``size`` new nodes, padded."""
    share = 1.0 / jnp.asarray(size).astype(jnp.result_type(float))
    return jnp.where(jnp.arange(padded_size) < size, share, 0.0)


def align(problem: MidpointProblem, solver: Solver) -> jax.Array:
    """Plans ``[S, m, m]`` from the main source to every source; to itself the identity."""
    main = problem.source(problem.main)
    plan = lambda source: solver.solve(problem.between(main, source)).plan  # noqa: E731
    own = (jnp.arange(problem.num_sources) == problem.main)[:, None, None]
    return jnp.where(own, jnp.diag(main.weights)[None], jax.vmap(plan)(problem.sources))


def paper_finish(problem: MidpointProblem, sources: Graph, state: paper.PaperState) -> Midpoint:
    """The midpoint of the loop's plans, made feasible."""
    plans = jax.lax.stop_gradient(feasible(problem, state.plans, 100))
    return _describe(problem, sources, plans, None, state.history, state.count)


def warm_loop(
    problem: MidpointProblem, alignments: jax.Array, descent: Descent
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Descent from the composed plans ``[S, n, m]``; the start is kept if it was better.

    Args:
        problem: the sources.
        alignments: ``[S, m, m]`` plans from the main source to every source.
        descent: improves the plans.

    Returns:
        The plans, the objective at each round, and the number of rounds.
    """
    plans = starts.geodesic(problem, alignments)
    ends, history, lower = descent.run(problem, plans)
    plans = feasible(problem, jnp.where(lower, ends, plans), 0)
    return plans, history, jnp.asarray(len(history) - 1, jnp.int32)


def _describe(problem, sources, plans, alignments, history, count) -> Midpoint:
    """The midpoint of feasible plans: their averages, objective, bound and status."""
    given, exact = _given_back(problem, sources)
    known = _glued(problem, plans) if alignments is None else alignments
    plans = jnp.where(exact, known[:, _node_order(problem, sources)], plans)
    plans = jnp.where(problem.new_weights[:, None] > 0, plans, 0.0)
    structure, features = problem.update(plans)
    adjacency = problem.average_structure(jnp.asarray(sources.adjacency, structure.dtype), plans)
    real = problem.new_weights > 0
    graph = Graph(
        structure,
        jnp.where(real[:, None], features + problem.centre, 0.0),
        problem.new_weights,
        adjacency * (1.0 - jnp.eye(adjacency.shape[0], dtype=adjacency.dtype)),
        real,
    )
    graph = jax.tree.map(lambda a, b: jnp.where(exact, a.astype(b.dtype), b), given, graph)
    problem = dataclasses.replace(problem, new_weights=graph.weights)
    centred = jnp.where(real[:, None], graph.features - problem.centre, 0.0)
    values = problem.values(graph.structure, centred, plans)
    objective = values @ problem.ratios
    bound, estimate = (
        jnp.where(exact, 0.0, x) for x in jax.lax.stop_gradient(limits(problem, plans, alignments))
    )
    change = jnp.abs(objective - history[count - 1])
    converged = exact | (change <= paper.OUTER_ATOL + paper.OUTER_RTOL * jnp.abs(objective))
    status = jnp.where(converged, Status.CONVERGED, Status.STEP_LIMIT)
    status = jnp.where(jnp.isfinite(objective), status, Status.NON_FINITE).astype(jnp.int32)
    # No NaN where nothing was computed: it would set off jax_debug_nans.
    history = jnp.where(jnp.arange(len(history)) >= count, objective, history)
    return Midpoint(
        graph,
        plans,
        values,
        objective,
        bound,
        estimate,
        count,
        converged,
        status,
        history,
    )


def _glued(problem: MidpointProblem, plans: jax.Array) -> jax.Array:
    """Plans ``[S, m, m]`` from the main source to every source, through the new nodes.

    A source that comes back as the midpoint brings its own weights, which plans ``[S, n, m]`` of
    new nodes of equal weight do not have.
    """
    onward = (plans[problem.main] * reciprocal(problem.new_weights)[:, None]).T @ plans
    own = (jnp.arange(problem.num_sources) == problem.main)[:, None, None]
    return jnp.where(own, jnp.diag(problem.weights[problem.main])[None], onward)


def _node_order(problem: MidpointProblem, sources: Graph) -> jax.Array:
    """The main source's real nodes in order, cut or filled to the number of padded new nodes."""
    order = jnp.argsort(~jnp.asarray(sources.mask)[problem.main], stable=True)
    n = problem.new_weights.shape[0]
    return jnp.pad(order, (0, max(0, n - len(order))), mode="edge")[:n]


def _given_back(problem: MidpointProblem, sources: Graph) -> tuple[Graph, jax.Array]:
    """The main source cut to the midpoint's padding, and whether it is the midpoint, exactly."""
    main, order = problem.main, _node_order(problem, sources)
    real = problem.new_weights > 0
    fits = jnp.asarray(sources.mask)[main].sum() == real.sum()
    exact = (problem.ratios[main] >= 1.0) & fits
    if problem.fixed_structure is not None or problem.fixed_features is not None:
        exact = jnp.zeros_like(exact)
    both = real[:, None] & real[None, :]
    pick = lambda x: jnp.asarray(x)[main][order]  # noqa: E731
    graph = Graph(
        jnp.where(both, pick(sources.structure)[:, order], 0.0),
        jnp.where(real[:, None], pick(sources.features), 0.0),
        jnp.where(real, pick(sources.weights), 0.0),
        jnp.where(both, pick(sources.adjacency)[:, order], 0.0),
        real,
    )
    return graph, exact
