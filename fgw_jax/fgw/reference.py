"""ott-jax's entropic Gromov-Wasserstein solver behind our call: the strict reference."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from fgw_jax.errors import check
from fgw_jax.fgw import bounds, options, projections
from fgw_jax.fgw.iteration import Output, Status
from fgw_jax.fgw.problem import Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Reference(options.Checked):
    """``ott.solvers.quadratic.gromov_wasserstein`` with the plan rounded to exact marginals.

    ott-jax linearises to L(A1, A2) (x) pi + penalty D, without the factor two of the gradient of
    the quadratic part. Structures are scaled by sqrt(2 alpha) and D by 1 - alpha, so that its
    linearisation is the gradient of Eq. 1, for every alpha in [0, 1]. It keeps ``epsilon`` static:
    every new value compiles anew. It starts from the product coupling, where nodes that are exact
    copies of each other stay tied until rounding parts them.

    Attributes:
        epsilon: entropic regularisation of the inner problems, in units of the gradient.
        max_steps: outer iterations.
        sinkhorn_steps: limit of the inner Sinkhorn iterations.
    """

    epsilon: float = dataclasses.field(default=0.01, metadata={"static": True, "amount": False})
    max_steps: int = options.count(50)
    sinkhorn_steps: int = options.count(2000)

    cost_name: ClassVar[str] = "reference"
    relaxes: ClassVar[bool] = False
    feasible: ClassVar[bool] = True
    refills: ClassVar[bool] = False
    sparse: ClassVar[bool] = False
    starts: ClassVar[int] = 1

    def aligner(self) -> Reference:
        """The solver that aligns the sources of a midpoint: this one."""
        return self

    def inner(self) -> Reference:
        """The solver inside the outer loop of Alg. 1: this one."""
        return self

    def solve(self, problem: Problem, plan: jax.Array | None = None) -> Output:
        """Solve one padded problem; ``plan`` is where it is linearised first."""
        from ott.geometry import geometry
        from ott.initializers.quadratic import initializers
        from ott.problems.quadratic import quadratic_problem
        from ott.solvers.linear import sinkhorn
        from ott.solvers.quadratic import gromov_wasserstein

        check(problem.q == 2, "q: ott-jax solves q = 2 here; use Strict() or Relaxed() for q = 1")
        scale = jnp.sqrt(2.0 * problem.alpha)
        quadratic = quadratic_problem.QuadraticProblem(
            geometry.Geometry(scale * problem.structure1),
            geometry.Geometry(scale * problem.structure2),
            geometry.Geometry((1.0 - problem.alpha) * problem.cost),
            fused_penalty=1.0,
            a=problem.weights1,
            b=problem.weights2,
        )
        solver = gromov_wasserstein.GromovWasserstein(
            linear_solver=sinkhorn.Sinkhorn(max_iterations=self.sinkhorn_steps),
            epsilon=self.epsilon,
            initializer=initializers.QuadraticInitializer(init_coupling=plan),
            max_iterations=self.max_steps,
        )
        result = solver(quadratic)
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
            jnp.sum(result.costs != -1).astype(jnp.int32),  # ott-jax marks unused places by -1
            converged,
            status,
        )
