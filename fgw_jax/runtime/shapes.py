"""Padded sizes: few shapes to compile, little padded work.

Every padded shape is one compilation, and padding a graph of ``n`` nodes to ``N`` multiplies its
work by ``(N / n)^3``. :func:`grid_shapes` takes the shapes of pairs from a fixed grid, so that the
next list reuses compiled functions; :func:`pair_shapes` fits them to one list, by splitting the
plane of (rows, columns) where that saves most.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgw_jax.errors import check


def round_up(size: int) -> int:
    """Smallest size of the grid 4, 8, ..., 32, 40, ..., 64, 80, ..., 128, ... that holds ``size``.

    A fixed grid lets lists drawn from one dataset reuse compiled shapes.

    >>> [round_up(n) for n in (1, 5, 33, 65, 129, 620)]
    [4, 8, 40, 80, 160, 640]
    """
    step = 4
    while step * 8 < size:
        step *= 2
    return -(-size // step) * step


#: Padded sizes of :func:`grid_shapes`; beyond the last one they double. Up to ``SQUARE`` both sides
#: are padded alike: what an oblong shape would save is less than its compilation takes.
GRID = (32, 64, 128, 192, 336, 640)
SQUARE = 336


def grid_size(size: int) -> int:
    """Smallest size of :data:`GRID` (doubled beyond its end) that holds ``size``."""
    for entry in GRID:
        if size <= entry:
            return entry
    top = GRID[-1]
    while top < size:
        top *= 2
    return top


def grid_shapes(
    rows: Sequence[int] | np.ndarray, columns: Sequence[int] | np.ndarray
) -> PairShapes:
    """Padded shapes from a fixed grid, whatever else is in the list.

    Every list drawn from one dataset reuses the functions compiled for the first one. The smaller
    side is padded to the size of the larger or, for large shapes, to a fifth of it where that is
    enough: graphs of up to 640 nodes need eight shapes.

    Args:
        rows: ``[N]`` numbers of nodes of the first graphs.
        columns: ``[N]`` numbers of nodes of the second graphs.

    Raises:
        InputError: for lists that are empty or differ in length, and for sizes below 1.

    >>> grid_shapes([20, 30, 600], [31, 60, 90]).shapes
    [(32, 32), (64, 64), (640, 128)]
    """
    _check_pairs(rows, columns)
    pairs = list(zip(map(int, rows), map(int, columns), strict=True))
    padded = [_grid_shape(*pair) for pair in dict.fromkeys(pairs)]
    known = dict(zip(dict.fromkeys(pairs), padded, strict=True))
    shapes = sorted(set(padded))
    index = np.array([shapes.index(known[pair]) for pair in pairs], np.int64)
    work = np.array([_work(float(r), float(c)) for r, c in shapes])[index].sum()
    exact = _work(np.asarray(rows, float), np.asarray(columns, float)).sum()
    return PairShapes(shapes, index, float(work / exact))


def _grid_shape(rows: int, columns: int) -> tuple[int, int]:
    large, small = grid_size(max(rows, columns)), grid_size(min(rows, columns))
    below = grid_size(-(-large // 5))
    small = below if small <= below and large > SQUARE else large
    return (large, small) if rows >= columns else (small, large)


@dataclasses.dataclass(frozen=True)
class PairShapes:
    """Padded shapes of a list of pairs.

    Attributes:
        shapes: distinct ``(rows, columns)`` shapes.
        index: ``[N]`` number of the shape of each pair.
        waste: padded over unpadded work, measured as n1^2 n2 + n1 n2^2.
    """

    shapes: list[tuple[int, int]]
    index: np.ndarray
    waste: float


def pair_shapes(
    rows: Sequence[int] | np.ndarray,
    columns: Sequence[int] | np.ndarray,
    max_shapes: int = 8,
    min_gain: float = 0.0,
) -> PairShapes:
    """Group pairs of sizes ``(rows, columns)`` into at most ``max_shapes`` padded shapes.

    One box holds all pairs at first; the box and threshold (along either axis) that save most
    padded work n1^2 n2 + n1 n2^2 are split until the shapes are used up, or the next split would
    save no more than ``min_gain``, what a compilation is worth. Sizes are rounded up to
    the grid of :func:`round_up`. With the larger graph of every pair first, half the plane stays
    empty, and the same number of shapes wastes a third less.

    Args:
        rows: ``[N]`` numbers of nodes of the first graphs.
        columns: ``[N]`` numbers of nodes of the second graphs.
        max_shapes: maximum number of shapes.
        min_gain: padded work that a further shape has to save.

    Raises:
        InputError: as :func:`grid_shapes`, and for ``max_shapes`` below 1.
    """
    _check_pairs(rows, columns)
    check(max_shapes >= 1, f"max_shapes: must be at least 1, got {max_shapes}")
    r = np.array([round_up(int(n)) for n in rows], float)
    c = np.array([round_up(int(n)) for n in columns], float)
    index = np.zeros(len(r), np.int64)
    best = {0: _best_split(r, c)}
    while len(best) < max_shapes:
        box = max(best, key=lambda b: best[b][0])
        gain, axis, threshold = best[box]
        if gain <= min_gain:
            break
        new = len(best)
        index[(index == box) & ((r if axis == 0 else c) > threshold)] = new
        for b in (box, new):
            best[b] = _best_split(r[index == b], c[index == b])
    shapes = [(int(r[index == b].max()), int(c[index == b].max())) for b in range(len(best))]
    padded = np.array([_work(*s) for s in shapes])[index].sum()
    exact = _work(np.asarray(rows, float), np.asarray(columns, float)).sum()
    return PairShapes(shapes, index, float(padded / exact))


def _check_pairs(rows: Sequence[int] | np.ndarray, columns: Sequence[int] | np.ndarray) -> None:
    check(len(rows) == len(columns), "rows, columns: need one entry per pair; lengths differ")
    check(len(rows) > 0, "rows, columns: the lists are empty; pass at least one pair")
    check(
        min(min(rows), min(columns)) >= 1,
        "rows, columns: a graph has at least one node; drop empty graphs",
    )


def _work(rows: Any, columns: Any) -> Any:
    return rows**2 * columns + rows * columns**2


def _best_split(r: np.ndarray, c: np.ndarray) -> tuple[float, int, float]:
    """Largest saving of padded work by one cut of a box, its axis and its threshold."""
    whole = len(r) * _work(r.max(), c.max())
    best = (0.0, 0, 0.0)
    for axis, (a, b) in enumerate(((r, c), (c, r))):
        order = np.argsort(a, kind="stable")
        a, b = a[order], b[order]
        count = np.arange(1, len(a))
        low = count * _work(a[:-1], np.maximum.accumulate(b)[:-1])
        high = (len(a) - count) * _work(a[-1], np.maximum.accumulate(b[::-1])[::-1][1:])
        gain = np.where(a[1:] > a[:-1], whole - low - high, 0.0)
        if len(gain) and gain.max() > best[0]:
            i = int(gain.argmax())
            best = (float(gain[i]), axis, float(a[i]))
    return best
