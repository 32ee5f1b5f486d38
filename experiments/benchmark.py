"""Benchmarks against other libraries, one suite at a time.

    python -m experiments.benchmark --suite=distance --data_dir=FOLDER --out=FOLDER
    python -m experiments.benchmark --suite=distance --help

A suite is a module of ``experiments/benchmarks``: ``define`` adds its flags, ``main`` runs it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags as absl_flags

from experiments import flags
from fgw_jax.errors import InputError

SUITES = ("distance", "midpoint", "training", "scale", "processes", "fresh")


def chosen(arguments: Sequence[str]) -> str:
    """The suite of the command line, which must be known before its flags are defined."""
    for i, argument in enumerate(arguments):
        name, _, value = argument.lstrip("-").partition("=")
        if argument.startswith("-") and name == "suite":
            return value or (arguments[i + 1] if i + 1 < len(arguments) else "")
    return SUITES[0]


def load(name: str) -> Any:
    """The module of a suite."""
    if name not in SUITES:
        raise InputError(f"suite: {name!r} is not one of {', '.join(SUITES)}; choose one")
    try:
        return importlib.import_module(f"experiments.benchmarks.{name}")
    except ModuleNotFoundError as error:
        if error.name == f"experiments.benchmarks.{name}":
            raise InputError(f"suite: {name} is not part of this installation") from error
        raise InputError(
            f"suite: {name} needs {error.name}; pip install 'fgw_jax[bench]'"
        ) from error


def launch(arguments: Sequence[str]) -> None:
    """Define the flags of the suite and run it."""
    with flags.usage_errors(absl_flags.FLAGS, "suite"):
        suite = load(chosen(arguments))

    def define(values: absl_flags.FlagValues) -> None:
        text = f"One of {', '.join(SUITES)}."
        absl_flags.DEFINE_string("suite", SUITES[0], text, flag_values=values)
        suite.define(values)

    flags.launch(suite.main, suite.SHARED, define)


if __name__ == "__main__":
    launch(sys.argv[1:])
