"""How graphs lie on the device: a pool of blocks of rows, and which of them a step takes.

A block is a fixed number of rows that hold the nodes of one graph, or of several where the backbone
can tell them apart: small graphs share a block, and fill what a large one leaves of its own, so
that hardly a row is padding. Every step takes a share of each kind of block, in proportion to how
many there are: a batch looks like the dataset while its shapes stay the same from step to step. It
is drawn stratified by size, where a plain shuffle would let the sizes vary, and graphs of one block
stay together. Which blocks train or validate is a list of positions, so that folds, and sets grown
by an augmentation, meet one compiled program.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.backbones.model import Backbone
from fgw_jax.backbones.quotients import Quotient
from fgw_jax.errors import check
from fgw_jax.graphs import Batch, Graph

#: work of a block of m rows: m^2 + _ROW m (adjacency, weights)
_ROW = 200.0
#: work of one more kind of block in every step, in the same unit, as measured: small sets want few
_SHAPE = 10_000.0
#: how much longer than its batches an epoch may get before the shares follow a grown set
_LONGER = 1.3
#: rows kept free for graphs an augmentation may add
_SPARE = 1.3
#: blocks kept at the least: of rare kinds a draw has a few more or less than the last
_FEWEST = 8
#: ... where a block has at most this many pairs of nodes; of larger ones none is to spare.
_SMALL = 2**20
#: work of a slot for a graph, used or not: the head, and its dropout
_SLOT = 60.0
#: most graphs in a block that several share: the cheapest of these
SLOTS = (2, 3, 4, 6, 8)
#: rows of the smallest blocks that several graphs may share, and how fast further kinds grow
_BASES = (32, 40, 48, 56, 64, 72, 96, 128)
_GROWTHS = (2.0, 2.5, 3.0)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Kinds of blocks, the smallest first.

    The last block kept of every kind is left empty: where a step has no other it takes that one.

    Attributes:
        sizes: rows of a block, virtual nodes included.
        shares: blocks of each kind a step takes.
        rows: blocks of each kind kept on the device.
        batch_size: graphs of a step.
        slots: most graphs in a block.
    """

    sizes: tuple[int, ...]
    shares: tuple[int, ...]
    rows: tuple[int, ...]
    batch_size: int
    slots: int = 1

    def place(self, graphs: Sequence[Graph | Quotient]) -> list[tuple[int, list[int]]]:
        """Blocks that hold the graphs: the kind of each, and its graphs by number."""
        return _pack([graph.num_nodes + 1 for graph in graphs], self.sizes, self.slots)


def plan(
    sizes: Sequence[int],
    batch_size: int,
    *,
    extra: Sequence[int] = (),
    trained: Sequence[int] = (),
    max_shapes: int = 7,
    max_pairs: int = 2**22,
    slots: Sequence[int] = (1,),
) -> Layout:
    """Choose kinds of blocks and their shares for graphs of the given ``sizes``.

    Kinds minimise the work of a step. They depend on ``sizes`` alone (the whole dataset, whatever
    the fold); graphs of ``extra`` sizes, made by an augmentation, only need room, for which sizes
    are few: the largest graph differs from draw to draw. Shares follow ``sizes`` too, unless the
    graphs to be ``trained`` on are of other sizes, so that an epoch would take steps that are
    mostly empty. Of ``slots``, how many graphs a block may hold, the choice is
    by work too: few leave rows of a block empty, many are empty themselves.
    """
    check(len(sizes) > 0, "sizes: an empty list; pass at least one graph")
    check(batch_size >= 1, f"batch_size: {batch_size} must be at least 1")
    own, more = np.asarray(sizes, int) + 1, np.asarray(extra, int) + 1
    if (more > own.max()).any():
        own = np.append(own, _round(more.max()))
    batch = min(batch_size, len(own))
    most = max(slots)
    if most == 1:
        chosen = _choose(_padded(own), batch, max_shapes)
    else:
        chosen = _ladder(own, batch, max_shapes, most)
        most = min(slots, key=lambda most: _work(own, batch, chosen, most))
    count = lambda rows: _count(np.minimum(rows, chosen[-1]), chosen, most)  # noqa: E731
    counts = count(own)
    shares = _shares(counts, batch / len(own))
    steps = -(-len(trained) // batch)
    shares = _grown(shares, count(np.asarray(trained, int) + 1), steps, batch)
    # One block of each kind is in every step, however small the batch.
    while ((shares - 1) * chosen**2).sum() > max_pairs and batch > 1:
        batch = max(1, batch // 2)
        shares = _shares(counts, batch / len(own))
    needed = counts + count(more)
    fewest = np.where(chosen**2 <= _SMALL, _FEWEST, 1)
    room = np.maximum(np.maximum(fewest, _SPARE * counts), needed + 1)
    rows = [_round(value) for value in room]
    whole = lambda values: tuple(int(value) for value in values)  # noqa: E731
    return Layout(whole(chosen), whole(shares), tuple(rows), batch, most)


def even(count: int, batch_size: int) -> int:
    """Graphs of a step when ``count`` are taken in equal steps of at most ``batch_size``.

    Whole batches would leave a rest for the last step, which takes as long as the others.

    >>> even(901, 128)
    113
    """
    return -(-count // -(-count // batch_size))


def _pack(rows: Any, sizes: Any, slots: int) -> list[tuple[int, list[int]]]:
    """Graphs into blocks, the largest first, each where it leaves the least room (best fit)."""
    rows, sizes = np.asarray(rows, int), np.asarray(sizes)
    blocks: list[tuple[int, list[int]]] = []
    open_: list[list[int]] = [[] for _ in range(int(sizes[-1]) + 1)]  # blocks by the room they have
    for graph in np.argsort(-rows, kind="stable").tolist():
        wanted = int(rows[graph])
        room = next((r for r in range(wanted, len(open_)) if open_[r]), None)
        if room is None:
            kind = int(np.searchsorted(sizes, wanted))
            room, block = int(sizes[kind]), len(blocks)
            blocks.append((kind, []))
        else:
            block = open_[room].pop()
        blocks[block][1].append(graph)
        if len(blocks[block][1]) < slots:
            open_[room - wanted].append(block)
    return sorted(blocks, key=lambda block: (block[0], block[1][0]))


def _count(rows: np.ndarray, sizes: np.ndarray, slots: int) -> np.ndarray:
    """How many blocks of each kind hold graphs of so many rows."""
    kinds = [kind for kind, _ in _pack(rows, sizes, slots)]
    return np.bincount(np.asarray(kinds, int), minlength=len(sizes))


def _shares(counts: np.ndarray, batch: float) -> np.ndarray:
    """Blocks of a step that takes the fraction ``batch`` of all."""
    return np.maximum(np.ceil(batch * counts - 1e-9), 1).astype(int)


def _grown(shares: np.ndarray, counts: np.ndarray, steps: int, batch: int) -> np.ndarray:
    """Shares by which ``counts`` blocks do not take many more than so many steps.

    Where they are changed they are rounded up to few different numbers: the folds of a method then
    share a program.
    """
    if (-(-counts // shares)).max() <= max(_LONGER * steps, steps + 1):
        return shares
    needed = -(-counts // steps)
    rounded = np.array([count if count < 4 else _round(count) for count in needed])
    return np.where(needed > shares, np.minimum(rounded, batch), shares)


def _ladder(rows: np.ndarray, batch: int, max_shapes: int, slots: int) -> np.ndarray:
    """Sizes that grow by a factor, up to the largest graph: of several ladders the cheapest."""
    best, least = rows.max(keepdims=True), np.inf
    for base, growth in itertools.product(_BASES, _GROWTHS):
        steps = _padded((base * growth ** np.arange(max_shapes)).astype(int))
        sizes = np.append(steps[steps < rows.max()], max(_padded(rows.max()), base))[-max_shapes:]
        work = _work(rows, batch, sizes, slots)
        if work < least:
            best, least = sizes, work
    return best


def _work(rows: np.ndarray, batch: int, sizes: np.ndarray, slots: int) -> float:
    """Work of a step whose blocks of these sizes hold up to so many graphs each."""
    share = _shares(_count(rows, sizes, slots), batch / len(rows))
    return float((share * (sizes**2 + _ROW * sizes + _SLOT * slots) + _SHAPE).sum())


def _padded(rows: Any) -> Any:
    """Up to a multiple of four."""
    return -(-rows // 4) * 4


def _choose(padded: np.ndarray, batch: int, max_shapes: int) -> np.ndarray:
    """Sizes of least work where a graph has a block for itself, by dynamic programming."""
    distinct, counts = np.unique(padded, return_counts=True)
    total = np.concatenate([[0], np.cumsum(counts)])
    number = np.maximum(total[1:, None] - total[None, :], 0)
    share = np.ceil(batch * number / len(padded) - 1e-9)
    work = share * (distinct**2 + _ROW * distinct)[:, None] + _SHAPE
    places = np.arange(len(distinct))
    work[places[:, None] < np.arange(len(distinct) + 1)[None, :]] = np.inf
    cost = np.concatenate([[0.0], np.full(len(distinct), np.inf)])
    choices, costs = [], []
    for _ in range(min(max_shapes, len(distinct))):
        table = cost[None, :] + work
        choices.append(table.argmin(1))
        cost = np.concatenate([[np.inf], table.min(1)])
        costs.append(cost[-1])
    used, j, chosen = int(np.argmin(costs)), len(distinct), []
    for choice in reversed(choices[: used + 1]):
        chosen.append(distinct[j - 1])
        j = int(choice[j - 1])
    return np.array(chosen[::-1])


def _round(count: float) -> int:
    """Next of 4, 6, 8, 12, 16, 24, ...: few different lengths, so that sets share programs."""
    size = 4
    while size < count:
        if size * 3 // 2 >= count:
            return size * 3 // 2
        size *= 2
    return size


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
    """R blocks of one kind with up to s graphs each.

    Attributes:
        batch: the graphs, padded, where each has a block for itself; otherwise ``None``.
        labels: ``[R, s, C]``.
        filled: ``[R, s]`` which slots hold a graph.
        extras: what the model derives from the blocks.
    """

    batch: Any
    labels: Any
    filled: Any
    extras: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Members:
    """Blocks of a set.

    Attributes:
        positions: of each kind, ``[R]``.
        counts: how many of them there are.
        phases: in [0, 1), which steps take one block more where a kind does not divide evenly.
        num_graphs: graphs in all.
    """

    positions: tuple[Any, ...]
    counts: tuple[Any, ...]
    phases: tuple[Any, ...]
    num_graphs: Any

    def num_steps(self, layout: Layout) -> jax.Array:
        """Steps that take every graph once, none of them without any.

        Blocks of several graphs may be fewer than small batches would be.
        """
        most = functools.reduce(jnp.maximum, self.counts)
        steps = jnp.minimum(-(-self.num_graphs // layout.batch_size), most)
        for count, share in zip(self.counts, layout.shares, strict=True):
            steps = jnp.maximum(steps, -(-count // share))
        return steps

    def shuffled(self, key: jax.Array) -> Members:
        """The same blocks in random order, the larger steps at random places."""
        out = []
        for i, (rows, count) in enumerate(zip(self.positions, self.counts, strict=True)):
            draws = jax.random.uniform(jax.random.fold_in(key, i), rows.shape)
            out.append(rows[jnp.argsort(jnp.where(jnp.arange(len(rows)) < count, draws, 2.0))])
        phases = jax.random.uniform(jax.random.fold_in(key, len(out)), (len(out),))
        return dataclasses.replace(self, positions=tuple(out), phases=tuple(phases))


def build(
    layout: Layout, sets: Sequence[tuple[Sequence[Any], np.ndarray]], model: Backbone
) -> tuple[tuple[Rows, ...], list[Members]]:
    """The pool of all graphs of some sets of ``(graphs, soft labels)``, and the members of each.

    Where graphs may share a block they are those of ``model.quotients``. A block that several
    sets have in common, with the same labels, is kept once.
    """
    places: list[dict[Any, int]] = [{} for _ in layout.sizes]
    kept: list[list[list[tuple[Any, np.ndarray]]]] = [[] for _ in layout.sizes]
    members = []
    for graphs, labels in sets:
        found: list[list[int]] = [[] for _ in layout.sizes]
        for kind, block in layout.place(graphs):
            name = tuple((id(graphs[i]), labels[i].tobytes()) for i in block)
            if name not in places[kind]:
                places[kind][name] = len(kept[kind])
                kept[kind].append([(graphs[i], labels[i]) for i in block])
            found[kind].append(places[kind][name])
        members.append(found)
    # A set may hold a block several times.
    most = [max(len(blocks), *map(len, of)) for blocks, *of in zip(kept, *members, strict=True)]
    rows = [max(r, _round(m + 1)) for r, m in zip(layout.rows, most, strict=True)]
    width, classes = sets[0][0][0].features.shape[1], sets[0][1].shape[1]
    pool = tuple(
        _stack(blocks, size, r, layout.slots, width, classes, model)
        for blocks, size, r in zip(kept, layout.sizes, rows, strict=True)
    )
    return pool, [
        Members(
            tuple(
                jnp.asarray(np.pad(f, (0, r - len(f)), constant_values=r - 1).astype(np.int32))
                for f, r in zip(found, rows, strict=True)
            ),
            tuple(jnp.asarray(len(f), jnp.int32) for f in found),
            tuple(jnp.zeros(()) for _ in found),
            jnp.asarray(len(graphs), jnp.int32),
        )
        for found, (graphs, _) in zip(members, sets, strict=True)
    ]


def _stack(
    blocks: list[list[tuple[Any, np.ndarray]]],
    size: int,
    rows: int,
    slots: int,
    width: int,
    classes: int,
    model: Backbone,
) -> Rows:
    """Blocks and empty ones of one size, on the device."""
    empty = [Graph.from_adjacency(np.zeros((1, 1)), np.zeros((1, width)))]
    graphs = [[graph for graph, _ in block] for block in blocks]
    graphs = graphs or [empty if slots == 1 else model.quotients(empty)]
    batch = None
    if slots == 1:
        batch = Batch.stack([graph.unpad() for (graph,) in graphs], size - 1)
        extras = model.prepare(batch)
    else:
        extras = model.pack(graphs, size, slots)
    if not blocks:
        batch, extras = jax.tree.map(lambda x: x[:0], (batch, extras))
    labels = np.zeros((rows, slots, classes), np.asarray(graphs[0][0].features).dtype)
    filled = np.zeros((rows, slots), bool)
    for i, block in enumerate(blocks):
        labels[i, : len(block)] = [label for _, label in block]
        filled[i, : len(block)] = True
    missing = rows - len(blocks)
    fill = lambda x: jnp.asarray(np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1)))  # noqa: E731
    padded, extras = jax.tree.map(fill, (batch, extras))
    if batch is not None and np.array_equal(batch.structure, batch.adjacency):
        # one array on the device for both
        padded = dataclasses.replace(padded, structure=padded.adjacency)
    return Rows(padded, jnp.asarray(labels), jnp.asarray(filled), extras)


def take(
    pool: tuple[Rows, ...], members: Members, layout: Layout, step: Any, num_steps: Any
) -> tuple[tuple[Rows, ...], list[jax.Array]]:
    """Blocks of one step, and the place of the first in each set; empty blocks fill the shares.

    Step s of S takes the blocks from floor((s N + u) / S) to floor(((s + 1) N + u) / S) of each
    kind, where u in [0, S) is its phase: the rest that does not divide is spread evenly over the
    steps, and over epochs every step has its share of it.
    """
    out, starts = [], []
    for rows, positions, count, phase, share in zip(
        pool, members.positions, members.counts, members.phases, layout.shares, strict=True
    ):
        each, rest = count // num_steps, count % num_steps
        shift = jnp.minimum((phase * num_steps).astype(rest.dtype), num_steps - 1)
        # In two parts: s N could be too large a number, s and the rest are not.
        start, end = (s * each + (s * rest + shift) // num_steps for s in (step, step + 1))
        places = start + jnp.arange(share)
        last = len(positions) - 1
        chosen = jnp.where(places < end, positions[jnp.minimum(places, last)], len(rows.filled) - 1)
        out.append(jax.tree.map(lambda x, i=chosen: x[i], rows))
        starts.append(start)
    return tuple(out), starts


def in_slots(rows: Sequence[Rows]) -> tuple[jax.Array, jax.Array]:
    """Labels ``[B, C]`` of the slots of some blocks, kind after kind; ``[B]`` which are used."""
    labels = [r.labels.reshape(-1, r.labels.shape[-1]) for r in rows]
    return jnp.concatenate(labels), jnp.concatenate([r.filled.reshape(-1) for r in rows])
