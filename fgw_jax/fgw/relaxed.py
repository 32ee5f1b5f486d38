r"""Relaxed solver: the single loop of Alg. 2, lines 7 to 12.

Two half steps, each a mirror step followed by the Bregman projection on one marginal only:

.. math::

    \pi &= \arg\min_{\Pi_1} \langle \nabla f(\omega), \pi \rangle
        + \tfrac{1}{\gamma} \mathrm{KL}(\pi | \omega), \\
    \omega &= \arg\min_{\Pi_2} \langle \nabla f(\pi), \omega \rangle
        + \tfrac{1}{\gamma} \mathrm{KL}(\omega | \pi).

Row sums hold for :math:`\pi`, column sums for :math:`\omega`; Prop. 2 speaks of their mean.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fgw_jax.fgw import bounds, iteration, projections, starts
from fgw_jax.fgw.iteration import Output, State, describe
from fgw_jax.fgw.problem import Problem
from fgw_jax.fgw.strict import spread_free


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Decay:
    """Step sizes that fall geometrically, in units of the gradient's standard deviation.

    A large step finds the basin, small ones bring the two half-step plans together (their
    distance is proportional to the step size, Prop. 2).

    Attributes:
        first: size of the first step.
        last: size of the last step.
        num_steps: number of steps (static).
        noise: deviation of the tie-breaking factor on the start.
    """

    first: Any = 3.0
    last: Any = 0.1
    noise: Any = 0.1
    num_steps: int = dataclasses.field(default=12, metadata={"static": True})

    def __call__(self, count: jax.Array) -> jax.Array:
        """Step size of step ``count``."""
        return self.first * (self.last / self.first) ** (count / max(self.num_steps - 1, 1))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Relaxed:
    """Single-loop solver whose plans meet one marginal at a time.

    ``Relaxed()`` is the best setting we measured; ``Relaxed(step_size=1.0, schedule=None,
    plan="last")`` is Alg. 2 to the letter, from the product coupling, stopped as the authors do
    (relative change of the objective below ``rtol``, looked at every ten steps).

    Attributes:
        step_size: gamma = 1 / rho of Alg. 2; multiplies the schedule when there is one.
        schedule: a :class:`Decay`, or ``None`` for the constant step of Alg. 2.
        rtol: relative change of the objective that counts as converged.
        atol: absolute change that counts as converged.
        plan: ``"mean"`` of the two half-step plans (Prop. 2) or the ``"last"`` (Alg. 2).
        round: make the plan feasible: Sinkhorn sweeps, then rounding.
        max_steps: limit of the number of steps when there is no schedule.
        check_every: steps between two looks at the objective when there is no schedule.
        final_sweeps: Sinkhorn sweeps before rounding.
    """

    step_size: Any = 1.0
    schedule: Decay | None = dataclasses.field(default_factory=Decay)
    rtol: Any = 1e-5
    atol: Any = 1e-9
    plan: str = dataclasses.field(default="mean", metadata={"static": True})
    round: bool = dataclasses.field(default=False, metadata={"static": True})
    max_steps: int = dataclasses.field(default=300, metadata={"static": True})
    check_every: int = dataclasses.field(default=10, metadata={"static": True})
    final_sweeps: int = dataclasses.field(default=50, metadata={"static": True})

    @property
    def step_limit(self) -> int:
        """Most steps to do."""
        return self.max_steps if self.schedule is None else self.schedule.num_steps

    @property
    def block(self) -> int:
        """Steps between two looks at the objective."""
        return self.check_every if self.schedule is None else self.schedule.num_steps

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem."""
        return iteration.run(self, problem, plan)

    def init(self, problem: Problem, plan: jax.Array | None = None) -> State:
        """Start from ``plan``, or from the product coupling (ties broken under a schedule)."""
        noise = 0.0 if self.schedule is None else self.schedule.noise
        log_plan = starts.log_start(problem, plan, noise)
        log_plan, plan = projections.project_columns(log_plan, problem.weights2)
        zero = jnp.zeros((), plan.dtype)
        return State(log_plan, plan, plan, jnp.zeros((), jnp.int32), zero, zero + jnp.inf)

    def step(self, problem: Problem, state: State) -> State:
        """Lines 8 to 11 of Alg. 2."""
        move = self._move(problem, state.plan, state.count)
        log_rows, rows = projections.project_rows(state.log_plan - move, problem.weights1)
        move = self._move(problem, rows, state.count)
        log_plan, plan = projections.project_columns(log_rows - move, problem.weights2)
        return State(log_plan, plan, rows, state.count + 1, state.value, state.change)

    def measure(self, problem: Problem, state: State) -> State:
        """Objective at the last plan, and its change since the last look."""
        value = problem.value(state.plan)
        if iteration.fixed_count(self):
            change = jnp.abs(value - problem.value(state.other))
        else:
            change = jnp.abs(value - state.value)
        return dataclasses.replace(state, value=value, change=change)

    def output(self, problem: Problem, state: State) -> Output:
        """The chosen plan, rounded when asked for, and what is known of it."""
        plan = 0.5 * (state.plan + state.other) if self.plan == "mean" else state.plan
        if self.round:
            _, plan = projections.sinkhorn(
                projections.safe_log(plan), problem.weights1, problem.weights2, self.final_sweeps
            )
            plan = projections.round_to_feasible(plan, problem.weights1, problem.weights2)
        gap = bounds.frank_wolfe_gap(problem, plan)
        return describe(self, problem, state, plan, gap)

    def _move(self, problem: Problem, plan: jax.Array, count: jax.Array) -> jax.Array:
        """Step size times the gradient, ``[n, m]``."""
        gradient = problem.gradient(plan)
        if self.schedule is None:
            return self.step_size * gradient
        return self.step_size * self.schedule(count) * spread_free(problem, gradient)
