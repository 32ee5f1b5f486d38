"""The one loop all solvers share, their state, their output and their status.

A solver is a frozen dataclass with four small pure functions::

    init(problem, plan) -> state       step(problem, state) -> state
    measure(problem, state) -> state   output(problem, state) -> Output

``step`` is repeated in blocks of ``block`` steps; after each block ``measure`` brings the
residual up to date, and the loop ends when it is small enough or ``step_limit`` is reached. With
one block as long as the limit the count is fixed and no test is compiled.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from fgw_jax.fgw.problem import Problem


class Status(enum.IntEnum):
    """How a solve ended."""

    CONVERGED = 0
    STEP_LIMIT = 1
    NON_FINITE = 2


ADVICE = {
    Status.CONVERGED: "converged: the residual is within atol * scale + rtol * |value|",
    Status.STEP_LIMIT: (
        "stopped at max_steps before the residual met its tolerance: raise max_steps, or loosen "
        "rtol; the value is still that of the returned plan"
    ),
    Status.NON_FINITE: (
        "not finite: the inputs overflow; scale features and structures "
        "(fgw_jax.fgw.scale_features), lower step_size, or turn on float64"
    ),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """What the next step needs, and the residual of the last check.

    Attributes:
        log_plan: ``[n, m]`` logarithm of the current plan.
        plan: ``[n, m]`` current plan.
        other: ``[n, m]`` plan of the previous projection (the row half step of Alg. 2).
        count: steps done so far.
        value: objective at the last check.
        change: absolute change of the objective between the last two checks.
        scale: size of the problem (:meth:`Problem.scale`), for absolute tolerances.
    """

    log_plan: Any
    plan: Any
    other: Any
    count: Any
    value: Any
    change: Any
    scale: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Output:
    """A transport plan and what is known of it.

    Attributes:
        value: Eq. 1 at ``plan``, constants included; ``linear + quadratic``.
        linear: feature part, (1 - alpha) sum_ijkl D_ij pi_ij pi_kl.
        quadratic: structure part, alpha sum_ijkl |A1_ik - A2_jl|^q pi_ij pi_kl.
        plan: ``[n, m]`` transport plan.
        marginal_error: L1 error of the plan's marginals, the larger of the two sides.
        gap: upper bound of the Frank-Wolfe gap max_s <gradient(plan), plan - s> over plans s with
            the marginals of ``plan``; zero at a stationary point.
        num_steps: steps done.
        converged: whether the residual met its tolerance at the end.
        status: code of :class:`Status`.
        history: objective along the way, from :func:`fgw_jax.fgw.trace`, else ``None``.
    """

    value: Any
    linear: Any
    quadratic: Any
    plan: Any
    marginal_error: Any
    gap: Any
    num_steps: Any
    converged: Any
    status: Any
    history: Any = None

    def message(self) -> str:
        """The status in words, with advice."""
        return ADVICE[Status(int(self.status))]

    def __repr__(self) -> str:
        """One line: value, shape of the plan, how the solve ended."""
        return f"Output({summary(self.value, self.status)}, plan={jnp.shape(self.plan)})"


def summary(value: Any, status: Any) -> str:
    """Value and status in a few words; shapes where there is more than one, or under ``jit``."""
    if isinstance(value, jax.core.Tracer) or jnp.ndim(value) or jnp.ndim(status):
        return f"values={jnp.shape(value)}"
    return f"{float(value):.6g}, {Status(int(status)).name.lower()}"


class Solver(Protocol):
    """What every solver offers, ott-jax's included.

    ``cost_name`` names the row of its cost in the estimates; ``relaxes`` says that it goes through
    plans that miss a marginal, ``feasible`` that its result meets both; ``refills`` that pairs may
    leave and enter a running batch; ``sparse`` that it solves problems of sparse structures;
    ``starts`` how many starts it tries.
    """

    @property
    def cost_name(self) -> str: ...  # noqa: D102
    @property
    def relaxes(self) -> bool: ...  # noqa: D102
    @property
    def feasible(self) -> bool: ...  # noqa: D102
    @property
    def refills(self) -> bool: ...  # noqa: D102
    @property
    def sparse(self) -> bool: ...  # noqa: D102
    @property
    def starts(self) -> int: ...  # noqa: D102

    def validate(self) -> None:
        """Raise :class:`InputError` for an option that cannot be."""

    def aligner(self) -> Solver:
        """The solver that aligns the sources of a midpoint for it; its plans are feasible."""

    def inner(self) -> Solver:
        """The solver that the paper's outer loop runs for it."""

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem from ``plan`` ``[n, m]``, or from its own start."""


class SteppedSolver(Solver, Protocol):
    """What the loop asks of a solver that goes step by step."""

    @property
    def rtol(self) -> Any:
        """Residual that counts as converged, relative to the value."""

    @property
    def atol(self) -> Any:
        """Residual that counts as converged, relative to the structure terms of Eq. 1."""

    @property
    def step_limit(self) -> int:
        """Most steps to do (static)."""

    @property
    def block(self) -> int:
        """Steps between two measurements of the residual (static)."""

    def init(self, problem: Problem, plan: jax.Array | None) -> Any:
        """State before the first step, from a given plan or the solver's own start."""

    def step(self, problem: Problem, state: Any) -> Any:
        """One step."""

    def measure(self, problem: Problem, state: Any) -> Any:
        """Bring ``value`` and the residual ``change`` up to date."""

    def output(self, problem: Problem, state: Any) -> Output:
        """The result of a finished state."""


def settled(solver: SteppedSolver, state: State) -> jax.Array:
    """Whether the residual is within ``atol scale + rtol |value|``."""
    return state.change <= solver.atol * state.scale + solver.rtol * jnp.abs(state.value)


def finished(solver: SteppedSolver, state: State) -> jax.Array:
    """Whether a state needs no further step: settled, at its limit, or not finite."""
    exhausted = state.count >= solver.step_limit
    return settled(solver, state) | exhausted | ~jnp.isfinite(state.value)


def fixed_count(solver: SteppedSolver) -> bool:
    """Whether one block is the whole solve."""
    return solver.block >= solver.step_limit


def advance(
    solver: SteppedSolver, problem: Problem, state: State, count: int | None = None
) -> State:
    """One block of steps, or what is left to the limit, and a measurement; or ``count`` steps."""
    steps: Any = solver.block if count is None else count
    if count is None and solver.step_limit % steps:
        steps = jnp.minimum(steps, solver.step_limit - state.count)
    state = jax.lax.fori_loop(0, steps, lambda _, s: solver.step(problem, s), state)
    return solver.measure(problem, state)


def run(solver: SteppedSolver, problem: Problem, plan: jax.Array | None = None) -> Output:
    """Solve ``problem``: blocks of steps until finished."""
    return iterate(solver, problem, solver.init(problem, plan))


def iterate(solver: SteppedSolver, problem: Problem, state: State) -> Output:
    """Go on from ``state`` until finished, as :func:`run` does."""
    if fixed_count(solver):
        state = advance(solver, problem, state)
    else:
        state = jax.lax.while_loop(
            lambda s: ~finished(solver, s), lambda s: advance(solver, problem, s), state
        )
    return solver.output(problem, state)


def record(
    solver: SteppedSolver, problem: Problem, plan: jax.Array | None = None, every: int = 1
) -> Output:
    """All steps up to the limit, settled or not; ``history`` has the objective after ``every``."""

    def block(state, _):
        state = advance(solver, problem, state, every)
        return state, state.value

    every = min(every, solver.step_limit)
    length = solver.step_limit // every
    state, values = jax.lax.scan(block, solver.init(problem, plan), None, length=length)
    return dataclasses.replace(solver.output(problem, state), history=values)


def describe(
    solver: SteppedSolver, problem: Problem, state: Any, plan: jax.Array, gap: jax.Array
) -> Output:
    """The output that goes with ``plan``, its status computed from the last residual."""
    linear, quadratic = problem.parts(plan)
    value = linear + quadratic
    converged = settled(solver, state) & jnp.isfinite(value)
    status = jnp.where(converged, Status.CONVERGED, Status.STEP_LIMIT)
    status = jnp.where(jnp.isfinite(value), status, Status.NON_FINITE).astype(jnp.int32)
    error = problem.marginal_error(plan)
    return Output(value, linear, quadratic, plan, error, gap, state.count, converged, status)
