"""Where batched functions run: lanes on the devices of this process, tasks on its cores.

Lanes are independent, so a batch is cut along its first axis and every device runs the same
compiled loop on its own part: no device waits for another inside a solver, and there is no
collective. One device runs the plain compiled function.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import inspect
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

#: Name of the axis of devices.
AXIS = "lanes"

#: Finds programs stored on disk; set by :func:`use_stored_programs`.
_stored: Callable[..., Callable[..., Any] | None] | None = None


def use_stored_programs(find: Callable[..., Callable[..., Any] | None] | None) -> None:
    """Let functions compiled with ``keep`` look for stored programs first; ``None``: no longer.

    Args:
        find: see :func:`fgw_jax.runtime.program_cache.stored`, registered by ``keep_programs``, so
            that solvers need no disk.
    """
    global _stored
    _stored = find


def local() -> list[jax.Device]:
    """The devices lanes are spread over: all of this process, or ``jax.default_device`` alone."""
    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    if isinstance(chosen, jax.Device):
        return [chosen]
    return jax.local_devices() if chosen is None else jax.local_devices(backend=chosen)[:1]


def round_to_devices(lanes: int) -> int:
    """``lanes`` rounded up to a multiple of the number of devices, if there are more lanes."""
    count = len(local())
    return lanes if lanes < count else -(-lanes // count) * count


def compiled(
    function: Callable[..., Any],
    *,
    shared: Sequence[str] | None = None,
    static_argnames: str | Sequence[str] = (),
    keep: bool = False,
) -> Callable[..., Any]:
    """``jax.jit`` for functions of many lanes, whose code is long: on CPU with lighter passes.

    A third less to compile, at the same speed of what comes out (measured on solvers of 32 nodes).

    Args:
        function: positional arguments are arrays, or trees of arrays, with lanes as first axis, as
            are all its results.
        shared: names of the arguments that all lanes share; ``None``: the function has no lanes
            and stays on one device.
        static_argnames: as in ``jax.jit``; keyword arguments.
        keep: whether :func:`~fgw_jax.runtime.program_cache.keep_programs` applies; results
            must be serializable.
    """
    names = list(inspect.signature(function).parameters)
    lane_names = [name for name in names if name not in (shared or ())]

    @functools.cache
    def on_one(backend: str, alone: bool) -> Callable[..., Any]:
        return jax.jit(function, compiler_options=_light(alone), static_argnames=static_argnames)

    @functools.cache
    def on_many(mesh: Mesh, static: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
        specs = tuple(
            PartitionSpec(AXIS) if name in lane_names else PartitionSpec()
            for name in names
            if name not in dict(static)
        )
        spread = jax.shard_map(
            functools.partial(function, **dict(static)),
            mesh=mesh,
            in_specs=specs,
            out_specs=PartitionSpec(AXIS),
            # Loops differ in length from device to device, which the check of replication forbids.
            check_vma=False,
        )
        shardings = tuple(NamedSharding(mesh, spec) for spec in specs)
        return jax.jit(spread, compiler_options=_light(), in_shardings=shardings)

    @functools.wraps(function)
    def call(*args: Any, **static: Any) -> Any:
        mesh, alone = None, False
        if shared is not None:
            lanes = jax.tree.leaves(args[names.index(lane_names[0])])[0].shape[0]
            mesh, alone = _mesh(lanes), lanes == 1
        if mesh is None:
            find = _stored if keep else None
            program = None if find is None else find(function, args, static, _light(alone))
            if program is not None:
                return program(*jax.tree.leaves(args))
            return on_one(jax.default_backend(), alone)(*args, **static)
        return on_many(mesh, tuple(sorted(static.items())))(*args)

    return call


def _light(alone: bool = False) -> dict[str, Any] | None:
    """Options by which XLA compiles for CPU in less time; ``None`` elsewhere.

    A lane that is ``alone`` is one of large graphs: its time goes into products, and kernels may
    come from XLA's older emitters, at half the time to compile.
    """
    if jax.default_backend() != "cpu":
        return None
    options: dict[str, Any] = {"xla_backend_optimization_level": 1}
    if alone and accepts("xla_cpu_use_fusion_emitters", False):
        options["xla_cpu_use_fusion_emitters"] = False
    return options


@functools.cache
def accepts(option: str, value: Any) -> bool:
    """Whether the compiler at hand knows an option: one that it does not is an error to give.

    >>> accepts("xla_no_such_option", False)
    False
    """
    try:
        jax.jit(lambda x: x, compiler_options={option: value}).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def _mesh(lanes: int) -> Mesh | None:
    """The devices that share ``lanes`` (:func:`round_to_devices`); ``None`` if that is one."""
    devices = local()
    count = min(lanes, len(devices))
    if count == 1 or lanes % count:
        return None
    return Mesh(np.array(devices[:count]), (AXIS,))


def workers() -> int:
    """Default number of tasks in parallel.

    On CPU, a compiled call on a small batch uses one core, so there are as many tasks as cores.
    With several CPU devices each one uses a core by itself; a second task prepares its batch
    meanwhile. On accelerators tasks run one after the other.
    """
    if jax.default_backend() != "cpu":
        return 1
    return _cores() if len(local()) == 1 else min(_cores(), 2)


def in_parallel(tasks: Sequence[Callable[[], Any]], at_once: int | None = None) -> Iterator[Any]:
    """Results of the tasks as they are done, in any order.

    Tasks may call this function themselves: all calls of the process together run as many tasks as
    there are cores (:class:`_Budget`). The JAX settings of the calling thread hold in the tasks.
    After a task fails no other is started; results of those already started are yielded before its
    error is raised.

    Args:
        tasks: functions without arguments.
        at_once: number of tasks in parallel, also if it exceeds the number of cores; by default
            :func:`workers`, and less while other tasks use the cores.
    """
    limited = at_once is None
    at_once = at_once or workers()
    if min(at_once, len(tasks)) <= 1:
        yield from (task() for task in tasks)
        return
    names = ("enable_x64", "default_matmul_precision", "default_device", "debug_nans")
    settings = [(getattr(jax, name), getattr(jax.config, f"jax_{name}")) for name in names]

    share = _Share()

    def run(task):
        with contextlib.ExitStack() as stack:
            stack.enter_context(_budget.core(share, limited))
            for setting, value in settings:
                stack.enter_context(setting(value))
            return task()

    # Few tasks are submitted ahead, and none kept when done: memory does not grow with the list.
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        waiting = iter(tasks)
        running = {pool.submit(run, task) for task in itertools.islice(waiting, 2 * at_once)}
        failure: BaseException | None = None
        try:
            while running:
                done, running = concurrent.futures.wait(
                    running, return_when=concurrent.futures.FIRST_COMPLETED
                )
                failed = [future.exception() for future in done if not future.cancelled()]
                failure = next(filter(None, [failure, *failed]), None)
                if failure is None:
                    more = itertools.islice(waiting, len(done))
                    running |= {pool.submit(run, task) for task in more}
                else:
                    running -= {future for future in running if future.cancel()}
                while done:
                    future = done.pop()
                    if future.exception() is None:
                        yield future.result()
        finally:
            for future in running:
                future.cancel()
        if failure is not None:
            raise failure


@dataclasses.dataclass
class _Share:
    """The core of a thread that waits for its tasks: one of them may use it."""

    unused: bool = True


class _Budget:
    """Cores of this process, shared by all calls of :func:`in_parallel`, nested ones included.

    A call may always use the core of its own thread, which waits, and others while they are free.
    So every call makes progress, and folds of which each solves many pairs do not start a thread
    per fold and core.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def core(self, share: _Share, limited: bool) -> Iterator[None]:
        """Hold a core; ``limited``: wait until there is one."""
        with self._changed:
            if limited:  # the first call came with a core, so one less can be taken
                self._changed.wait_for(lambda: share.unused or self._taken < _cores() - 1)
            own = share.unused
            share.unused = False
            self._taken += not own
        try:
            yield
        finally:
            with self._changed:
                share.unused = share.unused or own
                self._taken -= not own
                self._changed.notify_all()


_budget = _Budget()


def _cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
