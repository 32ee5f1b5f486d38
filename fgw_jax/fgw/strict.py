r"""Strict solver: conditional gradient on vertices, or mirror descent with Sinkhorn projections.

``method="mirror"``: each step is the proximal point of Peyre, Cuturi and Solomon (2016) in the KL
geometry,

.. math::

    \pi^{t+1} = \arg\min_{\pi \in \Pi(\mu_1, \mu_2)} \langle \nabla f(\pi^t), \pi \rangle
        + \tfrac{1}{\gamma_t} \mathrm{KL}(\pi \,|\, \pi^t),

with :math:`\gamma_t` in units of the gradient's own spread, so that one setting serves features
and structures of any scale. The last plan is projected once more and rounded to exact marginals.

``method="cg"``: a few such steps find the basin; :mod:`fgw_jax.fgw.conditional_gradient` goes on
from the nearest vertex until no direction descends.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fgw_jax.fgw import bounds, conditional_gradient, iteration, projections, starts
from fgw_jax.fgw.iteration import Output, State, describe
from fgw_jax.fgw.problem import Problem

#: Factor on the step size at the first and the last warm step: slow first, sharp at the end. On
#: PROTEINS pairs this takes 0.3 % off the value that the conditional gradient reaches from there.
RAMP = (0.5, 5.0)
#: What a setting left at ``None`` means for each method.
DEFAULTS: dict[str, dict[str, int]] = {
    "cg": {"max_steps": 300, "check_every": 4, "sweeps": 5},
    "mirror": {"max_steps": 20, "check_every": 20, "sweeps": 10},
}


def _static(default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Strict:
    """argmin of f over feasible plans; the returned plan has exact marginals.

    ``Strict()`` is the conditional gradient from a mirror descent start: lower values than from
    the product coupling, in less time. ``Strict(starts=8)`` keeps the best of eight starts.

    Attributes:
        step_size: gamma times the standard deviation of the gradient, for each mirror step.
        noise: deviation of the tie-breaking factor on the start; 0 starts at the product coupling.
        rtol: residual that counts as converged, relative to the value: the Frank-Wolfe gap (cg), or
            the change of the objective by the last step (mirror).
        atol: the same relative to the structure terms of Eq. 1 (:meth:`Problem.scale`), for values
            near zero.
        method: ``"cg"`` or ``"mirror"``.
        starts: number of starts; the best is returned. A given initial plan is one more.
        warm_steps: mirror steps before the conditional gradient; none after an initial plan.
        trials: jumps to equally good plans before the conditional gradient has converged.
        max_steps: limit of the number of steps; by default 300 (cg) or 20 (mirror).
        check_every: steps between two looks at the residual; by default 4 (cg) or 20 (mirror).
        sweeps: Sinkhorn sweeps in each mirror step; by default 5 (cg) or 10 (mirror).
        final_sweeps: sweeps before a mirror plan is rounded.
    """

    step_size: Any = 2.5
    noise: Any = 0.1
    rtol: Any = 1e-4
    atol: Any = 1e-6
    method: str = _static("cg")
    starts: int = _static(1)
    warm_steps: int = _static(20)
    trials: int = _static(4)
    max_steps: int | None = _static(None)
    check_every: int | None = _static(None)
    sweeps: int | None = _static(None)
    final_sweeps: int = _static(200)

    @property
    def step_limit(self) -> int:
        """Most steps to do."""
        return self._setting("max_steps")

    @property
    def block(self) -> int:
        """Steps between two looks at the residual."""
        return min(self._setting("check_every"), self.step_limit)

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem."""
        if self.starts == 1:
            return iteration.run(self, problem, plan)
        logs = starts.portfolio(problem, self.starts, self.noise)

        def one(log_plan):
            return iteration.iterate(self, problem, self.init(problem, log_plan=log_plan))

        # Side by side is no faster on a CPU, and several times slower where graphs are large: what
        # is compiled for one lane does not expect two.
        outs = jax.lax.map(one, logs) if jax.default_backend() == "cpu" else jax.vmap(one)(logs)
        best = jnp.argmin(outs.value)
        out = jax.tree.map(lambda x: x[best], outs)
        if plan is None:
            return out
        given = iteration.run(self, problem, plan)
        return jax.tree.map(lambda a, b: jnp.where(given.value <= out.value, a, b), given, out)

    def init(
        self, problem: Problem, plan: jax.Array | None = None, log_plan: jax.Array | None = None
    ) -> Any:
        """Start from ``plan``, or from ``log_plan``: by default the product with ties broken."""
        plan = None if plan is None else starts.scaled(problem, plan)
        if self.method == "cg" and plan is not None:
            return conditional_gradient.init(problem, projections.safe_log(plan), plan)
        log_plan = starts.log_start(problem, plan, self.noise) if log_plan is None else log_plan
        log_plan, plan = self._project(problem, log_plan)
        if self.method == "mirror":
            zero = jnp.zeros((), plan.dtype)
            return State(
                log_plan,
                plan,
                plan,
                jnp.zeros((), jnp.int32),
                zero,
                zero + jnp.inf,
                problem.scale(),
            )
        first, last = RAMP
        growth = (last / first) ** (1.0 / max(self.warm_steps - 1, 1))

        def descend(number, logs_and_plan):
            log_plan, plan = logs_and_plan
            return self._mirror(problem, log_plan, plan, first * growth**number)

        log_plan, _ = jax.lax.fori_loop(0, self.warm_steps, descend, (log_plan, plan))
        return conditional_gradient.init(problem, log_plan)

    def step(self, problem: Problem, state: Any) -> Any:
        """One step of the method; ``other`` keeps the plan before it, for the residual."""
        if self.method == "cg":
            return conditional_gradient.step(problem, state)
        log_plan, plan = self._mirror(problem, state.log_plan, state.plan)
        return State(
            log_plan, plan, state.plan, state.count + 1, state.value, state.change, state.scale
        )

    def measure(self, problem: Problem, state: Any) -> Any:
        """Objective at the current plan, and its change by the last step."""
        if self.method == "cg":
            tolerance = self.atol * state.scale + self.rtol * jnp.abs(state.current)
            return conditional_gradient.measure(problem, state, tolerance, self.trials)
        value = problem.value(state.plan)
        change = jnp.abs(value - problem.value(state.other))
        return dataclasses.replace(state, value=value, change=change)

    def output(self, problem: Problem, state: Any) -> Output:
        """Describe the feasible plan; a mirror plan is projected and rounded first."""
        if self.method == "cg":
            plan = conditional_gradient.finish(problem, state)
            return describe(self, problem, state, plan, state.gap)
        _, plan = projections.sinkhorn(
            state.log_plan, problem.weights1, problem.weights2, self.final_sweeps
        )
        plan = projections.round_to_feasible(plan, problem.weights1, problem.weights2)
        gap = bounds.frank_wolfe_gap(problem, plan)
        return describe(self, problem, state, plan, gap)

    def _mirror(self, problem: Problem, log_plan: jax.Array, plan: jax.Array, factor: Any = 1.0):
        gradient = spread_free(problem, problem.gradient(plan))
        return self._project(problem, log_plan - factor * self.step_size * gradient)

    def _project(self, problem: Problem, log_kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
        sweeps = self._setting("sweeps")
        return projections.sinkhorn(log_kernel, problem.weights1, problem.weights2, sweeps)

    def _setting(self, name: str) -> int:
        value = getattr(self, name)
        return DEFAULTS[self.method][name] if value is None else value


def spread_free(problem: Problem, gradient: jax.Array) -> jax.Array:
    """``gradient`` without its row and column means, in units of its standard deviation.

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
