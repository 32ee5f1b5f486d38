"""Packing graphs into fixed-size blocks: which block sizes, and how many of each per step.

A block is a fixed number of rows that hold the nodes of one graph, or of several graphs where the
backbone can separate them: small graphs share a block, or fill the space a larger one leaves, so
that few rows are padding. Every step takes a fixed number of blocks of each size, in proportion to
how many there are, so that batch shapes are the same from step to step. A batch is thus sampled
stratified by size, and graphs of one block stay together.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgw_jax.backbones.quotients import Quotient
from fgw_jax.errors import check
from fgw_jax.graphs import Graph

#: Work of a block of m rows: m^2 + _ROW_WORK m (adjacency, weights).
_ROW_WORK = 200.0
#: Work of one more block size in every step, in the same unit, as measured: small sets want few.
_SIZE_WORK = 10_000.0
#: Work of a slot for a graph, used or not: the head, and its dropout.
_SLOT_WORK = 60.0
#: How many times its batches an epoch may take before the shares follow a grown set.
_MAX_EPOCH_GROWTH = 1.3
#: Factor on the number of blocks, to leave room for graphs an augmentation may add.
_SPARE = 1.3
#: Minimum number of blocks per size: of rare sizes one draw has a few more or less than the next.
_MIN_BLOCKS = 8
#: ... for blocks of at most this many pairs of nodes; of larger ones none is to spare.
_SMALL = 2**20
#: Candidates for the number of graphs that may share a block: the cheapest is taken.
SLOTS = (2, 3, 4, 6, 8)
#: Candidates for the rows of the smallest shared blocks, and for the growth factor of the sizes.
_BASES = (32, 40, 48, 56, 64, 72, 96, 128)
_GROWTHS = (2.0, 2.5, 3.0)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Block sizes in increasing order, and how many blocks of each size a step takes.

    The last stored block of every size is empty: a step that has no other takes that one.

    Attributes:
        sizes: rows of a block, virtual nodes included.
        shares: blocks of each size per step.
        rows: blocks of each size stored on the device.
        batch_size: graphs per step.
        slots: maximum number of graphs in a block.
    """

    sizes: tuple[int, ...]
    shares: tuple[int, ...]
    rows: tuple[int, ...]
    batch_size: int
    slots: int = 1

    def place(self, graphs: Sequence[Graph | Quotient]) -> list[tuple[int, list[int]]]:
        """Assign graphs to blocks: the index of the size of each block, and its graphs' indices."""
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
    """Choose block sizes and shares that minimize the work of a step.

    Args:
        sizes: nodes of the original graphs. Block sizes depend on these alone, and so do shares,
            unless ``trained`` differs so much that an epoch would take mostly empty steps.
        batch_size: graphs per step.
        extra: nodes of graphs made by an augmentation, which only need room. The largest graph
            differs from draw to draw, so they are rounded up to few sizes.
        trained: nodes of the graphs to be trained on.
        max_shapes: maximum number of block sizes.
        max_pairs: bound on the padded pairs of nodes per step.
        slots: candidates for the number of graphs that may share a block. Few slots leave rows of
            a block empty, many are empty themselves; the choice minimizes the work as well.

    Returns:
        The layout.

    Raises:
        InputError: if ``sizes`` is empty or ``batch_size`` is below 1.
    """
    check(len(sizes) > 0, "sizes: an empty list; pass at least one graph")
    check(batch_size >= 1, f"batch_size: {batch_size} must be at least 1")
    own, more = np.asarray(sizes, int) + 1, np.asarray(extra, int) + 1
    if (more > own.max()).any():
        own = np.append(own, round_up(more.max()))
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
    # One block of each size is in every step, however small the batch.
    while ((shares - 1) * chosen**2).sum() > max_pairs and batch > 1:
        batch = max(1, batch // 2)
        shares = _shares(counts, batch / len(own))
    needed = counts + count(more)
    fewest = np.where(chosen**2 <= _SMALL, _MIN_BLOCKS, 1)
    room = np.maximum(np.maximum(fewest, _SPARE * counts), needed + 1)
    rows = [round_up(value) for value in room]
    whole = lambda values: tuple(int(value) for value in values)  # noqa: E731
    return Layout(whole(chosen), whole(shares), tuple(rows), batch, most)


def equal_batch_size(count: int, batch_size: int) -> int:
    """Graphs per step when ``count`` graphs are split into equal steps of at most ``batch_size``.

    Full batches would leave a remainder for the last step, which takes as long as the others.

    >>> equal_batch_size(901, 128)
    113
    """
    return -(-count // -(-count // batch_size))


def _pack(rows: Any, sizes: Any, slots: int) -> list[tuple[int, list[int]]]:
    """Best-fit bin packing: the largest graph first, each where it leaves the least room."""
    rows, sizes = np.asarray(rows, int), np.asarray(sizes)
    blocks: list[tuple[int, list[int]]] = []
    open_: list[list[int]] = [[] for _ in range(int(sizes[-1]) + 1)]  # blocks by their free rows
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
    """How many blocks of each size the graphs of these rows need."""
    kinds = [kind for kind, _ in _pack(rows, sizes, slots)]
    return np.bincount(np.asarray(kinds, int), minlength=len(sizes))


def _shares(counts: np.ndarray, batch: float) -> np.ndarray:
    """Blocks of each size in a step that takes the fraction ``batch`` of all."""
    return np.maximum(np.ceil(batch * counts - 1e-9), 1).astype(int)


def _grown(shares: np.ndarray, counts: np.ndarray, steps: int, batch: int) -> np.ndarray:
    """Shares with which ``counts`` blocks take about ``steps`` steps.

    Changed shares are rounded up to few different numbers, so that the folds of a method share a
    program.
    """
    if (-(-counts // shares)).max() <= max(_MAX_EPOCH_GROWTH * steps, steps + 1):
        return shares
    needed = -(-counts // steps)
    rounded = np.array([count if count < 4 else round_up(count) for count in needed])
    return np.where(needed > shares, np.minimum(rounded, batch), shares)


def _ladder(rows: np.ndarray, batch: int, max_shapes: int, slots: int) -> np.ndarray:
    """The cheapest geometric sequence of block sizes, up to the largest graph."""
    best, least = rows.max(keepdims=True), np.inf
    for base, growth in itertools.product(_BASES, _GROWTHS):
        steps = _padded((base * growth ** np.arange(max_shapes)).astype(int))
        sizes = np.append(steps[steps < rows.max()], max(_padded(rows.max()), base))[-max_shapes:]
        work = _work(rows, batch, sizes, slots)
        if work < least:
            best, least = sizes, work
    return best


def _work(rows: np.ndarray, batch: int, sizes: np.ndarray, slots: int) -> float:
    """Work of a step with blocks of these sizes, each with ``slots`` slots."""
    share = _shares(_count(rows, sizes, slots), batch / len(rows))
    return float((share * (sizes**2 + _ROW_WORK * sizes + _SLOT_WORK * slots) + _SIZE_WORK).sum())


def _padded(rows: Any) -> Any:
    """Round up to a multiple of four."""
    return -(-rows // 4) * 4


def _choose(padded: np.ndarray, batch: int, max_shapes: int) -> np.ndarray:
    """Optimal block sizes for one graph per block, by dynamic programming."""
    distinct, counts = np.unique(padded, return_counts=True)
    total = np.concatenate([[0], np.cumsum(counts)])
    number = np.maximum(total[1:, None] - total[None, :], 0)
    share = np.ceil(batch * number / len(padded) - 1e-9)
    work = share * (distinct**2 + _ROW_WORK * distinct)[:, None] + _SIZE_WORK
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


def round_up(count: float) -> int:
    """Round up to 4, 6, 8, 12, 16, 24, ...: few different lengths, so that sets share programs."""
    size = 4
    while size < count:
        if size * 3 // 2 >= count:
            return size * 3 // 2
        size *= 2
    return size
