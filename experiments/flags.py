"""Flags the binaries share, and how wrong ones end: at once, by name, with exit code 2.

A binary says which it takes; nothing is defined on import, so that all binaries can be imported
side by side::

    if __name__ == "__main__":
        flags.launch(main, [*flags.PROTOCOL, *flags.PLACES])
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import app, logging
from absl import flags as absl_flags

from experiments import compilations
from fgw_jax import distributed
from fgw_jax.errors import DataError, InputError

WRONG = 2  #: exit code of a usage error

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
    "backbone": ("string", "vgcn", "vgcn, vgin, graphormer or graphormer_gd."),
    "augment": (
        "list", "vanilla,fgwmixup,fgwmixup_star",
        f"Methods to compare, with commas between them: {_METHODS}.",
    ),
    "alpha": (
        "float", None,
        "FGW methods: weight of structure against features, 0 to 1 (default: 0.95).",
    ),
    "beta_k": ("float", None, "Mixups: lam ~ Beta(k, k) (default: 0.2)."),
    "ratio": (
        "float", None,
        "Mixups: new graphs a training graph (default: 0.25). DropEdge, DropNode: share dropped "
        "(default: 0.2).",
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
    "num_layers": ("integer", None, f"Layers of the backbone {_OWN}."),
    "hidden": ("integer", None, f"Width of the backbone {_OWN}."),
    "epochs": ("integer", None, f"Passes over the training set {_OWN}."),
    "batch_size": ("integer", None, f"Graphs a training step {_OWN}."),
    "learning_rate": ("float", None, f"Of AdamW {_OWN}."),
    "label_noise": (
        "float", 0.0, "Share of the training labels switched to another class, 0 to 1.",
    ),
    "protocol": (
        "string", None,
        "holdout: one test set, folds on the rest (the paper's text; default). rotating: each fold "
        "is the test set once (the authors' code). scaffold: OGB's split, one seed a fold.",
    ),
    "folds": ("integer", None, "Folds (default: 10; of scaffold: 5)."),
    "seed": ("integer", 0, "Of splits, noise, augmentation and training."),
    "data_dir": (
        "string", None,
        "Folder of datasets, as folders or zips; missing ones are downloaded into it (default: "
        "FGW_JAX_DATA, then the download cache).",
    ),
    "out": (
        "string", "experiments/results/local",
        "Folder of results.jsonl (one line a fold; folds found there are not repeated) and "
        "pictures.",
    ),
    "compilation_cache": (
        "string", None,
        "Folder in which compiled programs are kept from one process to the next (default: none).",
    ),
    "num_shards": ("integer", 1, "Parts of the work, done by machines on their own."),
    "shard": ("integer", 0, "Which part to do, from 0."),
    "num_processes": (
        "integer", None, "Processes that share the work, each started by this command.",
    ),
    "process_id": ("integer", None, "Number of this process, from 0."),
    "coordinator_address": (
        "string", "localhost:29511", "host:port of process 0, reachable by all.",
    ),
    "distributed": (
        "bool", False,
        "Let JAX find the other processes by itself (TPU pods, Slurm, MPI), instead of the three "
        "flags above.",
    ),
}  # fmt: skip

PROTOCOL = tuple(_SHARED)[: tuple(_SHARED).index("data_dir")]
METHOD = ("alpha", "beta_k", "ratio", "step_size", "size", "start")
TRAINING = ("num_layers", "hidden", "epochs", "batch_size", "learning_rate")
PLACES = ("data_dir", "out", "compilation_cache")
PROCESSES = ("num_processes", "process_id", "coordinator_address", "distributed")


def define(names: Sequence[str], values: absl_flags.FlagValues, **defaults: Any) -> None:
    """Define shared flags; ``defaults`` replace those of the table."""
    for name in names:
        kind, default, text = _SHARED[name]
        getattr(absl_flags, f"DEFINE_{kind}")(
            name, defaults.get(name, default), text, flag_values=values, module_name=sys.argv[0]
        )


def launch(
    main: Callable[[absl_flags.FlagValues], None],
    names: Sequence[str],
    extra: Callable[[absl_flags.FlagValues], None] | None = None,
    **defaults: Any,
) -> None:
    """Define flags, parse the command line, call ``main``; ``extra`` defines the binary's own.

    Every binary takes ``--compilation_cache``, and tells at its end what it compiled.
    """
    define(list(dict.fromkeys([*names, "compilation_cache"])), absl_flags.FLAGS, **defaults)
    if extra is not None:
        extra(absl_flags.FLAGS)

    def start(argv: Sequence[str]) -> None:
        del argv
        logging.set_verbosity(logging.WARNING)  # JAX tells which accelerators it did not find
        counts = compilations.counts()
        use_compilation_cache(absl_flags.FLAGS.compilation_cache)
        if "num_processes" in absl_flags.FLAGS:
            connect(absl_flags.FLAGS)
        main(absl_flags.FLAGS)
        if distributed.is_first():
            print(counts)

    app.run(start, flags_parser=_parse)


def _parse(argv: Sequence[str]) -> list[str]:
    with usage_errors(absl_flags.FLAGS):
        try:
            rest = absl_flags.FLAGS(argv)
        except absl_flags.Error as error:
            raise InputError(str(error).removeprefix("flag ")) from error
        if len(rest) > 1:
            raise InputError(
                f"{' '.join(rest[1:])}: not a flag; write --name=value (--help lists them)"
            )
    return rest


@contextlib.contextmanager
def usage_errors(values: absl_flags.FlagValues) -> Iterator[None]:
    """Around what is checked before any work: our own errors end the program with code 2."""
    try:
        yield
    except (InputError, DataError) as error:
        message = str(error)
        # Messages of the library name an argument first; on a command line it is a flag.
        dashes = "--" if message.split(":")[0] in list(values) else ""
        print(f"wrong use: {dashes}{message}", file=sys.stderr)
        sys.exit(WRONG)


def connect(values: absl_flags.FlagValues) -> None:
    """Join the other processes, if the flags name any."""
    with usage_errors(values):
        if values.distributed:
            distributed.initialize()
        elif values.num_processes is not None or values.process_id is not None:
            distributed.initialize(
                values.coordinator_address, values.num_processes, values.process_id
            )


def protocol(values: absl_flags.FlagValues) -> dict[str, Any]:
    """The fields of :class:`fgw_jax.training.settings.Settings` that are flags, as given."""
    return {name: values[name].value for name in PROTOCOL if name in values}


def out_folder(values: absl_flags.FlagValues) -> Path:
    """``--out``, a folder that is there or can be made."""
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
    """Keep compiled programs in ``folder``; ``None`` leaves JAX as it is."""
    if folder is None:
        return
    import jax

    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
