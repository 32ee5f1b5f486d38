r"""Mirror descent with Sinkhorn projections.

Each step is the proximal point of Peyre, Cuturi and Solomon (2016) in the KL geometry,

.. math::

    \pi^{t+1} = \arg\min_{\pi \in \Pi(\mu_1, \mu_2)} \langle \nabla f(\pi^t), \pi \rangle
        + \tfrac{1}{\gamma_t} \mathrm{KL}(\pi \,|\, \pi^t),

with :math:`\gamma_t` in units of the gradient's own spread, so that one setting serves features
and structures of any scale. The last plan is projected once more and rounded to exact marginals.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from fgw_jax.fgw import bounds, iteration, options, projections, starts
from fgw_jax.fgw.iteration import Output, State, describe
from fgw_jax.fgw.problem import Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MirrorDescent(options.Stepwise):
    """argmin of f over feasible plans by mirror descent; the returned plan has exact marginals.

    ``Strict(method="mirror")`` is one of these.

    Attributes:
        step_size: gamma times the standard deviation of the gradient, for each step.
        noise: deviation of the tie-breaking factor on the start; 0 starts at the product coupling.
        rtol: change of the objective by the last step that counts as converged, relative to it.
        atol: the same relative to the structure terms of Eq. 1 (:meth:`Problem.scale`).
        starts: number of starts; the best is returned. A given initial plan is one more.
        max_steps: limit of the number of steps.
        check_every: steps between two tests of the residual.
        sweeps: Sinkhorn sweeps in each step.
        final_sweeps: sweeps before the plan is rounded.
    """

    step_size: Any = options.amount(2.5)
    noise: Any = options.amount(0.1, zero=True)
    rtol: Any = options.amount(1e-3, zero=True)
    atol: Any = options.amount(1e-6, zero=True)
    starts: int = options.count(1)
    max_steps: int = options.count(20)
    check_every: int = options.count(20)
    sweeps: int = options.count(10)
    final_sweeps: int = options.count(200, least=0)

    front_name: ClassVar[str] = "Strict"
    cost_name: ClassVar[str] = "mirror"
    relaxes: ClassVar[bool] = False
    feasible: ClassVar[bool] = True
    sparse: ClassVar[bool] = True

    @property
    def refills(self) -> bool:
        """Whether pairs of a batch may leave it one by one."""
        return self.starts == 1 and not iteration.fixed_count(self)

    def aligner(self) -> MirrorDescent:
        """The solver that aligns the sources of a midpoint: this one."""
        return self

    def inner(self) -> MirrorDescent:
        """The solver inside the outer loop of Alg. 1: this one."""
        return self

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem from ``plan`` ``[n, m]``, or the solver's own start."""
        return starts.best_of(self, problem, plan)

    def init(
        self, problem: Problem, plan: jax.Array | None = None, log_plan: jax.Array | None = None
    ) -> State:
        """Start from ``plan``, or from ``log_plan``: by default the product with ties broken."""
        plan = None if plan is None else starts.scaled(problem, plan)
        log_plan = starts.log_start(problem, plan, self.noise) if log_plan is None else log_plan
        log_plan, plan = _project(problem, log_plan, self.sweeps)
        zero = jnp.zeros((), plan.dtype)
        scale = problem.scale()
        return State(log_plan, plan, plan, jnp.zeros((), jnp.int32), zero, zero + jnp.inf, scale)

    def step(self, problem: Problem, state: State) -> State:
        """One step; ``other`` keeps the plan before it, for the residual."""
        log_plan, plan = mirror_step(
            problem, state.log_plan, state.plan, self.step_size, self.sweeps
        )
        return dataclasses.replace(
            state, log_plan=log_plan, plan=plan, other=state.plan, count=state.count + 1
        )

    def measure(self, problem: Problem, state: State) -> State:
        """Objective at the current plan, and its change by the last step."""
        value = problem.value(state.plan)
        change = jnp.abs(value - problem.value(state.other))
        return dataclasses.replace(state, value=value, change=change)

    def output(self, problem: Problem, state: State) -> Output:
        """Describe the plan, projected and rounded to its marginals."""
        weights = problem.weights1, problem.weights2
        _, plan = projections.sinkhorn(state.log_plan, *weights, self.final_sweeps)
        plan = projections.round_to_feasible(plan, *weights)
        return describe(self, problem, state, plan, bounds.frank_wolfe_gap(problem, plan))


def mirror_step(
    problem: Problem, log_plan: jax.Array, plan: jax.Array, step_size: Any, sweeps: int
) -> tuple[jax.Array, jax.Array]:
    """One mirror step from ``plan`` ``[n, m]``; the new plan's logarithm and the plan."""
    gradient = standardize_gradient(problem, problem.gradient(plan))
    return _project(problem, log_plan - step_size * gradient, sweeps)


def descend(
    problem: Problem, log_plan: jax.Array, sizes: tuple[Any, Any], num_steps: int, sweeps: int
) -> jax.Array:
    """Logarithm of the plan after ``num_steps`` steps, their sizes geometric between ``sizes``."""
    first, last = sizes
    growth = (last / first) ** (1.0 / max(num_steps - 1, 1))

    def one(number, logs_and_plan):
        log_plan, plan = logs_and_plan
        return mirror_step(problem, log_plan, plan, first * growth**number, sweeps)

    start = _project(problem, log_plan, sweeps)
    return jax.lax.fori_loop(0, num_steps, one, start)[0]


def _project(problem: Problem, log_kernel: jax.Array, sweeps: int) -> tuple[jax.Array, jax.Array]:
    return projections.sinkhorn(log_kernel, problem.weights1, problem.weights2, sweeps)


def standardize_gradient(problem: Problem, gradient: jax.Array) -> jax.Array:
    """``gradient`` ``[n, m]`` less its row and column means, in units of its standard deviation.

    Row and column terms do not move a projection on the polytope; only what is left is a
    direction, and its spread under mu1 mu2^T sets the scale of the step.
    """
    alive = (problem.weights1 > 0)[:, None] & (problem.weights2 > 0)[None, :]
    gradient = jnp.where(alive, gradient, 0.0)
    rows, columns = gradient @ problem.weights2, problem.weights1 @ gradient
    centred = gradient - (rows - problem.weights1 @ rows)[:, None] - columns[None, :]
    centred = jnp.where(alive, centred, 0.0)
    # Squares would overflow, or vanish, long before the numbers; a power of two rounds nothing.
    factor = jnp.ldexp(jnp.ones((), gradient.dtype), -jnp.frexp(jnp.abs(centred).max())[1])
    centred = centred * factor
    variance = problem.weights1 @ centred**2 @ problem.weights2
    # Below the rounding error of the gradient there is no direction left, only noise.
    noise = 8.0 * jnp.finfo(gradient.dtype).eps * jnp.abs(rows).max() * factor
    clear = variance > noise**2
    return jnp.where(clear, centred / jnp.sqrt(jnp.where(clear, variance, 1.0)), 0.0)
