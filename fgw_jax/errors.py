"""Exceptions of this package: messages name the argument, what was wrong, and what to do."""

from __future__ import annotations


class FgwJaxError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(FgwJaxError, ValueError):
    """An argument cannot be used; the message names it and the remedy."""


class DataError(FgwJaxError):
    """A dataset file cannot be read or trusted; the message names file, line and remedy."""


def check(condition: bool, message: str) -> None:
    """Raise :class:`InputError` with ``message`` unless ``condition`` holds.

    >>> check(1 + 1 == 2, "arithmetic is broken")
    """
    if not condition:
        raise InputError(message)
