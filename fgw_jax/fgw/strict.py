r"""Strict solver: mirror descent with Sinkhorn projections.

Each step is the proximal point of Peyre, Cuturi and Solomon (2016) in the KL geometry,

.. math::

    \pi^{t+1} = \arg\min_{\pi \in \Pi(\mu_1, \mu_2)} \langle \nabla f(\pi^t), \pi \rangle
        + \tfrac{1}{\gamma_t} \mathrm{KL}(\pi \,|\, \pi^t),

with :math:`\gamma_t` in units of the gradient's own spread, so that one setting serves features
and structures of any scale. The last plan is projected once more and rounded to exact marginals.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fgw_jax.fgw import bounds, iteration, projections, starts
from fgw_jax.fgw.iteration import Output, State, describe
from fgw_jax.fgw.problem import Problem


def _static(default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Strict:
    """argmin of f over feasible plans; the returned plan has exact marginals.

    Attributes:
        step_size: gamma times the standard deviation of the gradient, for each step.
        noise: deviation of the tie-breaking factor on the start; 0 starts at the product coupling.
        rtol: relative change of the objective over a block of steps that counts as converged.
        atol: absolute change that counts as converged.
        max_steps: limit of the number of steps.
        check_every: steps between two looks at the objective; ``max_steps`` fixes the count.
        sweeps: Sinkhorn sweeps in each step.
        final_sweeps: sweeps before the plan is rounded.
    """

    step_size: Any = 2.5
    noise: Any = 0.1
    rtol: Any = 1e-3
    atol: Any = 1e-6
    method: str = _static("mirror")
    max_steps: int = _static(20)
    check_every: int = _static(20)
    sweeps: int = _static(10)
    final_sweeps: int = _static(200)

    @property
    def step_limit(self) -> int:
        """Most steps to do."""
        return self.max_steps

    @property
    def block(self) -> int:
        """Steps between two looks at the objective."""
        return self.check_every

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem."""
        return iteration.run(self, problem, plan)

    def init(self, problem: Problem, plan: jax.Array | None = None) -> State:
        """Start from ``plan``, or from the product coupling with ties broken."""
        log_plan = starts.log_start(problem, plan, self.noise)
        log_plan, plan = self._project(problem, log_plan)
        zero = jnp.zeros((), plan.dtype)
        return State(log_plan, plan, plan, jnp.zeros((), jnp.int32), zero, zero + jnp.inf)

    def step(self, problem: Problem, state: State) -> State:
        """One proximal step; ``other`` keeps the plan before it, for the residual."""
        gradient = spread_free(problem, problem.gradient(state.plan))
        log_plan, plan = self._project(problem, state.log_plan - self.step_size * gradient)
        return State(log_plan, plan, state.plan, state.count + 1, state.value, state.change)

    def measure(self, problem: Problem, state: State) -> State:
        """Objective at the current plan, and its change by the last step."""
        value = problem.value(state.plan)
        change = jnp.abs(value - problem.value(state.other))
        return dataclasses.replace(state, value=value, change=change)

    def output(self, problem: Problem, state: State) -> Output:
        """Project, round, and describe the feasible plan."""
        _, plan = projections.sinkhorn(
            state.log_plan, problem.weights1, problem.weights2, self.final_sweeps
        )
        plan = projections.round_to_feasible(plan, problem.weights1, problem.weights2)
        gap = bounds.frank_wolfe_gap(problem, plan)
        return describe(self, problem, state, plan, gap)

    def _project(self, problem: Problem, log_kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
        return projections.sinkhorn(log_kernel, problem.weights1, problem.weights2, self.sweeps)


def spread_free(problem: Problem, gradient: jax.Array) -> jax.Array:
    """``gradient`` without its row and column means, in units of its standard deviation.

    Row and column terms do not move a projection on the polytope; only what is left is a
    direction, and its spread under mu1 mu2^T sets the scale of the step.
    """
    gradient = gradient - (gradient @ problem.weights2)[:, None]
    gradient = gradient - (problem.weights1 @ gradient)[None, :]
    variance = problem.weights1 @ gradient**2 @ problem.weights2
    # Below rounding error of the gradient there is no direction left, only noise.
    floor = jnp.finfo(gradient.dtype).eps * jnp.maximum(jnp.abs(problem.cost).max(), 1.0)
    scale = jnp.sqrt(variance)
    return jnp.where(scale > floor, gradient / jnp.maximum(scale, floor), 0.0)
