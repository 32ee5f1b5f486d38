"""Checks of what comes in by the front door: each error names the argument and the remedy."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from fgw_jax.errors import InputError, check
from fgw_jax.fgw.problem import check_feature_cost
from fgw_jax.fgw.relaxed import Relaxed
from fgw_jax.fgw.strict import Strict
from fgw_jax.graphs import is_single
from fgw_jax.inputs import concrete


def check_graphs(graph1: Any, graph2: Any, feature_cost: Any) -> None:
    """Refuse what is not a graph, and graphs whose features cannot be compared."""
    for name, graph in (("graph1", graph1), ("graph2", graph2)):
        if not is_single(graph):
            kind = type(graph).__name__
            raise InputError(
                f"{name}: expected a single Graph, got {kind}; build one with "
                "Graph.from_adjacency, and compare batches with jax.vmap or distances()"
            )
    widths = graph1.features.shape[-1], graph2.features.shape[-1]
    check(
        widths[0] == widths[1] or not isinstance(feature_cost, str),
        f"graph1, graph2: feature widths differ ({widths[0]} and {widths[1]}); "
        "give both graphs the same features, or pass feature_cost as a matrix",
    )
    shape = graph1.mask.shape[-1], graph2.mask.shape[-1]
    check(
        isinstance(feature_cost, str) or np.shape(feature_cost) == shape,
        f"feature_cost: expected a name or a matrix of shape {shape}, got "
        f"{np.shape(feature_cost)}; one row a node of the first graph, one column a node of the "
        "second",
    )
    if not isinstance(feature_cost, str) and concrete(feature_cost):
        check(_finite(feature_cost), "feature_cost: entries that are no finite numbers; mend them")


def check_problem(alpha: Any, q: Any, feature_cost: Any) -> None:
    """Refuse an alpha outside [0, 1], an exponent other than 1 and 2, an unknown feature cost."""
    check(q in (1, 2), f"q: must be 1 or 2, got {q!r}")
    if isinstance(feature_cost, str):
        check_feature_cost(feature_cost)
    if concrete(alpha):
        number = np.asarray(alpha)
        check(
            number.shape == ()
            and (number.dtype.kind in "biuf" or jax.numpy.issubdtype(number.dtype, np.floating))
            and bool(0 <= number <= 1),
            f"alpha: must be one number in [0, 1], got {alpha!r}; "
            "1 compares structures only, 0 features only",
        )


def check_named(feature_cost: Any) -> None:
    """Refuse a matrix of feature costs where there are many pairs."""
    check(
        isinstance(feature_cost, str),
        "feature_cost: a matrix belongs to one pair; use distance(), or name a cost",
    )


def check_plan(init: Any, shape: tuple[int, int]) -> None:
    """Refuse an initial plan of the wrong shape, or one that is no plan."""
    if init is None:
        return
    check(
        tuple(np.shape(init)) == shape,
        f"init: expected a plan of shape {shape}, got {np.shape(init)}; "
        "one row a node of the first graph, one column a node of the second",
    )
    if concrete(init):
        values = np.asarray(init)
        check(
            _finite(values) and bool((values >= 0).all() and values.sum() > 0),
            "init: a plan has finite entries of at least 0, some positive; leave it out to start "
            "from the product coupling",
        )


def _finite(values: Any) -> bool:
    """Whether an array holds finite real numbers only."""
    array = np.asarray(values)
    real = array.dtype.kind in "biuf" or jax.numpy.issubdtype(array.dtype, np.floating)
    return real and bool(np.isfinite(array).all())


def check_solver(solver: Any) -> None:
    """Refuse what is not a solver, and settings no solver can work with."""
    if isinstance(solver, type) or solver in (Strict, Relaxed):
        raise InputError(f"solver: this is not a solver yet; make one, {solver.__name__}()")
    if not (hasattr(solver, "solve") and hasattr(solver, "validate")):
        raise InputError(
            f"solver: expected Strict(), Relaxed() or Reference(), got {type(solver).__name__}"
        )
    solver.validate()


def is_traced(*trees: Any) -> bool:
    """Whether any leaf is traced: we are inside someone's jit, vmap or grad."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))
