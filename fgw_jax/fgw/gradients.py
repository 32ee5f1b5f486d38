r"""Derivatives of the value by the envelope theorem.

At a local minimum :math:`\pi^*` the plan's own motion does not change the value to first order, so

.. math::

    \mathrm d\, \mathrm{FGW} = \partial_\theta F(\pi^*; \theta)\, \mathrm d\theta
        + \langle f, \mathrm d\mu_1 \rangle + \langle g, \mathrm d\mu_2 \rangle,

for :math:`\theta` = features (through D), structures and alpha, F being Eq. 1 at a fixed plan, and
f, g the dual potentials of the linear program :math:`\min_s \langle \nabla F(\pi^*), s \rangle`.
Nothing is unrolled; forward and reverse mode, jit and vmap all work.

What is not differentiated: the plan (its derivative is zero), the gap and the marginal error, and
settings of the solver. ``linear`` and ``quadratic`` are differentiated at the fixed plan; only for
their sum, the value, is that the derivative of a minimum. The derivative by the weights holds for
directions that keep their sum, and where the potentials are unique: on a degenerate vertex (equal
weights on both sides, say) it is one of several subgradients.
"""

from __future__ import annotations

import dataclasses

import jax

from fgw_jax.fgw import linear_program
from fgw_jax.fgw.basis import greedy_basis
from fgw_jax.fgw.iteration import Output, Solver
from fgw_jax.fgw.problem import Problem
from fgw_jax.fgw.projections import safe_log


def solve(solver: Solver, problem: Problem, plan: jax.Array | None = None) -> Output:
    """Output of ``solver.solve``, with derivatives of ``value``, ``linear`` and ``quadratic``."""
    fixed = jax.lax.stop_gradient((solver, problem, plan))
    out = jax.lax.stop_gradient(fixed[0].solve(*fixed[1:]))
    value, linear, quadratic = _attach(problem, out.plan, (out.value, out.linear, out.quadratic))
    return dataclasses.replace(out, value=value, linear=linear, quadratic=quadratic)


@jax.custom_jvp
def _attach(problem: Problem, plan: jax.Array, values: tuple[jax.Array, ...]):
    """``values`` as they are; their derivatives by ``problem`` follow from the envelope theorem."""
    del problem, plan
    return values


@_attach.defjvp
def _attach_jvp(primals, tangents):
    problem, plan, values = primals
    direction = tangents[0]
    _, (linear, quadratic) = jax.jvp(lambda p: p.parts(plan), (problem,), (direction,))
    first, second = potentials(problem, plan)
    weights = first @ direction.weights1 + second @ direction.weights2
    return values, (linear + quadratic + weights, linear, quadratic)


def potentials(problem: Problem, plan: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Dual potentials ``[n]``, ``[m]`` of the program linearised at ``plan``: d value / d weights.

    Up to a constant that goes from one to the other. Row and column terms of the gradient, which
    :meth:`Problem.gradient` leaves out, are added back here.
    """
    basis = greedy_basis(safe_log(plan), problem.weights1, problem.weights2)
    gradient = jax.grad(problem.value)(plan)
    # The part constant along rows or columns is taken out before: it would cost digits.
    rows = (gradient @ problem.weights2) / problem.weights2.sum()
    columns = (problem.weights1 @ gradient) / problem.weights1.sum()
    reduced = gradient - rows[:, None] - columns[None, :]
    potential = linear_program.potentials(*linear_program.optimise(basis, reduced))
    n = problem.shape[0]
    return rows + potential[:n], columns - potential[n:]
