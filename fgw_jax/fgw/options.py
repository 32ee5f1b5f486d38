"""Options of solvers: each field declares what it may be, one function checks them."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

import jax
import numpy as np

from fgw_jax.errors import InputError, check
from fgw_jax.inputs import concrete


def amount(default: Any, *, zero: bool = False) -> Any:
    """A traced number above zero, or at least zero."""
    return dataclasses.field(default=default, metadata={"amount": zero})


def count(default: int, *, least: int = 1) -> Any:
    """A static whole number of at least ``least``."""
    return dataclasses.field(default=default, metadata={"static": True, "least": least})


def choice(default: Any, choices: tuple[Any, ...]) -> Any:
    """A static value out of a few."""
    return dataclasses.field(default=default, metadata={"static": True, "choices": choices})


class Checked:
    """A dataclass whose fields declare what they may be."""

    def validate(self) -> None:
        """Raise :class:`InputError` for an option that cannot be."""
        validate(self)


class Stepwise(Checked):
    """What solvers with ``max_steps`` and ``check_every`` share."""

    max_steps: int
    check_every: int

    @property
    def step_limit(self) -> int:
        """Most steps to do."""
        return self.max_steps

    @property
    def block(self) -> int:
        """Steps between two measurements of the residual."""
        return min(self.check_every, self.max_steps)


def validate(options: Any) -> None:
    """Check the fields of a dataclass by what they declare.

    Args:
        options: a solver, or a dataclass of options of its own.

    Raises:
        InputError: for the first field that does not fit; it names the field and the remedy.
    """
    label = getattr(options, "front_name", type(options).__name__)
    for field in dataclasses.fields(options):
        name, value, declared = (
            f"{label}.{field.name}",
            getattr(options, field.name),
            field.metadata,
        )
        if "choices" in declared:
            check(
                any(
                    value is c or (type(value) is type(c) and value == c)
                    for c in declared["choices"]
                ),
                f"{name}: must be one of {declared['choices']}, got {value!r}",
            )
        elif "least" in declared:
            whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
            check(
                whole and value >= declared["least"],
                f"{name}: must be a whole number of at least {declared['least']}, got {value!r}",
            )
        elif "amount" in declared and concrete(value):
            _check_amount(name, value, declared["amount"])


def _check_amount(name: str, value: Any, zero: bool) -> None:
    try:
        number = float(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: expected a number, got {value!r}") from error
    good = np.isfinite(number) and (number > 0 or (zero and number == 0))
    check(good, f"{name}: must be a finite number {'>=' if zero else '>'} 0, got {value!r}")


def build(classes: dict[str, type], kind: str, front_name: str, options: dict[str, Any]) -> Any:
    """An instance of ``classes[kind]``; options of another class are refused by name."""
    allowed = [field.name for field in dataclasses.fields(classes[kind])]
    for name in options:
        owners = [k for k, c in classes.items() if name in {f.name for f in dataclasses.fields(c)}]
        if name not in allowed and owners:
            raise InputError(
                f"{front_name}.{name}: has no effect with {kind}; leave it out, or use "
                f"{' or '.join(owners)}"
            )
        check(
            name in allowed,
            f"{front_name}.{name}: unknown option; choose from {', '.join(allowed)}",
        )
    return classes[kind](**options)


def is_default(solver: Any) -> bool:
    """Whether all options are concrete and the defaults of their class."""
    return all(map(concrete, jax.tree.leaves(solver))) and solver == type(solver)()
