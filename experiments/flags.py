"""Flags that the binaries share; wrong flags end a program immediately with exit code 2.

A binary lists the flags it takes. Nothing is defined on import, so that all binaries can be
imported together::

    if __name__ == "__main__":
        flags.launch(main, [*flags.PROTOCOL, *flags.FOLDS])
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import app, logging
from absl import flags as absl_flags

from experiments import compilations
from fgw_jax import augment as methods
from fgw_jax.backbones import BACKBONES
from fgw_jax.datasets import registry
from fgw_jax.errors import DataError, FgwJaxError, InputError, check
from fgw_jax.runtime import files, processes

WRONG = 2  #: exit code of a usage error
FAILED = 1  #: exit code if data or disk prevent the work
INTERRUPTED = 130  #: exit code of a run stopped by the user

_METHODS = (
    "vanilla, dropedge, dropnode, mmixup, ifmixup, gmixup, fgwmixup, fgwmixup_star; also "
    "gmixup_gw, gmixup_gw_star, gmixup_fgw (graphon estimators), smixup, geomix, attrmask, subgraph"
)
_OWN = "(default: the paper's for the dataset and backbone)"

#: name -> (kind, default, help)
_SHARED: dict[str, tuple[str, Any, str]] = {
    "dataset": (
        "string", "SYNTHETIC",
        "SYNTHETIC, made on the spot; or a TU or OGB name: PROTEINS, NCI1, NCI109, IMDB-BINARY, "
        "IMDB-MULTI, MUTAG, ogbg-molhiv, ogbg-molbace, ...",
    ),
    "backbone": ("string", "vgcn", f"One of {', '.join(BACKBONES)}."),
    "augment": (
        "list", "vanilla,fgwmixup,fgwmixup_star",
        f"Methods to compare, separated by commas: {_METHODS}.",
    ),
    "alpha": (
        "float", None,
        "FGW methods: weight of structure against features, 0 to 1 (default: 0.95).",
    ),
    "beta_k": ("float", None, "Mixups: lam ~ Beta(k, k) (default: 0.2)."),
    "ratio": (
        "float", None,
        "Mixups: new graphs per training graph (default: 0.25). DropEdge, DropNode: fraction "
        "dropped (default: 0.2).",
    ),
    "step_size": (
        "float", None, "fgwmixup_star: gamma = 1/rho of Alg. 2; the paper tries 0.1, 1, 10.",
    ),
    "size": (
        "string", None,
        "FGW methods: nodes of a midpoint: adaptive (lam n1 + (1 - lam) n2, default), median (of "
        "the training graphs), half or double the median.",
    ),
    "start": (
        "string", None,
        "FGW methods: geodesic (default; a lower objective in a fraction of the time) or random "
        "(the paper's).",
    ),
    "refresh_every": (
        "integer", None, "FGW methods: epochs between fresh midpoints (default: once per fold).",
    ),
    "num_layers": ("integer", None, f"Layers of the backbone {_OWN}."),
    "hidden": ("integer", None, f"Width of the backbone {_OWN}."),
    "epochs": ("integer", None, f"Passes over the training set {_OWN}."),
    "batch_size": ("integer", None, f"Graphs per training step {_OWN}."),
    "learning_rate": ("float", None, f"Learning rate of AdamW {_OWN}."),
    "patience": (
        "integer", None,
        "Epochs without a better validation score after which a fold stops early, from epoch 100 "
        "on; the authors' code has 50 (default: never).",
    ),
    "label_noise": (
        "float", 0.0, "Fraction of the training labels switched to another class, 0 to 1.",
    ),
    "protocol": (
        "string", None,
        "holdout: one test set, folds on the rest (the paper's text; default). rotating: each fold "
        "is the test set once (the authors' code). scaffold: OGB's split, one seed per fold.",
    ),
    "folds": ("integer", None, "Folds (default: 10; of scaffold: 5)."),
    "seed": ("integer", 0, "Seed of splits, noise, augmentation and training."),
    "data_dir": (
        "string", None,
        "Folder of datasets, as folders or zips; missing ones are downloaded into it (default: "
        "FGW_JAX_DATA, then the download cache).",
    ),
    "out": (
        "string", "experiments/results/local",
        "Folder of results.jsonl (one line per fold; folds found there are not repeated) and "
        "pictures.",
    ),
    "workers": (
        "integer", None,
        "Folds trained in parallel (default: one per core on CPU, up to 8; one on an accelerator).",
    ),
    "compilation_cache": (
        "string", None,
        "Folder of the on-disk cache of compiled programs (default: none).",
    ),
    "num_shards": ("integer", 1, "Parts of the work, for machines that are not connected."),
    "shard": ("integer", 0, "Number of the part to run, from 0."),
    "num_processes": (
        "integer", None, "Number of connected processes, each started by this command.",
    ),
    "process_id": ("integer", None, "Number of this process, from 0."),
    "coordinator_address": (
        "string", "localhost:29511", "host:port of process 0, reachable by all.",
    ),
    "distributed": (
        "bool", False,
        "Let JAX detect the other processes (TPU pods, Slurm, MPI), instead of the three flags "
        "above.",
    ),
}  # fmt: skip

_LARGE = 2**31
_DATASET_FLAGS = ("dataset", "datasets", "names")
#: flag -> the names it takes, in every binary
_NAMES_OF = {
    "backbone": tuple(BACKBONES),
    "backbones": tuple(BACKBONES),
    "augments": tuple(methods.METHODS),
    "methods": tuple(methods.METHODS),
}

PROTOCOL = tuple(_SHARED)[: tuple(_SHARED).index("data_dir")]
METHOD = ("alpha", "beta_k", "ratio", "step_size", "size", "start")
TRAINING = ("num_layers", "hidden", "epochs", "batch_size", "learning_rate", "patience")
PLACES = ("data_dir", "out", "compilation_cache")
PROCESSES = ("num_processes", "process_id", "coordinator_address", "distributed")
FOLDS = (*PLACES, "workers")
#: minimum of a shared flag
_LEAST = {"workers": 1}


def define(names: Sequence[str], values: absl_flags.FlagValues, **defaults: Any) -> None:
    """Define shared flags; ``defaults`` override those of the table."""
    for name in names:
        kind, default, text = _SHARED[name]
        least = {"lower_bound": _LEAST[name]} if name in _LEAST else {}
        getattr(absl_flags, f"DEFINE_{kind}")(
            name,
            defaults.get(name, default),
            text,
            flag_values=values,
            module_name=sys.argv[0],
            **least,
        )


def launch(
    main: Callable[[absl_flags.FlagValues], None],
    names: Sequence[str],
    extra: Callable[[absl_flags.FlagValues], None] | None = None,
    **defaults: Any,
) -> None:
    """Define flags, parse the command line, and call ``main``.

    Every binary takes ``--compilation_cache``, and prints at its end what it compiled.

    Args:
        main: the program.
        names: shared flags of the binary.
        extra: defines the flags of this binary alone.
        defaults: defaults that override those of the shared flags.
    """
    define(list(dict.fromkeys([*names, "compilation_cache"])), absl_flags.FLAGS, **defaults)
    if extra is not None:
        extra(absl_flags.FLAGS)

    def start(argv: Sequence[str]) -> None:
        del argv
        logging.set_verbosity(logging.WARNING)  # JAX logs which accelerators it did not find
        counts = compilations.counts()
        use_compilation_cache(absl_flags.FLAGS.compilation_cache)
        if "num_processes" in absl_flags.FLAGS:
            connect(absl_flags.FLAGS)
        with _failures():
            main(absl_flags.FLAGS)
        say(counts)

    app.run(start, flags_parser=lambda argv: parse(absl_flags.FLAGS, argv))


def parse(values: absl_flags.FlagValues, argv: Sequence[str]) -> list[str]:
    """Parse a command line; wrong flags end the program before any work."""
    with usage_errors(values):
        try:
            rest = values(argv)
        except absl_flags.Error as error:
            message = str(error).removeprefix("flag ")
            raise InputError(f"{message}; --help describes every flag") from error
        if len(rest) > 1:
            raise InputError(
                f"{' '.join(rest[1:])}: not a flag; write --name=value (--help lists them)"
            )
        for name in values:
            if values[name].present:
                _check(name, values[name].value)
        if "num_processes" in values:
            _processes(values)
    return list(rest)


def _check(name: str, value: Any) -> None:
    """Checks of a flag of this name in every binary; the library checks everything else."""
    if isinstance(value, float):
        check(math.isfinite(value), f"{name}: {value} is not a finite number; give one")
    elif isinstance(value, int):
        check(abs(value) < _LARGE, f"{name}: {value} is too large; stay below {_LARGE}")
    for word in value if isinstance(value, list) else [value]:
        check(word != "", f"{name}: empty; give a value, or leave the flag out")
        if name in _NAMES_OF:
            known = _NAMES_OF[name]
            check(word in known, f"{name}: no such name {word!r}; use {', '.join(known)}")
        if name in _DATASET_FLAGS and word != "SYNTHETIC":
            try:
                registry.find(word)
            except InputError as error:
                raise InputError(f"{name}: {str(error).removeprefix('name: ')}") from error
    if name in ("alpha", "label_noise"):
        check(0 <= value <= 1, f"{name}: {value} is not from 0 to 1; give a share")
    if name == "seed":
        check(value >= 0, f"seed: {value} is negative; give a number from 0")
    if name in ("data_dir", "compilation_cache") and os.path.exists(value):
        check(os.path.isdir(value), f"{name}: {value} is not a folder; give one")


@contextlib.contextmanager
def usage_errors(values: absl_flags.FlagValues, *early: str) -> Iterator[None]:
    """Context for checks before any work: errors of this package end the program with code 2.

    Args:
        values: the flags.
        early: names of flags that are not defined yet.
    """
    try:
        yield
    except (InputError, DataError) as error:
        message = str(error)
        # Messages of the library begin with an argument; on the command line it is a flag.
        dashes = "--" if message.split(":")[0] in (*values, *early) else ""
        print(f"wrong use: {dashes}{message}", file=sys.stderr)
        sys.exit(WRONG)


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Context for the work: errors of data or disk end the program with a message and code 1."""
    try:
        yield
    except FgwJaxError as error:
        print(f"failed: {error}", file=sys.stderr)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        # An ordinary exit would wait for threads in compiled code; finished work is on disk.
        print("\nstopped; the same command resumes where it was", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)
    except OSError as error:
        if error.filename is None and error.errno not in files.OF_THE_DISK:
            raise
        advice = "make room or allow access, then run again: finished work is kept"
        print(f"failed: {error}; {advice}", file=sys.stderr)
        sys.exit(FAILED)


def _processes(values: absl_flags.FlagValues) -> tuple[Any, Any, Any]:
    """The flags of connected processes, checked."""
    named = values.num_processes is not None or values.process_id is not None
    check(
        not (values.distributed and named),
        "distributed: the processes are given by other flags already; give one or the other",
    )
    given = (values.coordinator_address, values.num_processes, values.process_id)
    if not named and not values["coordinator_address"].present:
        given = (None, None, None)
    processes.check_processes(*given)
    return given


def connect(values: absl_flags.FlagValues) -> None:
    """Connect to the other processes, if there are any."""
    with usage_errors(values):
        given = _processes(values)
        if values.distributed or any(value is not None for value in given):
            processes.initialize(*given)


def say(*text: Any, **options: Any) -> None:
    """Print in process 0."""
    if processes.is_first():
        print(*text, **options)


def protocol(values: absl_flags.FlagValues) -> dict[str, Any]:
    """Fields of :class:`fgw_jax.protocol.settings.Settings` that are given as flags."""
    return {name: values[name].value for name in PROTOCOL if name in values}


def whole_numbers(values: absl_flags.FlagValues, name: str) -> list[int]:
    """Values of a list flag of positive integers."""
    given = values[name].value or []
    check(
        len(given) > 0 and all(x.isascii() and x.isdigit() and 0 < int(x) < 10**6 for x in given),
        f"{name}: {','.join(given)!r} are not whole numbers above 0; write 16,32",
    )
    return [int(x) for x in given]


def out_folder(values: absl_flags.FlagValues) -> Path:
    """``--out``, checked to be a folder that exists or can be created."""
    folder = Path(values.out)
    for place in (folder, *folder.parents):
        if place.exists():
            if not place.is_dir():
                raise InputError(f"out: {place} is a file; give a folder")
            if not os.access(place, os.W_OK):
                raise InputError(f"out: {place} cannot be written to; give another folder")
            break
    return folder


def use_compilation_cache(folder: str | None) -> None:
    """Enable the on-disk program cache; ``None`` leaves JAX unchanged."""
    if folder is None:
        return
    from fgw_jax import keep_programs

    keep_programs(folder)
