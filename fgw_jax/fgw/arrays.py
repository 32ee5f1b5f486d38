"""FGW of plain arrays, in the argument order of POT."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import check
from fgw_jax.fgw import gradients
from fgw_jax.fgw.checks import check_plan, check_problem, check_solver
from fgw_jax.fgw.iteration import Output, Solver
from fgw_jax.fgw.problem import Problem
from fgw_jax.fgw.strict import Strict
from fgw_jax.inputs import concrete


def solve(
    M: ArrayLike,
    C1: ArrayLike,
    C2: ArrayLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    alpha: ArrayLike = 0.95,
    solver: Solver | None = None,
    init: ArrayLike | None = None,
    power: int = 2,
) -> Output:
    r"""FGW of a cost and two structures: the call of ``ot.gromov.fused_gromov_wasserstein``.

    .. math::

        \min_{\pi \in \Pi(p, q)} (1-\alpha) \langle M, \pi \rangle
            + \alpha \sum_{ijkl} |C_1(i,k) - C_2(j,l)|^2 \pi_{ij} \pi_{kl}

    Conventions against POT: ``alpha`` weighs the structure in both, and is 0.5 there by default;
    ``M`` is taken as it is (POT's examples pass squared Euclidean distances); POT's ``loss_fun``
    ``"square_loss"`` is ``power=2``; its ``G0`` is ``init``; its ``log["fgw_dist"]`` is
    ``Output.value``, and what it returns is ``Output.plan``. Works under ``jit``, ``vmap`` and
    ``grad``; every new shape compiles once. For graphs, and for lists of them, see
    :func:`fgw_jax.distance` and :func:`fgw_jax.distances`, which share few padded shapes.

    Args:
        M: ``[n, m]`` cost between the nodes of both graphs.
        C1: ``[n, n]`` symmetric structure of the first graph.
        C2: ``[m, m]`` symmetric structure of the second graph.
        p: ``[n]`` weights of the first graph, summing to one; uniform by default.
        q: ``[m]`` weights of the second graph; uniform by default.
        alpha: structure against cost, in [0, 1].
        solver: ``Strict()`` (default), ``Relaxed()`` or ``Reference()``.
        init: ``[n, m]`` plan to start from.
        power: exponent of the structure term, 1 or 2.

    Returns:
        Value, plan and diagnostics.

    Raises:
        InputError: for arguments that do not fit.

    >>> ring = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    >>> out = solve(np.zeros((4, 4)), ring, ring)
    >>> round(float(out.value), 5), out.plan.shape
    (0.0, (4, 4))
    """
    solver = Strict() if solver is None else solver
    check_solver(solver)
    check_problem(alpha, power, "sqeuclidean")
    check(np.ndim(M) == 2, f"M: expected a matrix [n, m], got shape {np.shape(M)}")
    n, m = np.shape(M)
    check_plan(init, (n, m))
    weights = []
    for name, value, size in (("p", p, n), ("q", q, m)):
        value = np.full(size, 1.0 / size) if value is None else value
        check(
            np.shape(value) == (size,),
            f"{name}: expected {size} weights, got shape {np.shape(value)}; M has shape {(n, m)}",
        )
        if concrete(value):
            array = np.asarray(value, np.float64)
            check(
                bool((array >= 0).all()) and abs(array.sum() - 1.0) < 1e-4,
                f"{name}: weights must be at least 0 and sum to 1, they sum to {array.sum():.6g}; "
                "divide them by their sum",
            )
        weights.append(value)
    for name, value in (("M", M), ("C1", C1), ("C2", C2)):
        if concrete(value):
            check(
                bool(np.isfinite(np.asarray(value)).all()),
                f"{name}: contains NaN or inf; replace them",
            )
    for name, value, size in (("C1", C1, n), ("C2", C2, m)):
        check(
            np.shape(value) == (size, size),
            f"{name}: expected shape {(size, size)}, got {np.shape(value)}; M has shape {(n, m)}",
        )
        if concrete(value):
            array = np.asarray(value, np.float64)
            check(
                bool(
                    np.abs(array - array.T).max(initial=0.0)
                    <= 1e-6 * np.abs(array).max(initial=0.0)
                ),
                f"{name}: is not symmetric; pass ({name} + {name}.T) / 2",
            )
    dtype = jnp.result_type(float)
    first, second, cost, a, b = (jnp.asarray(x, dtype) for x in (C1, C2, M, *weights))
    problem = Problem(first, second, cost, a, b, jnp.asarray(alpha, dtype), power)
    return _solve(solver, problem, None if init is None else jnp.asarray(init))


_solve = jax.jit(gradients.solve)
