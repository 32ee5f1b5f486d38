"""Programs kept on disk, so that a new process neither traces nor compiles them again.

JAX's compilation cache keeps what the compiler made. To look it up a process still traces its
functions in Python and lowers them, which for the solvers of lists takes longer than reading all
their programs. What tracing gave is therefore kept as well, as ``jax.export`` writes it.

In memory the programs of a long job are dropped before they are too many: :func:`make_room`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax

from fgw_jax.errors import DataError, check
from fgw_jax.fingerprints import code_fingerprint
from fgw_jax.graphs import Graph
from fgw_jax.runtime import files

Type = TypeVar("Type", bound=type)

#: where Linux tells what is mapped into this process, and how many maps it may have
_MAPS, _MAPS_LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")

#: settings of JAX's compilation cache that :func:`keep_programs` changes
_SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")

_before: dict[str, Any] = {}
_folder: Path | None = None
_lock = threading.Lock()
_ready: dict[str, Callable[..., Any]] = {}


def keep_programs(folder: str | os.PathLike[str] | None) -> None:
    """Keep programs in ``folder`` from now on, and look for them there; ``None``: no longer.

    Turns on JAX's compilation cache there too, and with ``None`` leaves it as it was before. A fold
    of midpoints then starts within seconds in every process but the first. Programs are found again
    only by the same versions of this package and of JAX. Without the library flatbuffers only
    compiled programs are kept. Keep the folder to yourself: what lies in it is run.
    """
    check(
        folder is None or not os.path.isfile(folder),
        f"folder: {folder} is a file; name a folder, or None",
    )
    from jax.experimental.compilation_cache import compilation_cache

    global _folder
    if _folder is None:
        _before.update({name: getattr(jax.config, name) for name in _SETTINGS})
    _folder = None if folder is None else Path(folder)
    values = _before.values() if folder is None else (os.fspath(folder), 0.2)
    for name, value in zip(_SETTINGS, values, strict=True):
        jax.config.update(name, value)
    # JAX opens its cache once; without this it would go on with the folder it has.
    compilation_cache.reset_cache()
    with _lock:
        _ready.clear()  # what is only in memory would be missing in the new folder


def serializable(cls: Type) -> Type:
    """Let a registered dataclass without static fields be the result of a kept program."""
    import jax.export

    jax.export.register_pytree_node_serialization(
        cls,
        serialized_name=f"{cls.__module__}.{cls.__qualname__}",
        serialize_auxdata=lambda _: b"",
        deserialize_auxdata=lambda _: (),
    )
    return cls


def kept(
    function: Callable[..., Any], args: tuple[Any, ...], static: dict[str, Any], options: Any
) -> Callable[..., Any] | None:
    """``function`` of these arguments as a program of their leaves, read or traced and written.

    ``None`` where nothing is kept: :func:`keep_programs` was not called, or the call is itself
    traced. ``options`` are those of the compiler.
    """
    if _folder is None or importlib.util.find_spec("flatbuffers") is None:
        return None
    leaves, tree = jax.tree.flatten(args)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    name = _name(function, leaves, tree, static)
    with _lock:
        if name not in _ready:
            exported = _read(_folder / name)
            if exported is None:
                exported = _trace(function, leaves, tree, static)
                _write(_folder / name, exported)
            _ready[name] = jax.jit(exported.call, compiler_options=options)
        return _ready[name]


def make_room(most: int | None = None) -> bool:
    """Drop all compiled programs when this process has more than ``most`` memory maps.

    Compiled code lies in maps of its own, many a program, and Linux grants a process no more than a
    limit (65,530 as a rule), past which no more code can be mapped. By default programs are dropped
    at half of it. Those that are needed again are compiled again, or read. Returns whether they
    were dropped; never, where there is no such count.
    """
    try:
        maps = _MAPS.read_bytes().count(b"\n")
        most = int(_MAPS_LIMIT.read_text()) // 2 if most is None else most
    except OSError:
        return False
    if maps <= most:
        return False
    with _lock:
        _ready.clear()
    jax.clear_caches()
    return True


def _name(function: Callable[..., Any], leaves: Any, tree: Any, static: dict[str, Any]) -> str:
    """Of everything a trace depends on."""
    config: Any = jax.config
    told = (
        function.__module__,
        function.__qualname__,
        tree,
        [str(jax.typeof(leaf)) + str(getattr(leaf, "weak_type", "")) for leaf in leaves],
        [type(leaf).__name__ for leaf in leaves if not hasattr(leaf, "shape")],
        sorted(static.items()),
        config.jax_enable_x64,
        config.jax_default_matmul_precision,
        config.jax_debug_nans,
        jax.default_backend(),
        jax.__version__,
        code_fingerprint(),
    )
    return f"fgw_jax-{hashlib.sha256(repr(told).encode()).hexdigest()}"


def _trace(function: Callable[..., Any], leaves: Any, tree: Any, static: dict[str, Any]) -> Any:
    import jax.export

    def flat(*leaves: Any) -> Any:
        return function(*jax.tree.unflatten(tree, leaves), **static)

    return jax.export.export(jax.jit(flat))(*leaves)


def _read(path: Path) -> Any:
    """The program in a file; ``None`` if there is none, or none that can be read."""
    import jax.export

    try:
        return jax.export.deserialize(bytearray(path.read_bytes()))
    except Exception:  # what a damaged file raises is not documented; it is written again
        return None


def _write(path: Path, exported: Any) -> None:
    try:
        with files.whole_file(path) as file:
            file.write(exported.serialize())
    except DataError:  # a full or read-only disk costs time, not the result
        return


# Registered here, not where it is defined: graphs need neither files nor jax.export.
serializable(Graph)
