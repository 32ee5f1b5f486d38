r"""Barycenters of graphs: Alg. 1 and Alg. 2 of the paper, and a faster way from a better start.

``start="random"`` is the paper's: every outer step solves the plans anew from the product coupling
with the given solver, then averages (lines 7 and 8). ``start="geodesic"`` begins at plans composed
from FGW between the sources and takes one mirror step a plan between two averages. Both end with
plans made feasible, the averages of those plans, and the objective they have.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fgw_jax.fgw import projections
from fgw_jax.fgw.iteration import ADVICE, Status
from fgw_jax.fgw.projections import safe_log
from fgw_jax.fgw.relaxed import Relaxed
from fgw_jax.fgw.strict import Strict
from fgw_jax.graphs import Graph
from fgw_jax.midpoint import starts
from fgw_jax.midpoint.objective import MidpointProblem, problem_of, reciprocal

#: Relative change of the objective that ends the outer loop.
OUTER_TOLERANCE = 5e-4
#: Most outer steps of the paper's loop.
OUTER_LIMIT = 200


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Midpoint:
    """A midpoint and what is known of it.

    Attributes:
        graph: the mixed graph before decoding, uniform weights; ``adjacency`` is the same average
            taken of the sources' adjacencies, without its diagonal.
        plans: ``[n, n_i]`` feasible plan between the new nodes and each source.
        values: ``[S]`` FGW(graph, G_i) at these plans.
        objective: sum_i w_i FGW(graph, G_i) at these plans.
        bound: lower bound of any midpoint's objective by the least FGW values known between the
            sources, sum_{i<j} w_i w_j FGW(G_i, G_j); see :func:`lower_bound`.
        num_outer: updates of structure and features.
        converged: whether the last update changed the objective by less than its tolerance.
        status: code of :class:`fgw_jax.fgw.iteration.Status`.
        history: ``[T]`` objective at each outer step, the reported one last.
    """

    graph: Graph
    plans: tuple[Any, ...]
    values: Any
    objective: Any
    bound: Any
    num_outer: Any
    converged: Any
    status: Any
    history: Any

    def message(self) -> str:
        """The status in words, with advice."""
        return ADVICE[Status(int(self.status))]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Warm:
    """Settings of the warm loop.

    Attributes:
        step_size: mirror step in units of the gradient's standard deviation.
        growth: factor on the step size from one step to the next.
        num_steps: updates of structure and features (static).
        sweeps: Sinkhorn sweeps in each step (static).
        final_sweeps: sweeps before the plans are rounded (static).
    """

    step_size: Any = 2.0
    growth: Any = 1.1
    num_steps: int = dataclasses.field(default=15, metadata={"static": True})
    sweeps: int = dataclasses.field(default=10, metadata={"static": True})
    final_sweeps: int = dataclasses.field(default=100, metadata={"static": True})


def solve(
    sources: tuple[Graph, ...],
    ratios: jax.Array,
    size: jax.Array,
    padded_size: int,
    alpha: ArrayLike,
    solver: Any = None,
    start: str = "geodesic",
    key: jax.Array | None = None,
    alignments: tuple[jax.Array, ...] | None = None,
    warm: Warm | None = None,
) -> Midpoint:
    """Midpoint of padded sources, the one of largest weight first; pure, for jit and vmap.

    ``alignments`` are plans ``[n_1, n_i]`` between the first and every other source, solved here
    unless given.
    """
    solver = Strict() if solver is None else solver
    problem = problem_of(sources, ratios, size, padded_size, alpha)
    if start == "random":
        plans, history, count = paper_loop(problem, literal(solver), key)
        values: tuple[Any, ...] = ()
        alignments = ()
    else:
        if alignments is None:
            alignments = tuple(
                solver.solve(problem.source_problem(0, i)).plan
                for i in range(1, problem.num_sources)
            )
        plans, history, count = warm_loop(problem, alignments, warm or Warm(), solver)
    return describe(problem, sources, plans, alignments, history, count)


def literal(solver: Any) -> Any:
    """The solver as the paper's loop runs it: product coupling, at most 300 steps, change 1e-5."""
    if isinstance(solver, Strict):
        return dataclasses.replace(solver, noise=0.0, max_steps=300, check_every=10, rtol=1e-5)
    if isinstance(solver, Relaxed) and solver.schedule is not None:
        return dataclasses.replace(solver, schedule=None, plan="last")
    return solver


def paper_loop(problem: MidpointProblem, solver: Any, key: jax.Array):
    """Alg. 1 (strict solver) or Alg. 2 (relaxed): cold inner solves, then lines 7 and 8."""
    structure, features = starts.random_graph(problem, key)

    def plans_of(structure, features):
        outs = [
            solver.solve(problem.transport(structure, features, i))
            for i in range(problem.num_sources)
        ]
        value = jnp.stack([out.value for out in outs]) @ problem.ratios
        return tuple(out.plan for out in outs), value

    def step(state):
        structure, features, _, value, _, count, history = state
        plans, new = plans_of(structure, features)
        structure, features = problem.update(plans)
        change = jnp.abs(new - value) / jnp.maximum(jnp.abs(new), jnp.finfo(new.dtype).tiny)
        history = history.at[count].set(new)
        return structure, features, plans, new, change, count + 1, history

    def unfinished(state):
        return (state[4] > OUTER_TOLERANCE) & (state[5] < OUTER_LIMIT)

    dtype = problem.new_weights.dtype
    blank = tuple(problem.new_weights[:, None] * w[None, :] for w in problem.weights)
    state = (
        structure, features, blank, jnp.asarray(jnp.inf, dtype), jnp.asarray(jnp.inf, dtype),
        jnp.zeros((), jnp.int32), jnp.full(OUTER_LIMIT, jnp.nan, dtype),
    )  # fmt: skip
    state = jax.lax.while_loop(unfinished, step, state)
    return (
        tuple(feasible(problem, i, safe_log(p), 100) for i, p in enumerate(state[2])),
        state[6],
        state[5],
    )


def warm_loop(problem: MidpointProblem, alignments, warm: Warm, solver: Any):
    """One mirror step a plan between two averages, from the composed plans; the better end kept."""
    first = starts.resample(problem)
    plans = (first, *(starts.compose(problem, first, a) for a in alignments))
    initial = problem.value(*problem.update(plans), plans)
    logs = tuple(
        safe_log((1 - 1e-3) * p + 1e-3 * problem.new_weights[:, None] * w[None, :])
        for p, w in zip(plans, problem.weights, strict=True)
    )
    del solver

    def step(state, number):
        logs, current = state
        gradients = problem.gradients(current)
        out = []
        for i, (log_plan, gradient) in enumerate(zip(logs, gradients, strict=True)):
            move = warm.step_size * warm.growth**number * spread_free(problem, i, gradient)
            out.append(
                projections.sinkhorn(
                    log_plan - move, problem.new_weights, problem.weights[i], warm.sweeps
                )
            )
        return (tuple(o[0] for o in out), tuple(o[1] for o in out)), None

    (logs, _), _ = jax.lax.scan(step, (logs, plans), jnp.arange(warm.num_steps))
    ends = tuple(
        feasible(problem, i, log_plan, warm.final_sweeps) for i, log_plan in enumerate(logs)
    )
    final = problem.value(*problem.update(ends), ends)
    better = final < initial
    plans = tuple(jnp.where(better, e, p) for e, p in zip(ends, plans, strict=True))
    return (
        plans,
        jnp.stack([initial, jnp.minimum(initial, final)]),
        jnp.asarray(warm.num_steps, jnp.int32),
    )


def feasible(problem: MidpointProblem, i: int, log_plan: jax.Array, num_sweeps: int) -> jax.Array:
    """Plan ``i`` swept toward its marginals and rounded to them."""
    weights1, weights2 = problem.new_weights, problem.weights[i]
    _, plan = projections.sinkhorn(log_plan, weights1, weights2, num_sweeps)
    return projections.round_to_feasible(plan, weights1, weights2)


def spread_free(problem: MidpointProblem, i: int, gradient: jax.Array) -> jax.Array:
    """``gradient`` less its row and column means, in units of its standard deviation."""
    weights1, weights2 = problem.new_weights, problem.weights[i]
    gradient = gradient - (gradient @ weights2)[:, None]
    gradient = gradient - (weights1 @ gradient)[None, :]
    scale = jnp.sqrt(weights1 @ gradient**2 @ weights2)
    floor = jnp.finfo(gradient.dtype).eps
    return jnp.where(scale > floor, gradient / jnp.maximum(scale, floor), 0.0)


def lower_bound(problem: MidpointProblem, plans, alignments) -> jax.Array:
    r"""Lower bound of the objective, sum_{i<j} w_i w_j FGW(G_i, G_j) at the least values known.

    Proof. Let :math:`\pi_i` be any plans of a midpoint with structure A and features X. Glue them
    over the new nodes: :math:`\pi_{ij} = \pi_i^\top \mathrm{diag}(1/\tilde\mu)\, \pi_j` has the
    marginals of a plan between sources i and j, and all of them are the pair marginals of one joint
    law. For numbers, :math:`\sum_i w_i |a_i - x|^2 \ge \sum_{i<j} w_i w_j |a_i - a_j|^2` with
    equality at the mean, and the same holds for vectors. Take it at x = A_kl and the joint law of
    the entries of the A_i glued there, and at x = X_k likewise, and sum:
    :math:`\sum_i w_i \mathrm{FGW}(\tilde G, G_i; \pi_i) \ge \sum_{i<j} w_i w_j
    \mathrm{FGW}(G_i, G_j; \pi_{ij})`, which is at least the same sum of minima. A minimum is not
    known, so the least value found stands for it: that of the alignment and that of the glued plan.
    """
    inverse = reciprocal(problem.new_weights)
    total = jnp.zeros((), problem.new_weights.dtype)
    for i in range(problem.num_sources):
        for j in range(i + 1, problem.num_sources):
            pair = problem.source_problem(i, j)
            least = pair.value((plans[i] * inverse[:, None]).T @ plans[j])
            if i == 0 and len(alignments):
                least = jnp.minimum(least, pair.value(alignments[j - 1]))
            total = total + problem.ratios[i] * problem.ratios[j] * least
    return total


def describe(problem: MidpointProblem, sources, plans, alignments, history, count) -> Midpoint:
    """The midpoint of feasible plans: their averages, objective, bound and status."""
    structure, features = problem.update(plans)
    values = problem.values(structure, features, plans)
    objective = values @ problem.ratios
    bound = lower_bound(problem, plans, alignments)
    real = problem.new_weights > 0
    adjacency = _average_adjacency(problem, sources, plans)
    graph = Graph(
        structure,
        jnp.where(real[:, None], features + problem.centre, 0.0),
        problem.new_weights,
        adjacency,
        real,
    )
    change = jnp.abs(history[-1] - history[-2])
    converged = change <= OUTER_TOLERANCE * jnp.abs(objective)
    status = jnp.where(converged, Status.CONVERGED, Status.STEP_LIMIT)
    status = jnp.where(jnp.isfinite(objective), status, Status.NON_FINITE).astype(jnp.int32)
    return Midpoint(graph, plans, values, objective, bound, count, converged, status, history)


def _average_adjacency(problem: MidpointProblem, sources, plans) -> jax.Array:
    other = dataclasses.replace(
        problem,
        structures=tuple(jnp.asarray(g.adjacency, problem.new_weights.dtype) for g in sources),
        fixed_structure=None,
    )
    adjacency, _ = other.update(plans)
    return adjacency * (1.0 - jnp.eye(adjacency.shape[0], dtype=adjacency.dtype))
