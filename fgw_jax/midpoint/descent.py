r"""Descent on the midpoint's objective over its plans, from a start that is good already.

With structure and features averaged out (Alg. 1, lines 7 and 8) the objective is

.. math::

    R(\pi_1, \dots, \pi_S) = \mathrm{const}
        - \alpha \sum_{kl} \tilde\mu_k \tilde\mu_l \tilde A_{kl}^2
        - (1 - \alpha) \sum_k \tilde\mu_k |\tilde X_k|^2,

whose gradient is that of each FGW at the averages (envelope theorem). Being minus a sum of squares
it has its minima at vertices of the transport polytopes, and :func:`vertex_steps` goes there by
conditional gradient steps, one plan after the other, the averages brought up to date after each.
:func:`relaxed_steps` takes the half steps of Alg. 2 instead.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from fgw_jax.fgw import linear_program, options, projections
from fgw_jax.fgw.basis import vertex
from fgw_jax.fgw.conditional_gradient import nearby_basis, pivots_per_step
from fgw_jax.fgw.mirror_descent import standardize_gradient
from fgw_jax.fgw.problem import Problem
from fgw_jax.midpoint.objective import MidpointProblem, Source, reciprocal

#: Points of the line search; along a move the objective is a polynomial of degree four.
RATES = 16
#: Most pivots of a step: from a good start few are needed, and on large graphs they are dear.
MAX_PIVOTS = 32
#: Weight of the gradient's choice where a starting plan is zero, so that its vertex is no accident.
BLEND = 1e-6
#: Share of the product coupling mixed into the start of mirror steps: zeros would never come back.
WARM_MIX = 1e-3


class Descent(Protocol):
    """What a midpoint asks of its descent."""

    def validate(self) -> None:
        """Raise :class:`InputError` for an option that cannot be."""

    def run(
        self, problem: MidpointProblem, plans: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """From plans ``[S, n, m]`` to better ones.

        Returns:
            The plans, the objective at each round ``[rounds + 1]``, and whether it fell.
        """


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class VertexDescent(options.Checked):
    """Conditional gradient steps on every plan in turn (:func:`vertex_steps`): Alg. 1, warm.

    Attributes:
        rounds: rounds over all plans: twice as many lower the objective by 0.1 %, half as many
            raise it by 0.5 %.
    """

    rounds: int = options.count(8)

    def run(
        self, problem: MidpointProblem, plans: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """From plans ``[S, n, m]`` to better ones; the history follows from the gains."""
        initial = problem.values(*problem.update(plans), plans) @ problem.ratios
        ends, gains = vertex_steps(problem, plans, self.rounds)
        history = initial - jnp.concatenate([jnp.zeros(1, gains.dtype), jnp.cumsum(gains)])
        return ends, history, gains.sum() > 0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RelaxedDescent(options.Checked):
    """Half steps of Alg. 2 on all plans (:func:`relaxed_steps`), warm.

    Attributes:
        step_size: size of a step, in units of the gradient's standard deviation.
        rounds: rounds of both half steps.
    """

    step_size: Any = options.amount(1.0)
    rounds: int = options.count(8)

    def run(
        self, problem: MidpointProblem, plans: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """From plans ``[S, n, m]`` to better ones."""
        objective = lambda p: problem.values(*problem.update(p), p) @ problem.ratios  # noqa: E731
        initial = objective(plans)
        ends, later = relaxed_steps(problem, plans, self.rounds, self.step_size)
        history = jnp.concatenate([initial[None], later])
        return ends, history, objective(ends) < initial


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """One source's part of the state (stacked over sources outside of a step).

    Attributes:
        plan: ``[n, m]`` feasible plan.
        half: ``[n, m]`` plan times the source's structure.
        basis: spanning tree of the vertex the plan last went to.
    """

    plan: Any
    half: Any
    basis: Any


def vertex_steps(
    problem: MidpointProblem, plans: jax.Array, num_rounds: int
) -> tuple[jax.Array, jax.Array]:
    """``num_rounds`` rounds of one conditional gradient step a plan ``[S, n, m]``; none goes up.

    Returns the plans and the decrease of the objective in each round, ``[num_rounds]``.
    """
    averages = problem.update(plans)

    def side(source, plan):
        half = plan @ source.structure
        gradient, pair = _gradient(problem, averages, source, half)
        return Side(plan, half, _nearby_vertex(pair, plan, gradient))

    sides = jax.vmap(side)(problem.sources, plans)

    # A scan over sources, not a loop unrolled: one step is compiled, whatever their number.
    def round_(state, _):
        averages, sides = state
        averages, (sides, gains) = jax.lax.scan(
            lambda averages, one: _step(problem, averages, *one),
            averages,
            (problem.sources, problem.ratios, sides),
        )
        return (averages, sides), gains.sum()

    (_, sides), gains = jax.lax.scan(round_, (averages, sides), None, length=num_rounds)
    return sides.plan, gains


def _step(
    problem: MidpointProblem,
    averages: tuple[jax.Array, jax.Array],
    source: Source,
    ratio: jax.Array,
    side: Side,
):
    """Some pivots on one plan's gradient, then the best point on the way to the vertex."""
    structure, features = averages
    gradient, pair = _gradient(problem, averages, source, side.half)
    prices = linear_program.price(side.basis, gradient)
    most, count = pivots_per_step(pair, side.basis)
    basis = linear_program.pivot(side.basis, prices, min(most, MAX_PIVOTS), count)
    move = vertex(basis, pair.shape, gradient.dtype) - side.plan
    # Averages at rate t along the move: structure + t first + t^2 second, features + t shift.
    inverse = reciprocal(problem.new_weights)
    scale = ratio * inverse[:, None] * inverse[None, :]
    turn = move @ source.structure
    cross, square = turn @ side.plan.T, turn @ move.T
    first, second = scale * (cross + cross.T), 0.5 * scale * (square + square.T)
    shift = ratio * inverse[:, None] * (move @ source.features)
    rate, gain = _line_search(problem, averages, first, second, shift)
    if problem.fixed_structure is None:
        structure = structure + rate * first + rate**2 * second
    if problem.fixed_features is None:
        features = features + rate * shift
    side = Side(side.plan + rate * move, side.half + rate * turn, basis)
    return (structure, features), (side, gain)


def _line_search(problem, averages, first, second, shift) -> tuple[jax.Array, jax.Array]:
    """Rate in [0, 1] that lowers the objective most, and by how much."""
    structure, features = averages
    weights = problem.new_weights
    inner = lambda a, b: weights @ (a * b) @ weights  # noqa: E731
    rate = jnp.arange(RATES + 1, dtype=weights.dtype) / RATES
    part = 2.0 * rate * inner(structure, first) + 2.0 * rate**2 * inner(structure, second)
    if problem.fixed_structure is None:
        part = part + rate**2 * inner(first, first) + rate**4 * inner(second, second)
        part = part + 2.0 * rate**3 * inner(first, second)
    linear = 2.0 * rate * (weights @ (features * shift).sum(1))
    if problem.fixed_features is None:
        linear = linear + rate**2 * (weights @ (shift**2).sum(1))
    gain = problem.alpha * part + (1.0 - problem.alpha) * linear
    best = jnp.argmax(gain)
    return rate[best], gain[best]


def _gradient(problem: MidpointProblem, averages, source, half) -> tuple[jax.Array, Problem]:
    """``(1 - alpha) D_i - 4 alpha A pi_i A_i`` ``[n, m]``, zero on padding, and its problem."""
    structure, features = averages
    pair = problem.transport(structure, features, source)
    gradient = (1.0 - problem.alpha) * pair.cost - 4.0 * problem.alpha * structure @ half
    alive = (pair.weights1 > 0)[:, None] & (pair.weights2 > 0)[None, :]
    return jnp.where(alive, gradient, 0.0), pair


def _nearby_vertex(pair: Problem, plan: jax.Array, gradient: jax.Array) -> Any:
    """Basis of a vertex near ``plan``; where the plan is zero the gradient decides."""
    toward = jnp.exp(-jnp.clip(standardize_gradient(pair, gradient), -20.0, 20.0))
    return nearby_basis(pair, projections.safe_log(plan + BLEND * pair.product * toward))


def relaxed_steps(
    problem: MidpointProblem,
    plans: jax.Array,
    num_rounds: int,
    step_size: Any,
    final_sweeps: int = 100,
) -> tuple[jax.Array, jax.Array]:
    """``num_rounds`` rounds of the two half steps of Alg. 2, with averages in between.

    Averages divide by the weights of the new nodes, so they are taken of the plans that meet them:
    those of the row half step. The mean of both half steps is swept and rounded at the end.
    ``step_size`` is in units of the gradient's standard deviation. Returns the plans and the
    objective at each round's row half step, ``[num_rounds]``.
    """
    new = problem.new_weights
    products = new[None, :, None] * problem.weights[:, None, :]
    logs = projections.safe_log((1.0 - WARM_MIX) * plans + WARM_MIX * products)

    def moved(logs, rows, current):
        averages = problem.update(rows)

        def one(source, log_plan, plan):
            gradient, pair = _gradient(problem, averages, source, plan @ source.structure)
            return log_plan - step_size * standardize_gradient(pair, gradient)

        return jax.vmap(one)(problem.sources, logs, current)

    def round_(state, _):
        logs, rows, columns = state
        to_rows = jax.vmap(lambda logs, old: projections.project_rows(logs, new, old))
        logs, rows = to_rows(moved(logs, rows, columns), problem.weights)
        to_columns = jax.vmap(lambda logs, old: projections.project_columns(logs, new, old))
        logs, columns = to_columns(moved(logs, rows, rows), problem.weights)
        objective = problem.values(*problem.update(rows), rows) @ problem.ratios
        return (logs, rows, columns), objective

    state = (logs, plans, plans)
    (_, rows, columns), objectives = jax.lax.scan(round_, state, None, length=num_rounds)
    return feasible(problem, 0.5 * (rows + columns), final_sweeps), objectives


def feasible(problem: MidpointProblem, plans: jax.Array, num_sweeps: int) -> jax.Array:
    """Plans ``[S, n, m]`` swept toward their marginals and rounded to them."""

    def one(plan, weights):
        if num_sweeps:
            log_plan = projections.safe_log(plan)
            _, plan = projections.sinkhorn(log_plan, problem.new_weights, weights, num_sweeps)
        return projections.round_to_feasible(plan, problem.new_weights, weights)

    return jax.vmap(one)(plans, problem.weights)
