"""On-disk cache of programs, so that a new process neither traces nor compiles them again.

JAX's compilation cache stores the output of the compiler. To look it up, a process still has to
trace its functions in Python and lower them, which for the batched solvers takes longer than
reading all their programs. The traced programs are therefore stored as well, by ``jax.export``.

Solvers do not import this module: :func:`keep_programs` registers the lookup with
:mod:`fgw_jax.runtime.parallel`. In memory, the programs of a long job are dropped before there are
too many of them: :func:`drop_compiled_programs`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from fgw_jax.errors import DataError, check
from fgw_jax.fingerprints import code_fingerprint
from fgw_jax.runtime import files, parallel

#: types in the arguments and results of stored programs, imported when the first one is needed
_TYPES = (
    ("fgw_jax.graphs", "Graph"),
    ("fgw_jax.fgw", "Output"),
    ("fgw_jax.midpoint", "Midpoint"),
)

#: where Linux lists the memory maps of this process, and how many it may have
_MAPS, _MAPS_LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")

#: settings of JAX's compilation cache that :func:`keep_programs` changes
_SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")

_before: dict[str, Any] = {}
_folder: Path | None = None
_lock = threading.Lock()
_ready: dict[str, Callable[..., Any]] = {}


def keep_programs(folder: str | os.PathLike[str] | None) -> None:
    """Enable the on-disk program cache in ``folder``; ``None`` disables it.

    JAX's compilation cache is enabled in the same folder; ``None`` restores its previous settings.
    A fold of midpoints then starts within seconds in every process but the first. Programs are
    found only by the same source code of this package and the same version of JAX. Without the
    library flatbuffers only compiled programs are stored.

    Args:
        folder: where programs are stored. Its content is executed: do not share it with users you
            do not trust.

    Raises:
        InputError: if ``folder`` is a file.
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
    # JAX opens its cache once; without this it would keep using the previous folder.
    compilation_cache.reset_cache()
    with _lock:
        _ready.clear()  # programs that are only in memory would be missing in the new folder
    parallel.use_stored_programs(None if folder is None else stored)


@functools.cache
def _register_types() -> None:
    """Let :data:`_TYPES`, dataclasses without static fields, be results of stored programs."""
    import jax.export

    for module, name in _TYPES:
        cls = getattr(importlib.import_module(module), name)
        jax.export.register_pytree_node_serialization(
            cls,
            serialized_name=f"{cls.__module__}.{cls.__qualname__}",
            serialize_auxdata=lambda _: b"",
            deserialize_auxdata=lambda _: (),
        )


def stored(
    function: Callable[..., Any], args: tuple[Any, ...], static: dict[str, Any], options: Any
) -> Callable[..., Any] | None:
    """A compiled ``function`` of the leaves of ``args``, read from disk or traced and written.

    Args:
        function: a pure function.
        args: its positional arguments.
        static: its keyword arguments, part of the program.
        options: options of the compiler.

    Returns:
        The program; ``None`` where nothing is stored, because the cache is disabled or the call is
        itself traced.
    """
    if _folder is None or importlib.util.find_spec("flatbuffers") is None:
        return None
    leaves, tree = jax.tree.flatten(args)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    name = _name(function, leaves, tree, static)
    with _lock:
        if name not in _ready:
            _register_types()
            exported = _read(_folder / name)
            if exported is None:
                exported = _trace(function, leaves, tree, static)
                _write(_folder / name, exported)
            _ready[name] = jax.jit(exported.call, compiler_options=options)
        return _ready[name]


def drop_compiled_programs(max_maps: int | None = None) -> bool:
    """Drop all compiled programs when this process has more than ``max_maps`` memory maps.

    Compiled code uses separate memory maps, many per program, and Linux limits their number per
    process (65,530 by default); beyond it no code can be mapped. Programs that are needed again are
    compiled again, or read from disk.

    Args:
        max_maps: by default half of the limit.

    Returns:
        Whether programs were dropped; always ``False`` on systems that do not list memory maps.
    """
    try:
        maps = _MAPS.read_bytes().count(b"\n")
        max_maps = int(_MAPS_LIMIT.read_text()) // 2 if max_maps is None else max_maps
    except OSError:
        return False
    if maps <= max_maps:
        return False
    with _lock:
        _ready.clear()
    jax.clear_caches()
    return True


def _name(function: Callable[..., Any], leaves: Any, tree: Any, static: dict[str, Any]) -> str:
    """File name from a hash of everything a trace depends on."""
    config: Any = jax.config
    parts = (
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
    return f"fgw_jax-{hashlib.sha256(repr(parts).encode()).hexdigest()}"


def _trace(function: Callable[..., Any], leaves: Any, tree: Any, static: dict[str, Any]) -> Any:
    import jax.export

    def flat(*leaves: Any) -> Any:
        return function(*jax.tree.unflatten(tree, leaves), **static)

    return jax.export.export(jax.jit(flat))(*leaves)


def _read(path: Path) -> Any:
    """The program in a file; ``None`` if the file is missing or damaged."""
    import jax.export

    try:
        return jax.export.deserialize(bytearray(path.read_bytes()))
    except Exception:  # undocumented which one a damaged file raises; it is written again
        return None


def _write(path: Path, exported: Any) -> None:
    try:
        with files.whole_file(path) as file:
            file.write(exported.serialize())
    except DataError:  # on a full or read-only disk the program is traced again next time
        return
