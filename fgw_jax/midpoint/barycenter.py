r"""Midpoints of padded sources: Alg. 1 and Alg. 2 of the paper, and a faster way.

``start="random"`` is the paper's: every outer step solves the plans anew with the given solver,
from its own start, then averages (lines 7 and 8); ``Relaxed(schedule=None, plan="last")`` makes it
Alg. 2 to the letter. ``start="geodesic"`` begins at plans composed from FGW between the sources and
takes a few steps of :mod:`fgw_jax.midpoint.descent`. Both end with feasible plans, the averages of
those plans, and the objective they have.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.fgw import bounds
from fgw_jax.fgw.iteration import Status
from fgw_jax.fgw.relaxed import Relaxed
from fgw_jax.fgw.strict import Strict
from fgw_jax.graphs import Graph
from fgw_jax.midpoint import descent, starts
from fgw_jax.midpoint.objective import MidpointProblem, problem_of, reciprocal

#: Change of the objective, relative and absolute, that ends the outer loop.
OUTER_RTOL, OUTER_ATOL = 5e-4, 1e-7
#: Most outer steps of the paper's loop.
OUTER_LIMIT = 200
#: Rounds of the warm descent: twice as many lower the objective by 0.1 %, half as many raise it by
#: 0.5 %.
WARM_ROUNDS = 8
#: Pairs of sources whose lower bounds are computed at once.
PAIRS_AT_ONCE = 32
#: Sinkhorn sweeps before a plan inside the paper's loop is rounded, for the default solver.
COLD_SWEEPS = 10

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


def solve(
    sources: Graph,
    ratios: ArrayLike,
    size: ArrayLike,
    padded_size: int,
    alpha: ArrayLike,
    solver: Any = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
    alignments: jax.Array | None = None,
    fixed_structure: ArrayLike | None = None,
    fixed_features: ArrayLike | None = None,
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
        solver: ``Strict()`` by default.
        start: ``"geodesic"`` or ``"random"``.
        key: key of the random start.
        alignments: ``[S, m, m]`` plans from the main source to every source, solved here unless
            given (see :func:`align`).
        fixed_structure: ``[n, n]`` structure to keep.
        fixed_features: ``[n, d]`` features to keep.
    """
    solver = Strict() if solver is None else solver
    weights = uniform(size, padded_size)
    problem = problem_of(sources, ratios, weights, alpha, fixed_structure, fixed_features)
    fixed, solver = jax.lax.stop_gradient((problem, solver))
    if start == "random":
        found = paper_loop(fixed, cold(solver), key)
        return paper_finish(problem, sources, jax.lax.stop_gradient(found))
    if alignments is None:
        alignments = align(fixed, aligner(solver))
    alignments = jax.lax.stop_gradient(alignments)
    plans, history, count = jax.lax.stop_gradient(warm_loop(fixed, alignments, solver))
    return _describe(problem, sources, plans, alignments, history, count)


def cold(solver: Any) -> Any:
    """The solver inside the paper's loop: mirror descent; plans of a schedule are rounded.

    Line 8 divides by the weights of the new nodes, which plans that miss them do not forgive. Alg.
    2 to the letter, ``Relaxed(schedule=None, plan="last")``, is left as it is. Plans of an outer
    step are averaged over and forgotten, so that few sweeps before their rounding are enough.
    """
    if isinstance(solver, Relaxed) and solver.schedule is not None:
        return dataclasses.replace(solver, round=True)
    inner = smooth(solver)
    return solver if inner is solver else dataclasses.replace(inner, final_sweeps=COLD_SWEEPS)


def smooth(solver: Any) -> Any:
    """The solver, with mirror descent where the conditional gradient from one start is asked for.

    For plans that need not end on a vertex: a third of the time, on large graphs far less.
    """
    if isinstance(solver, Strict) and solver.method == "cg" and solver.starts == 1:
        return dataclasses.replace(solver, method="mirror")
    return solver


def aligner(solver: Any) -> Any:
    """The solver that aligns the sources: mirror descent where conditional gradient is asked for.

    The midpoint's own descent goes on to vertices, so that the alignment need not end on one. It
    has to be feasible, though.
    """
    if isinstance(solver, Relaxed):
        return dataclasses.replace(solver, round=True)
    return smooth(solver)


def uniform(size: ArrayLike, padded_size: int) -> jax.Array:
    """Weights ``[n]`` of ``size`` new nodes, padded."""
    share = 1.0 / jnp.asarray(size).astype(jnp.result_type(float))
    return jnp.where(jnp.arange(padded_size) < size, share, 0.0)


def align(problem: MidpointProblem, solver: Any) -> jax.Array:
    """Plans ``[S, m, m]`` from the main source to every source; to itself the identity."""
    main = problem.source(problem.main)
    plan = lambda source: solver.solve(problem.between(main, source)).plan  # noqa: E731
    own = (jnp.arange(problem.num_sources) == problem.main)[:, None, None]
    return jnp.where(own, jnp.diag(main.weights)[None], jax.vmap(plan)(problem.sources))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class PaperState:
    """What the paper's outer loop carries.

    Attributes:
        structure: ``[n, n]`` structure of the midpoint.
        features: ``[n, d]`` its features, centred.
        plans: ``[S, n, m]`` plans of the last outer step.
        history: ``[OUTER_LIMIT + 1]`` objective at each outer step, zero where none was.
        count: outer steps done.
    """

    structure: Any
    features: Any
    plans: Any
    history: Any
    count: Any


def paper_start(problem: MidpointProblem, key: Any) -> PaperState:
    """Random structure, features zero, product plans (Alg. 1 and 2, line 1)."""
    structure, features = starts.random_graph(problem, key)
    structure = structure if problem.fixed_structure is None else problem.fixed_structure
    features = features if problem.fixed_features is None else problem.fixed_features
    plans = problem.new_weights[None, :, None] * problem.weights[:, None, :]
    history = jnp.zeros(OUTER_LIMIT + 1, problem.new_weights.dtype)
    return PaperState(structure, features, plans, history, jnp.zeros((), jnp.int32))


def paper_step(problem: MidpointProblem, solver: Any, state: PaperState) -> PaperState:
    """One outer step: plans solved anew, from the solver's own start, then lines 7 and 8."""

    def solve_(source):
        return solver.solve(problem.transport(state.structure, state.features, source))

    outs = jax.vmap(solve_)(problem.sources)
    history = state.history.at[state.count].set(outs.value @ problem.ratios)
    structure, features = problem.update(outs.plan)
    if isinstance(solver, Relaxed) and not solver.round and problem.fixed_features is None:
        features = features + problem.drift(outs.plan)
    return PaperState(structure, features, outs.plan, history, state.count + 1)


def paper_done(state: PaperState) -> jax.Array:
    """Whether the objective changed by less than its tolerance, or the limit is reached."""
    last, before = state.history[state.count - 1], state.history[state.count - 2]
    settled = jnp.abs(last - before) <= OUTER_ATOL + OUTER_RTOL * jnp.abs(last)
    return (state.count >= OUTER_LIMIT) | ((state.count >= 2) & settled)


def paper_loop(problem: MidpointProblem, solver: Any, key: Any) -> PaperState:
    """Alg. 1 (a strict solver) or Alg. 2 (a relaxed one) until the objective settles."""
    return jax.lax.while_loop(
        lambda state: ~paper_done(state),
        lambda state: paper_step(problem, solver, state),
        paper_start(problem, key),
    )


def paper_finish(problem: MidpointProblem, sources: Graph, state: PaperState) -> Midpoint:
    """The midpoint of the loop's plans, made feasible."""
    plans = jax.lax.stop_gradient(descent.feasible(problem, state.plans, 100))
    return _describe(problem, sources, plans, None, state.history, state.count)


def warm_loop(problem: MidpointProblem, alignments: jax.Array, solver: Any):
    """A few rounds of descent from the composed plans; the start is kept if it was better."""
    plans = starts.geodesic(problem, alignments)
    objective = lambda p: problem.values(*problem.update(p), p) @ problem.ratios  # noqa: E731
    initial = objective(plans)
    if isinstance(solver, Relaxed):
        ends, later = descent.relaxed_steps(problem, plans, WARM_ROUNDS, solver.step_size)
        history = jnp.concatenate([initial[None], later])
        lower = objective(ends) < initial
    else:
        ends, gains = descent.vertex_steps(problem, plans, WARM_ROUNDS)
        history = initial - jnp.concatenate([jnp.zeros(1, gains.dtype), jnp.cumsum(gains)])
        lower = gains.sum() > 0
    plans = descent.feasible(problem, jnp.where(lower, ends, plans), 0)
    return plans, history, jnp.asarray(WARM_ROUNDS, jnp.int32)


def limits(
    problem: MidpointProblem, plans: jax.Array, alignments: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    r"""What the objective cannot be below, and about what it could be.

    .. math::

        \sum_{i<j} w_i w_j\, L(G_i, G_j), \qquad
        \sum_{i<j} w_i w_j\, \min_{\pi\ \text{known}} \mathrm{FGW}(G_i, G_j; \pi)

    Proof of the bound. Let :math:`\pi_i` be any plans of a midpoint with structure A and features
    X. Glue them over the new nodes: :math:`\pi_{ij} = \pi_i^\top \mathrm{diag}(1/\tilde\mu)\,
    \pi_j` has the marginals of a plan between sources i and j, and all of them are the pair
    marginals of one joint law. For numbers, :math:`\sum_i w_i |a_i - x|^2 \ge \sum_{i<j} w_i w_j
    |a_i - a_j|^2` with equality at the mean, and the same holds for vectors. Take it at x = A_kl
    and the joint law of the entries of the A_i glued there, and at x = X_k likewise, and sum:
    :math:`\sum_i w_i \mathrm{FGW}(\tilde G, G_i; \pi_i) \ge \sum_{i<j} w_i w_j
    \mathrm{FGW}(G_i, G_j; \pi_{ij})`, which is at least the same sum of minima, and each minimum is
    at least L. The plans known are the alignment and the glued plan.

    Args:
        problem: the sources, ``S`` of them.
        plans: ``[S, n, m]`` plans of a midpoint.
        alignments: ``[S, m, m]`` plans from the main source to every source, if there are any.

    Returns:
        The bound and the estimate, two scalars.
    """
    first, second = np.triu_indices(problem.num_sources, 1)
    spread = plans * reciprocal(problem.new_weights)[:, None]

    def between_two(pair):
        i, j = pair
        one, other = problem.source(i), problem.source(j)
        between = problem.between(one, other)
        norms = one.weights @ (one.features**2).sum(1) + other.weights @ (other.features**2).sum(1)
        # Features are compared by one product here, which rounds.
        rounding = 8.0 * jnp.finfo(norms.dtype).eps * (1.0 - problem.alpha) * norms
        below = bounds.lower_bound(between, max_pivots=sum(between.shape)) - rounding
        below = jnp.maximum(below, 0.0)
        glued = plans[i].T @ spread[j]
        value = between.value(glued)
        if alignments is None:
            return below, value
        # Between two sources of which neither is the main one no alignment is known.
        known = jnp.where(i == problem.main, alignments[j], alignments[i].T)
        known = jnp.where((i == problem.main) | (j == problem.main), known, glued)
        return below, jnp.minimum(value, between.value(known))

    # The pairs of many sources some at a time: memory does not grow with their square.
    both = jax.lax.map(between_two, (first, second), batch_size=PAIRS_AT_ONCE)
    products = problem.ratios[first] * problem.ratios[second]
    return products @ both[0], products @ both[1]


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
    converged = exact | (change <= OUTER_ATOL + OUTER_RTOL * jnp.abs(objective))
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
