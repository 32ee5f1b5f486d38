"""Time and memory of a job, told before it runs.

The model is the program's own plan: the padded shapes and lanes that the lists would run in, times
what a lane of that shape takes on a core of the machine it was fitted on, times how much slower
this machine multiplies matrices now. For planning; the fits were taken on a busy machine.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.errors import InputError, check
from fgw_jax.fgw import Solver, Strict
from fgw_jax.midpoint import sizes
from fgw_jax.runtime import batching, parallel

#: Rate of a float32 product of 512 x 512 on the two quiet cores of the fits, GFLOP/s.
REFERENCE = 100.0
#: Seconds on one core of a lane padded to 32 x 32, and the power of the size it grows with.
_LANE = {
    ("distances", "cg"): (6.1e-4, 2.5),
    ("distances", "mirror"): (3.3e-4, 2.1),
    ("distances", "relaxed"): (2.2e-4, 2.1),
    ("distances", "literal"): (2.4e-3, 2.1),
    ("distances", "reference"): (6e-2, 2.1),
    ("mixups", "cg"): (9e-4, 2.4),
    ("mixups", "mirror"): (9e-4, 2.4),
    ("mixups", "relaxed"): (1e-3, 2.3),
    ("mixups", "reference"): (9e-4, 2.4),
}
#: Seconds on one core to compile the functions of one padded shape.
_COMPILE = {"distances": 5.0, "mixups": 14.0}
#: Bytes of a lane while it runs, for each entry of its plan and structures.
_BYTES_AN_ENTRY = 16
#: Pairs looked at when the sizes of many are given by their distribution.
_SAMPLE = 2000


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a job will take.

    Attributes:
        seconds: of the work.
        compilation: seconds of compiling, once in a process (or once in a compilation cache).
        memory: bytes while it runs, beside inputs and results; does not grow with the job.
        results: bytes of what it returns.
    """

    seconds: float
    compilation: float
    memory: float = 0.0
    results: float = 0.0

    @property
    def total(self) -> float:
        """Seconds with compilation."""
        return self.seconds + self.compilation

    def __str__(self) -> str:
        text = f"about {duration(self.total)} ({duration(self.compilation)} of it compilation)"
        if self.memory:
            text += f", {self.memory / 1e6:.0f} MB beside {self.results / 1e6:.0f} MB of results"
        return text


def estimate(
    job: Any,
    sizes1: Sequence[int] | np.ndarray = (),
    sizes2: Sequence[int] | np.ndarray = (),
    *,
    solver: Solver | None = None,
    lams: Sequence[float] | np.ndarray | float = 0.5,
    num_processes: int = 1,
    data_dir: str | None = None,
) -> Estimate:
    """Time and memory of a job on the devices of this process.

    Args:
        job: ``"distances"`` or ``"mixups"``; or what estimates itself, as
            :class:`fgw_jax.protocol.settings.Settings` do: a training run with all its folds.
        sizes1: nodes of the first graphs of the pairs.
        sizes2: nodes of the second graphs.
        solver: as in :func:`fgw_jax.distance`.
        lams: mixing ratios, which decide the sizes of midpoints.
        num_processes: like this one, that share the work.
        data_dir: folder of datasets, for a training run.

    >>> few, many = (estimate("mixups", [20] * n, [30] * n) for n in (100, 10_000))
    >>> bool(many.seconds > 50 * few.seconds), bool(many.memory <= 4 * few.memory)
    (True, True)
    """
    check(num_processes >= 1, f"num_processes: must be at least 1, got {num_processes}")
    if not isinstance(job, str):
        check(
            hasattr(job, "estimate"),
            f"job: expected a name or Settings, got {type(job).__name__}; "
            f"use one of {', '.join(_COMPILE)}, or fgw_jax.protocol.Settings",
        )
        found = job.estimate(data_dir)
        return dataclasses.replace(found, seconds=found.seconds / num_processes)
    if job not in _COMPILE:
        raise InputError(
            f"job: unknown name {job!r}; use one of {', '.join(_COMPILE)}, or Settings"
        )
    first, second = np.asarray(sizes1), np.asarray(sizes2)
    check(
        first.shape == second.shape and first.ndim == 1,
        f"sizes1, sizes2: expected two lists of equal length, got shapes {first.shape} and "
        f"{second.shape}; give the nodes of both graphs of every pair",
    )
    check(first.size > 0, "sizes1, sizes2: empty lists; give the nodes of both graphs of a pair")
    if job == "distances":
        found = _pairs("distances", first, second, solver)
    else:
        larger, smaller = np.maximum(first, second), np.minimum(first, second)
        aligned = _pairs("distances", larger, smaller, (solver or Strict()).aligner())
        nodes = sizes.adaptive(first, second, np.asarray(lams))
        mixed = _pairs("mixups", nodes, larger, solver)
        found = Estimate(
            mixed.seconds + aligned.seconds,
            mixed.compilation + aligned.compilation,
            max(mixed.memory, aligned.memory),
            mixed.results + aligned.results,
        )
    return dataclasses.replace(
        found, seconds=found.seconds / num_processes, results=found.results / num_processes
    )


def random_pairs(
    nodes: Sequence[int] | np.ndarray, count: int, job: str = "mixups", solver: Solver | None = None
) -> Estimate:
    """The estimate of ``count`` pairs drawn from graphs of ``nodes`` nodes, without listing them.

    >>> random_pairs([10, 20, 30], 0).total
    0.0
    """
    if count == 0:
        return Estimate(0.0, 0.0)
    rng = np.random.default_rng(0)
    seen = min(count, _SAMPLE)
    first, second = np.asarray(nodes)[rng.integers(len(nodes), size=(2, seen))]
    found = estimate(job, first, second, solver=solver, lams=rng.random(seen))
    scale = count / seen
    return dataclasses.replace(found, seconds=scale * found.seconds, results=scale * found.results)


def duration(seconds: float) -> str:
    """Seconds in words one can plan with.

    >>> duration(8), duration(150), duration(9000)
    ('8 s', '2.5 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


@functools.cache
def slowness() -> float:
    """How much slower this machine is now than the one the model was fitted on."""
    product = jax.jit(lambda x: x @ x)
    x = jnp.ones((512, 512), jnp.float32)
    product(x).block_until_ready()
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        product(x).block_until_ready()
        best = min(best, time.perf_counter() - begin)
    return float(np.clip(REFERENCE / (2 * 512**3 / best / 1e9), 0.001, 20.0))


def _pairs(job: str, rows: np.ndarray, columns: np.ndarray, solver: Solver | None) -> Estimate:
    """The groups these sizes would run in, each lane by its padded work."""
    solver = solver or Strict()
    # A midpoint's own descent takes as long whatever solver aligned its sources.
    name = solver.cost_name if (job, solver.cost_name) in _LANE else "relaxed"
    unit, power = _LANE[job, name]
    if job == "distances":
        unit *= solver.starts
    seconds = memory = 0.0
    groups = batching.pair_groups(rows, columns)
    for group in groups:
        n, m = group.shape
        lanes = -(-len(group.items) // group.lanes) * group.lanes
        seconds += lanes * unit * ((n * n * m + n * m * m) / (2 * 32**3)) ** (power / 3)
        memory = max(memory, _BYTES_AN_ENTRY * group.lanes * (n * n + m * m + 6 * n * m))
    plans = 2 if job == "mixups" else 1
    results = 4.0 * plans * float((rows * columns).sum()) + 100.0 * len(rows)
    side_by_side = parallel.workers()
    # Devices of a CPU share its cores; accelerators work by themselves.
    at_once = side_by_side if _on_cpu() else len(parallel.local())
    return Estimate(
        seconds * slowness() / at_once,
        _COMPILE[job] * len(groups) * slowness() / min(side_by_side, len(groups)),
        memory * side_by_side,
        results,
    )


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"
