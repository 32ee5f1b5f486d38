"""ott-jax's entropic Gromov-Wasserstein solver behind our call: the strict reference."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fgw_jax.errors import check
from fgw_jax.fgw import bounds, projections
from fgw_jax.fgw.iteration import Output, Status
from fgw_jax.fgw.problem import Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Reference:
    """``ott.solvers.quadratic.gromov_wasserstein`` with the plan rounded to exact marginals.

    ott-jax keeps ``epsilon`` static: every new value compiles anew. It weighs the feature cost by
    a fused penalty against the structure; ours is (1 - alpha) / alpha, so that both minimise Eq. 1.

    Attributes:
        epsilon: entropic regularisation of the inner problems.
        max_steps: outer iterations.
        sinkhorn_steps: limit of the inner Sinkhorn iterations.
    """

    epsilon: float = dataclasses.field(default=0.01, metadata={"static": True})
    max_steps: int = dataclasses.field(default=50, metadata={"static": True})
    sinkhorn_steps: int = dataclasses.field(default=2000, metadata={"static": True})

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem; ``plan`` warms the start."""
        from ott.geometry import geometry
        from ott.problems.quadratic import quadratic_problem
        from ott.solvers.linear import sinkhorn
        from ott.solvers.quadratic import gromov_wasserstein

        check(problem.q == 2, "q: ott-jax solves q = 2 here; use Strict() for q = 1")
        # alpha = 0 leaves no structure; a tiny floor keeps the penalty finite and the plan linear.
        alpha = jnp.maximum(problem.alpha, 1e-6)
        quadratic = quadratic_problem.QuadraticProblem(
            geometry.Geometry(problem.structure1),
            geometry.Geometry(problem.structure2),
            geometry.Geometry(problem.cost * ((1.0 - problem.alpha) / alpha)),
            fused_penalty=1.0,
            a=problem.weights1,
            b=problem.weights2,
        )
        solver = gromov_wasserstein.GromovWasserstein(
            linear_solver=sinkhorn.Sinkhorn(max_iterations=self.sinkhorn_steps),
            epsilon=self.epsilon,
            max_iterations=self.max_steps,
        )
        kwargs: dict[str, Any] = {} if plan is None else {"init": plan}
        result = solver(quadratic, **kwargs)
        plan = projections.round_to_feasible(result.matrix, problem.weights1, problem.weights2)
        linear, structure = problem.parts(plan)
        value = linear + structure
        converged = result.converged & jnp.isfinite(value)
        status = jnp.where(converged, Status.CONVERGED, Status.STEP_LIMIT)
        status = jnp.where(jnp.isfinite(value), status, Status.NON_FINITE).astype(jnp.int32)
        return Output(
            value,
            linear,
            structure,
            plan,
            problem.marginal_error(plan),
            bounds.frank_wolfe_gap(problem, plan),
            result.n_iters,
            converged,
            status,
        )
