"""Which solver does what for a midpoint, decided from the arguments of the front door."""

from __future__ import annotations

import dataclasses
from typing import Any

from fgw_jax.errors import InputError, check
from fgw_jax.fgw import Strict
from fgw_jax.fgw.checks import check_solver
from fgw_jax.fgw.iteration import Solver
from fgw_jax.inputs import check_key
from fgw_jax.midpoint.descent import Descent, RelaxedDescent, VertexDescent
from fgw_jax.midpoint.starts import STARTS


@dataclasses.dataclass(frozen=True)
class Roles:
    """The solvers of a midpoint.

    Attributes:
        start: ``"geodesic"`` or ``"random"``.
        aligner: aligns the sources for a geodesic start; of a random one it solves the outer steps.
        descent: improves the plans of a geodesic start.
    """

    start: str
    aligner: Any
    descent: Any


def resolve_roles(
    solver: Solver | None, start: str, key: Any, aligner: Solver | None, descent: Descent | None
) -> Roles:
    """Resolve the arguments of :func:`fgw_jax.mixup`.

    Args:
        solver: shorthand for the other two; ``Strict()`` by default.
        start: name of the start.
        key: random key.
        aligner: see :func:`fgw_jax.mixup`.
        descent: see :func:`fgw_jax.mixup`.

    Returns:
        The roles, with nothing left open.

    Raises:
        InputError: for an unknown start, and for an option that would have no effect.
    """
    check(start in STARTS, f"start: unknown name {start!r}; use one of {STARTS}")
    if key is not None:
        check_key(key, several=True)
    if start == "random":
        check(
            key is not None,
            "key: a random start needs a random key; pass key=jax.random.key(0)",
        )
        for name, value in (("aligner", aligner), ("descent", descent)):
            check(
                value is None,
                f'{name}: has no effect with start="random", whose outer steps are solved by '
                "solver; leave it out",
            )
        chosen = Strict() if solver is None else solver
        check_solver(chosen)
        return Roles(start, chosen.inner(), None)
    check(
        solver is None or aligner is None,
        "solver: has no effect beside aligner; pass one of them, and descent= for the rounds after",
    )
    if descent is not None:
        if not (hasattr(descent, "run") and hasattr(descent, "validate")):
            raise InputError(
                f"descent: expected VertexDescent() or RelaxedDescent(), got {descent!r}"
            )
        descent.validate()
    if aligner is not None:
        check_solver(aligner)
        check(
            aligner.feasible,
            "aligner: its plans miss a marginal; pass round=True, or Strict()",
        )
        return Roles(start, aligner, VertexDescent() if descent is None else descent)
    chosen = Strict() if solver is None else solver
    check_solver(chosen)
    if descent is None:
        size = getattr(chosen, "step_size", 1.0)
        descent = RelaxedDescent(size) if chosen.relaxes else VertexDescent()
    return Roles(start, chosen.aligner(), descent)
