"""Ragged lists through compiled functions: group by shape, stack, run, crop.

The one engine of distances, lower bounds and midpoints (:func:`run`). Items are grouped into few
padded shapes, each group is cut into chunks of bounded memory, and lane counts come from a fixed
grid, so that lists drawn from one dataset reuse compiled functions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.errors import check
from fgw_jax.graphs import Batch, Graph
from fgw_jax.runtime import parallel
from fgw_jax.runtime.shapes import grid_shapes, pair_shapes

#: Default bound of one chunk, in float entries over all lanes. On CPU a chunk that stays in the
#: second-level cache runs up to 1.7 times faster; accelerators want large batches.
CHUNK_ENTRIES = {"cpu": 250_000}
LARGE_CHUNK_ENTRIES = 30_000_000


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Lanes of one padded shape.

    Attributes:
        shape: padded ``(rows, columns)``.
        items: ``[k]`` positions in the input of the real lanes.
        lanes: ``[L]`` positions with filler lanes (repeats of the first) at the end.
    """

    shape: tuple[int, int]
    items: np.ndarray
    lanes: np.ndarray


@dataclasses.dataclass(frozen=True)
class Group:
    """All items of one padded shape, and how many of them run at once.

    Attributes:
        shape: padded ``(rows, columns)``.
        items: ``[k]`` positions in the input.
        lanes: number of lanes of a chunk.
    """

    shape: tuple[int, int]
    items: np.ndarray
    lanes: int

    def split(self, rounds: int) -> list[Group]:
        """Groups of the same shape and lanes with at most ``rounds`` times ``lanes`` items."""
        size = rounds * self.lanes
        parts = range(0, len(self.items), size)
        return [dataclasses.replace(self, items=self.items[i : i + size]) for i in parts]

    def chunks(self) -> list[Chunk]:
        """The items cut into chunks of ``lanes``."""
        out = []
        for start in range(0, len(self.items), self.lanes):
            part = self.items[start : start + self.lanes]
            filler = np.full(self.lanes - len(part), part[0])
            out.append(Chunk(self.shape, part, np.concatenate([part, filler])))
        return out


def pair_groups(
    rows: Sequence[int] | np.ndarray,
    columns: Sequence[int] | np.ndarray,
    *,
    max_shapes: int | None = None,
    chunk_size: int | None = None,
    min_gain: float = 0.0,
) -> list[Group]:
    """Groups of pairs by padded shape, large shapes first.

    By default shapes come from a fixed grid (:func:`~fgw_jax.runtime.shapes.grid_shapes`), so that
    the next list compiles nothing. With ``max_shapes`` they are fitted to this list, as many as
    save ``min_gain`` of padded work each (:func:`~fgw_jax.runtime.shapes.pair_shapes`).

    Args:
        rows: ``[N]`` nodes of the first graphs.
        columns: ``[N]`` nodes of the second graphs.
        max_shapes: maximum number of fitted shapes; by default the fixed grid.
        chunk_size: maximum number of lanes; by default it follows from :data:`CHUNK_ENTRIES` for
            each device.
        min_gain: padded work that a further fitted shape has to save.

    Raises:
        InputError: for ``chunk_size`` below 1, and as the functions of shapes.
    """
    check(
        chunk_size is None or chunk_size >= 1,
        f"chunk_size: must be at least 1, got {chunk_size}; leave it out for a bound on memory",
    )
    if max_shapes is None:
        shapes = grid_shapes(rows, columns)
    else:
        shapes = pair_shapes(rows, columns, max_shapes, min_gain)
    bound = CHUNK_ENTRIES.get(jax.default_backend(), LARGE_CHUNK_ENTRIES)
    num_devices = len(parallel.local())
    groups = []
    for number in np.argsort([-r * c * max(r, c) for r, c in shapes.shapes], kind="stable"):
        n, m = shapes.shapes[number]
        items = np.flatnonzero(shapes.index == number)
        most = chunk_size or max(1, bound // (n * n + m * m + 6 * n * m)) * num_devices
        most -= most % num_devices if most > num_devices else 0
        lanes = lane_count(len(items), most)
        if max_shapes is not None:  # fitted to this list: chunks of one size, hardly a filler lane
            lanes = -(-len(items) // -(-len(items) // most))
        groups.append(Group((n, m), items, parallel.round_to_devices(lanes)))
    return groups


def interleave(groups: Sequence[Group], rounds: int) -> list[Group]:
    """Split groups (:meth:`Group.split`) and interleave their parts: one of every shape first.

    Two tasks of one shape at the same time would compile it twice.
    """
    turns = itertools.zip_longest(*(group.split(rounds) for group in groups))
    return [part for part in itertools.chain(*turns) if part is not None]


#: A task of refilling lanes holds this many items per lane: enough to refill empty ones.
REFILL_ROUNDS = 6


def pair_chunks(
    rows: Sequence[int] | np.ndarray,
    columns: Sequence[int] | np.ndarray,
    *,
    max_shapes: int | None = None,
    chunk_size: int | None = None,
) -> list[Chunk]:
    """The chunks of :func:`pair_groups`, large shapes first."""
    groups = pair_groups(rows, columns, max_shapes=max_shapes, chunk_size=chunk_size)
    return [chunk for group in groups for chunk in group.chunks()]


def lane_count(count: int, most: int) -> int:
    """Lanes for ``count`` items: ``most``, or a half, a quarter, ... of it if that is enough.

    Few different numbers, because each is a compilation.
    """
    while most > 1 and count <= most // 2:
        most = most // 2
    return most


def stack(graphs: Sequence[Graph], positions: np.ndarray, size: int) -> Batch:
    """The graphs at ``positions``, padded to ``size``; each distinct graph is padded once."""
    distinct, inverse = np.unique(positions, return_inverse=True)
    batch = Batch.stack([graphs[i] for i in distinct], size)
    if len(distinct) == len(positions) and (inverse == np.arange(len(positions))).all():
        return batch
    fields = (getattr(batch, f.name) for f in dataclasses.fields(Batch))
    return Batch(*(field[inverse] for field in fields))


def pool(
    graphs1: Sequence[Graph], graphs2: Sequence[Graph]
) -> tuple[list[Graph], np.ndarray, np.ndarray]:
    """Distinct graph objects of both lists, and the position of each side of each pair there."""
    position: dict[int, int] = {}
    distinct: list[Graph] = []
    for graph in (*graphs1, *graphs2):
        if position.setdefault(id(graph), len(distinct)) == len(distinct):
            distinct.append(graph)
    places = [np.array([position[id(g)] for g in side]) for side in (graphs1, graphs2)]
    return distinct, places[0], places[1]


@dataclasses.dataclass(frozen=True)
class Job:
    """What :func:`run` does with the lanes of a chunk, all of one padded shape.

    Without ``advance`` a chunk is one call. With it, lanes refill: between calls of ``advance``
    items that are done leave and waiting ones take their lanes, so that a slow item does not delay
    the others. A lane's result does not depend on its neighbors.

    Attributes:
        enter: stacks the items ``[L]`` of all lanes, padded to a shape, and calls the compiled
            function. Returns the results of all lanes or, for lanes that refill, their problems
            and initial states.
        crop: from the positions ``[k]`` of finished items and their results (numpy, ``k`` lanes)
            to the list that :func:`run` yields; here padding is removed.
        advance: from problems, initial states, states, flags of refilled and of empty lanes and
            the share of lanes to wait for, to new states and flags of finished lanes
            (:func:`until_some_leave`).
        leave: from problems and states to results.
    """

    enter: Callable[[np.ndarray, tuple[int, int]], Any]
    crop: Callable[[np.ndarray, Any], list[Any]]
    advance: Callable[..., tuple[Any, Any]] | None = None
    leave: Callable[[Any, Any], Any] | None = None


def run(job: Job, groups: Sequence[Group]) -> Iterator[list[Any]]:
    """Run a job on all items of the groups, in parallel on the cores or devices at hand.

    Args:
        job: how lanes are stacked, computed and cropped.
        groups: the items by padded shape (:func:`pair_groups`).

    Yields:
        Lists made by ``job.crop``, in any order; together they cover every item once.
    """
    lanes = _at_once if job.advance is None else _refill
    parts = interleave(groups, 1 if job.advance is None else REFILL_ROUNDS)

    def task(part: Group) -> list[Any]:
        return [job.crop(items, results) for items, results in lanes(job, part)]

    tasks = [functools.partial(task, part) for part in parts]
    return itertools.chain.from_iterable(parallel.in_parallel(tasks))


def _at_once(job: Job, group: Group) -> Iterator[tuple[np.ndarray, Any]]:
    for chunk in group.chunks():
        results = jax.tree.map(np.asarray, job.enter(chunk.lanes, group.shape))
        yield chunk.items, take(results, slice(len(chunk.items)))


def _refill(job: Job, group: Group) -> Iterator[tuple[np.ndarray, Any]]:
    """Lanes of one shape that empty and fill again; yields positions and results (numpy)."""
    assert job.advance is not None and job.leave is not None  # noqa: S101 - given together
    waiting = list(group.items[::-1])
    occupant = np.full(group.lanes, group.items[0])
    empty = np.ones(group.lanes, bool)
    state = None
    while waiting or not empty.all():
        fresh = empty & (np.cumsum(empty) <= len(waiting))
        occupant[fresh] = [waiting.pop() for _ in range(fresh.sum())]
        empty = empty & ~fresh
        problem, start = job.enter(occupant, group.shape)
        # A quarter of the lanes leave at a time, so that entering and leaving cost little.
        leaving = np.float32(0.25 if waiting else 1.0)
        state, done = job.advance(
            problem, start, start if state is None else state, fresh, empty, leaving
        )
        done = np.flatnonzero(np.asarray(done) & ~empty)
        yield occupant[done], take(jax.tree.map(np.asarray, job.leave(problem, state)), done)
        empty[done] = True


def until_some_leave(
    step: Callable[[Any, Any], Any], finished: Callable[[Any], jax.Array]
) -> Callable[..., tuple[Any, Any]]:
    """The ``advance`` of a :class:`Job`: vmapped steps until enough occupied lanes are finished.

    Finished lanes keep their state. Enough is a share of the lanes occupied on this device: none
    if all are empty.

    Args:
        step: from problem and state of one lane to its next state.
        finished: whether the state of one lane is final.
    """

    def choose(flags, a, b):
        pick = lambda x, y: jnp.where(flags.reshape(flags.shape + (1,) * (x.ndim - 1)), x, y)  # noqa: E731
        return jax.tree.map(pick, a, b)

    def advance(problem, start, state, fresh, empty, leaving):
        state = choose(fresh, start, state)
        live = (~empty).sum()
        share = (leaving * live.astype(leaving.dtype)).astype(live.dtype)
        enough = jnp.minimum(jnp.maximum(1, share), live)

        def block(carry):
            state, ready = carry
            state = choose(ready, state, jax.vmap(step)(problem, state))
            return state, jax.vmap(finished)(state) | empty

        short = lambda carry: (carry[1] & ~empty).sum() < enough  # noqa: E731
        return jax.lax.while_loop(short, block, (state, jax.vmap(finished)(state) | empty))

    return advance


@contextlib.contextmanager
def progress_bar(total: int, shown: bool, what: str) -> Iterator[Callable[[int], Any]]:
    """A function that counts finished items, on a bar when ``shown``."""
    if not shown:
        yield lambda count: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, unit=f" {what}", desc=what) as bar:
        yield bar.update


def take(tree: Any, index: Any) -> Any:
    """``leaf[index]`` of every leaf."""
    return jax.tree.map(lambda leaf: leaf[index], tree)
