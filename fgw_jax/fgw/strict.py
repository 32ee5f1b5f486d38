"""``Strict``: the front door to the solvers whose plans are feasible."""

from __future__ import annotations

from typing import Any

from fgw_jax.errors import check
from fgw_jax.fgw import options as options_
from fgw_jax.fgw.conditional_gradient import ConditionalGradient
from fgw_jax.fgw.mirror_descent import MirrorDescent

METHODS: dict[str, type] = {"cg": ConditionalGradient, "mirror": MirrorDescent}


def Strict(method: str = "cg", **options: Any) -> ConditionalGradient | MirrorDescent:
    """A solver of argmin f over feasible plans.

    Args:
        method: ``"cg"`` for :class:`ConditionalGradient` (default), ``"mirror"`` for
            :class:`MirrorDescent`.
        **options: fields of that class: ``Strict(starts=8)`` keeps the best of eight starts.

    Returns:
        The solver.

    Raises:
        InputError: for an unknown method, and for options that it does not have.

    >>> Strict(starts=8).starts
    8
    """
    check(method in METHODS, f"Strict.method: must be one of {tuple(METHODS)}, got {method!r}")
    names = {f'method="{name}"': solver for name, solver in METHODS.items()}
    return options_.build(names, f'method="{method}"', "Strict", options)
