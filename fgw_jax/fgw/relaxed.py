r"""Relaxed solvers: mirror steps whose plans meet one marginal at a time.

Alg. 2, lines 7 to 12, is two half steps, each a mirror step followed by the Bregman projection on
one marginal only:

.. math::

    \pi &= \arg\min_{\Pi_1} \langle \nabla f(\omega), \pi \rangle
        + \tfrac{1}{\gamma} \mathrm{KL}(\pi | \omega), \\
    \omega &= \arg\min_{\Pi_2} \langle \nabla f(\pi), \omega \rangle
        + \tfrac{1}{\gamma} \mathrm{KL}(\omega | \pi).

Row sums hold for :math:`\pi`, column sums for :math:`\omega`; Prop. 2 speaks of their mean.

A projection costs a fiftieth of a gradient here, so the default takes fewer and larger mirror
steps and alternates between the two marginals several times after each (:class:`Schedule`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from fgw_jax.errors import check
from fgw_jax.fgw import bounds, iteration, options, projections, starts
from fgw_jax.fgw.iteration import Output, State, describe
from fgw_jax.fgw.mirror_descent import standardize_gradient
from fgw_jax.fgw.problem import Problem

PLANS = ("mean", "last")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Schedule:
    """A fixed number of mirror steps, their sizes in units of the gradient's standard deviation.

    Attributes:
        first: size of the first step.
        last: size of the last step; sizes in between are geometric.
        noise: deviation of the tie-breaking factor on the start.
        rtol: relative change of the objective by the last step that counts as converged.
        num_steps: number of steps (static).
        sweeps: row and column projections after each step (static).
    """

    first: Any = options.amount(3.0)
    last: Any = options.amount(3.0)
    noise: Any = options.amount(0.1, zero=True)
    rtol: Any = options.amount(1e-2, zero=True)
    num_steps: int = options.count(8)
    sweeps: int = options.count(10)

    def __call__(self, count: jax.Array) -> jax.Array:
        """Size of step ``count``."""
        return self.first * (self.last / self.first) ** (count / max(self.num_steps - 1, 1))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ScheduledMirror:
    """Mirror descent on f by a schedule; its plans meet one marginal at a time.

    ``Relaxed()`` is one of these, with the best setting we measured.

    Attributes:
        step_size: multiplies the schedule.
        schedule: sizes of the steps.
        atol: change of the objective by the last step that counts as converged, relative to the
            structure terms of Eq. 1; ``schedule.rtol`` is relative to the objective.
        plan: ``"mean"`` of the last two projections (Prop. 2) or the ``"last"``.
        round: make the plan feasible: Sinkhorn sweeps, then rounding.
        final_sweeps: Sinkhorn sweeps before rounding.
    """

    step_size: Any = options.amount(1.0)
    schedule: Schedule = dataclasses.field(default_factory=Schedule)
    atol: Any = options.amount(1e-9, zero=True)
    plan: str = options.choice("mean", PLANS)
    round: bool = options.choice(False, (True, False))
    final_sweeps: int = options.count(100, least=0)

    front_name: ClassVar[str] = "Relaxed"
    cost_name: ClassVar[str] = "relaxed"
    relaxes: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    #: All pairs take the same number of steps.
    refills: ClassVar[bool] = False
    starts: ClassVar[int] = 1

    @property
    def rtol(self) -> Any:
        """Change of the objective by the last step that counts as converged, relative to it."""
        return self.schedule.rtol

    @property
    def step_limit(self) -> int:
        """Number of steps."""
        return self.schedule.num_steps

    @property
    def block(self) -> int:
        """Steps between two tests of the residual: all."""
        return self.schedule.num_steps

    @property
    def feasible(self) -> bool:
        """Whether plans meet both marginals."""
        return self.round

    def validate(self) -> None:
        """Raise :class:`InputError` for an option that cannot be."""
        check(
            isinstance(self.schedule, Schedule),
            f"Relaxed.schedule: expected a Schedule or None, got {self.schedule!r}",
        )
        options.validate(self)
        options.validate(self.schedule)

    def aligner(self) -> ScheduledMirror:
        """The solver that aligns the sources of a midpoint: this one, rounded."""
        return _rounded(self)

    def inner(self) -> ScheduledMirror:
        """The solver inside the outer loop: line 8 divides by weights, which plans must meet."""
        return _rounded(self)

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem from ``plan`` ``[n, m]``, or the product with ties broken."""
        return iteration.run(self, problem, plan)

    def init(self, problem: Problem, plan: jax.Array | None = None) -> State:
        """Start from ``plan``, or from the product coupling with ties broken."""
        return _start(problem, plan, self.schedule.noise)

    def step(self, problem: Problem, state: State) -> State:
        """One step of the schedule; ``other`` is the plan before it."""
        gradient = standardize_gradient(problem, problem.gradient(state.plan))
        kernel = state.log_plan - self.step_size * self.schedule(state.count) * gradient
        log_plan, plan = projections.sinkhorn(kernel, *_marginals(problem), self.schedule.sweeps)
        return dataclasses.replace(
            state, log_plan=log_plan, plan=plan, other=state.plan, count=state.count + 1
        )

    def measure(self, problem: Problem, state: State) -> State:
        """Objective at the last plan, and its change by the last step."""
        value = problem.objective(state.plan)
        change = jnp.abs(value - problem.objective(state.other))
        return dataclasses.replace(state, value=value, change=change)

    def output(self, problem: Problem, state: State) -> Output:
        """The chosen plan, rounded when asked for, and what is known of it."""
        _, rows = projections.project_rows(state.log_plan, *_marginals(problem))
        return _output(self, problem, state, rows)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AlternatingMirror(options.Stepwise):
    """The relaxed solver of the paper, Alg. 2: mirror half steps on rows and columns in turn.

    ``Relaxed(step_size=1.0, schedule=None, plan="last")`` is Alg. 2 to the letter, from the product
    coupling, stopped as the authors do (relative change of the objective below ``rtol``, tested
    every ten steps). From the product coupling, nodes that are exact copies of each other stay tied
    until rounding parts them, which is where a literal run on such graphs can depend on the padded
    shape.

    Attributes:
        step_size: gamma = 1 / rho of Alg. 2.
        rtol: change of the objective over ``check_every`` steps that counts as converged, relative
            to it.
        atol: the same relative to the structure terms of Eq. 1.
        plan: ``"mean"`` of the last two projections (Prop. 2) or the ``"last"`` (Alg. 2).
        round: make the plan feasible: Sinkhorn sweeps, then rounding.
        max_steps: limit of the number of steps.
        check_every: steps between two tests of the objective.
        final_sweeps: Sinkhorn sweeps before rounding.
    """

    step_size: Any = options.amount(1.0)
    rtol: Any = options.amount(1e-5, zero=True)
    atol: Any = options.amount(1e-9, zero=True)
    plan: str = options.choice("mean", PLANS)
    round: bool = options.choice(False, (True, False))
    max_steps: int = options.count(300)
    check_every: int = options.count(10)
    final_sweeps: int = options.count(100, least=0)

    front_name: ClassVar[str] = "Relaxed"
    cost_name: ClassVar[str] = "literal"
    relaxes: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    starts: ClassVar[int] = 1

    @property
    def refills(self) -> bool:
        """Whether pairs of a batch may leave it one by one."""
        return not iteration.fixed_count(self)

    @property
    def feasible(self) -> bool:
        """Whether plans meet both marginals."""
        return self.round

    def aligner(self) -> AlternatingMirror:
        """The solver that aligns the sources of a midpoint: this one, rounded."""
        return _rounded(self)

    def inner(self) -> AlternatingMirror:
        """The solver inside the outer loop of Alg. 2: this one, to the letter."""
        return self

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem from ``plan`` ``[n, m]``, or the product coupling."""
        return iteration.run(self, problem, plan)

    def init(self, problem: Problem, plan: jax.Array | None = None) -> State:
        """Start from ``plan``, or from the product coupling."""
        return _start(problem, plan, 0.0)

    def step(self, problem: Problem, state: State) -> State:
        """Lines 8 to 11 of Alg. 2; ``other`` is the plan of the row half step."""
        move = self.step_size * problem.gradient(state.plan)
        log_rows, rows = projections.project_rows(state.log_plan - move, *_marginals(problem))
        move = self.step_size * problem.gradient(rows)
        log_plan, plan = projections.project_columns(log_rows - move, *_marginals(problem))
        return dataclasses.replace(
            state, log_plan=log_plan, plan=plan, other=rows, count=state.count + 1
        )

    def measure(self, problem: Problem, state: State) -> State:
        """Objective at the last plan, and its change since it was last measured."""
        value = problem.objective(state.plan)
        return dataclasses.replace(state, value=value, change=jnp.abs(value - state.value))

    def output(self, problem: Problem, state: State) -> Output:
        """The chosen plan, rounded when asked for, and what is known of it."""
        return _output(self, problem, state, state.other)


def Relaxed(
    step_size: Any = 1.0, schedule: Schedule | str | None = "default", **others: Any
) -> ScheduledMirror | AlternatingMirror:
    """A solver of argmin f whose plans meet one marginal at a time.

    Args:
        step_size: gamma = 1 / rho of Alg. 2; multiplies the schedule when there is one.
        schedule: a :class:`Schedule`, by default the best we measured, for
            :class:`ScheduledMirror`; ``None`` for the constant step of Alg. 2,
            :class:`AlternatingMirror`.
        **others: further fields of that class.

    Returns:
        The solver.

    Raises:
        InputError: for options that the solver does not have.

    >>> Relaxed(step_size=1.0, schedule=None, plan="last").max_steps
    300
    """
    kinds: dict[str, type] = {"a schedule": ScheduledMirror, "schedule=None": AlternatingMirror}
    others["step_size"] = step_size
    if schedule is None:
        return options.build(kinds, "schedule=None", "Relaxed", others)
    if not isinstance(schedule, str):
        others["schedule"] = schedule
    return options.build(kinds, "a schedule", "Relaxed", others)


def _rounded(solver: Any) -> Any:
    """The solver with plans that meet both marginals."""
    check(
        solver.plan == "mean" or solver.round,
        "Relaxed.plan: has no effect on a midpoint, whose plans are rounded to both marginals; "
        "leave it out",
    )
    return dataclasses.replace(solver, round=True)


def _start(problem: Problem, plan: jax.Array | None, noise: Any) -> State:
    plan = None if plan is None else starts.scaled(problem, plan)
    log_plan = starts.log_start(problem, plan, noise)
    log_plan, plan = projections.project_columns(log_plan, *_marginals(problem))
    zero = jnp.zeros((), plan.dtype)
    scale = problem.scale()
    return State(log_plan, plan, plan, jnp.zeros((), jnp.int32), zero, zero + jnp.inf, scale)


def _output(solver: Any, problem: Problem, state: State, rows: jax.Array) -> Output:
    """The output for the last plan and the one ``rows`` ``[n, m]`` that meets the rows."""
    plan = state.plan
    if solver.round:
        _, plan = projections.sinkhorn(state.log_plan, *_marginals(problem), solver.final_sweeps)
        plan = projections.round_to_feasible(plan, *_marginals(problem))
    elif solver.plan == "mean":
        plan = 0.5 * (plan + rows)
    # Among plans with the marginals this one has: it may miss those of the problem.
    own = dataclasses.replace(problem, weights1=plan.sum(1), weights2=plan.sum(0))
    gap = jnp.maximum(bounds.frank_wolfe_gap(own, plan), 0.0)
    return describe(solver, problem, state, plan, gap)


def _marginals(problem: Problem) -> tuple[jax.Array, jax.Array]:
    return problem.weights1, problem.weights2
