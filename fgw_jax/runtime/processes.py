"""Distributing work over several processes, on one machine or many.

JAX's distributed runtime connects the processes (:func:`initialize`). Each process works on its
:func:`share` of the items on its own devices, without communication, and :func:`gather` returns
the results of all processes in the original order, in every process. With a single process these
functions do nothing.

Run in each process::

    fgw_jax.distributed.initialize("10.0.0.1:1234", num_processes=2, process_id=0)
    mine = fgw_jax.distributed.share(pairs)
    values = fgw_jax.distributed.gather([(value,) for value in work_on(mine)])
"""

from __future__ import annotations

import collections
import io
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from fgw_jax.errors import InputError, check

Item = TypeVar("Item")

#: Seconds a process waits for the others before it gives up: a week.
PATIENCE = 7 * 24 * 3600
#: Numbers of the barriers, which need distinct names; the same in all processes.
_BARRIERS = itertools.count()
#: Maximum bytes per process in :func:`gather`, which gathers their number as a 32-bit integer.
MOST_BYTES = 2**31 - 1


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Connect this process with the others; call it before any computation.

    Without arguments JAX detects the others: on TPU pods, under Slurm and under MPI.

    Args:
        coordinator_address: ``host:port`` of the first process, reachable by all.
        num_processes: number of processes; 1 connects nothing.
        process_id: index of this process, from 0.

    Raises:
        InputError: if the numbers do not fit together, or the processes cannot be connected.
    """
    given: dict[str, Any] = {
        "coordinator_address": coordinator_address,
        "num_processes": num_processes,
        "process_id": process_id,
    }
    check_processes(**given)
    if num_processes == 1:
        return
    try:
        jax.distributed.initialize(**given)
        # Now, while all are connected: first looking at devices minutes apart is an error.
        jax.local_devices()
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"coordinator_address: the processes could not be connected ({error}); call initialize "
            "once, before any computation, and give all of coordinator_address, num_processes and "
            "process_id where JAX cannot find them"
        ) from error


def check_processes(
    coordinator_address: str | None, num_processes: int | None, process_id: int | None
) -> None:
    """Raise an :class:`InputError` for numbers of processes that do not fit together.

    >>> check_processes("10.0.0.1:1234", 2, 1)
    """
    check(
        coordinator_address is None or ":" in coordinator_address,
        f"coordinator_address: {coordinator_address!r} is no host:port; give that of process 0",
    )
    check(
        process_id is None or process_id >= 0,
        f"process_id: {process_id} is negative; count the processes from 0",
    )
    if num_processes is None and process_id is None and coordinator_address is None:
        return
    check(
        num_processes is not None and num_processes >= 1,
        f"num_processes: {num_processes} is no number of processes; say how many there are",
    )
    assert num_processes is not None  # noqa: S101 - checked above, for the type checker
    check(
        process_id is not None and process_id < num_processes,
        f"process_id: {process_id} is not from 0 to {num_processes - 1}; give each process its own",
    )
    check(
        num_processes == 1 or coordinator_address is not None,
        "coordinator_address: missing; give host:port of process 0",
    )


def is_first() -> bool:
    """Whether this is process 0, which prints and writes for all."""
    return jax.process_index() == 0


def share(items: Iterable[Item]) -> list[Item]:
    """The items of this process: every n-th of n processes.

    >>> share([3, 1, 2])
    [3, 1, 2]
    """
    return list(items)[jax.process_index() :: jax.process_count()]


def gather(items: Sequence[Sequence[Any]]) -> list[list[np.ndarray]]:
    """All-gather the results of every :func:`share`, in the original order.

    All processes must call it.

    Args:
        items: the results of this process, each a sequence of arrays of any shapes.

    Returns:
        The results of all processes, in every process.

    Raises:
        InputError: for more than 2 GiB per process.

    >>> [array.tolist() for array in gather([(1.5, [[1, 2]])])[0]]
    [1.5, [[1, 2]]]
    """
    if jax.process_count() == 1:
        return [[np.asarray(array) for array in item] for item in items]
    parts = [_unpack(data) for data in _all_bytes(_pack(items))]
    whole: list[list[np.ndarray]] = [[] for _ in range(sum(map(len, parts)))]
    for process, part in enumerate(parts):
        whole[process :: len(parts)] = part
    return whole


def wait(what: str) -> None:
    """Barrier: return when all processes have called it; ``what`` names it in errors."""
    if jax.process_count() > 1:
        # Not a collective: a fold may take hours longer in one process than in another, and the
        # timeout of this barrier is ours. It also ends when a process dies (after some 90 s).
        from jax._src import distributed as runtime

        name = f"fgw_jax: {what}, barrier {next(_BARRIERS)}"
        runtime.global_state.client.wait_at_barrier(name, 1000 * PATIENCE)  # type: ignore[union-attr]


def _pack(items: Sequence[Sequence[Any]]) -> bytes:
    """Items as npz without pickle: all numbers of a dtype in one array, and how to cut it.

    A separate entry per array would take longer than the collective itself.
    """
    arrays = [np.asarray(array) for item in items for array in item]
    types = list(dict.fromkeys(array.dtype for array in arrays))
    numbers = {
        f"numbers.{place}": np.concatenate([a.ravel() for a in arrays if a.dtype == kind])
        for place, kind in enumerate(types)
    }
    file = io.BytesIO()
    np.savez(
        file,
        lengths=np.array([len(item) for item in items], np.int64),
        types=np.array([types.index(array.dtype) for array in arrays], np.int64),
        dimensions=np.array([array.ndim for array in arrays], np.int64),
        shapes=np.array([n for array in arrays for n in array.shape], np.int64),
        **numbers,  # type: ignore[arg-type]
    )
    return file.getvalue()


def _unpack(data: bytes) -> list[list[np.ndarray]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        parts = {name: file[name] for name in file.files}
    shapes = iter(parts["shapes"].tolist())
    starts: collections.Counter[int] = collections.Counter()
    arrays = []
    for kind, dimensions in zip(parts["types"].tolist(), parts["dimensions"], strict=True):
        shape = tuple(itertools.islice(shapes, int(dimensions)))
        start, starts[kind] = starts[kind], starts[kind] + math.prod(shape)
        arrays.append(parts[f"numbers.{kind}"][start : starts[kind]].reshape(shape))
    taken = iter(arrays)
    return [list(itertools.islice(taken, int(length))) for length in parts["lengths"]]


def _all_bytes(data: bytes) -> list[bytes]:
    """All-gather bytes, padded to the longest: collectives need equal shapes."""
    from jax.experimental import multihost_utils

    check(
        len(data) <= MOST_BYTES,
        f"items: {len(data)} bytes are too many to gather at once; gather fewer at a time, or "
        "write parts to files (fgw_jax.augment.parts)",
    )
    wait("gather")
    lengths = np.ravel(multihost_utils.process_allgather(np.int32(len(data))))
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = np.asarray(multihost_utils.process_allgather(padded))
    return [row[:n].tobytes() for row, n in zip(rows, lengths, strict=True)]
