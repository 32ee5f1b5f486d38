"""How graphs lie on the device: a pool of padded rows, and which of them a step takes.

Graphs are kept by padded size. Every step takes a share of each size, in proportion to how many
there are, so that a batch looks like the dataset while its shapes stay the same from step to step:
a batch is drawn stratified by size, where a plain shuffle would let the sizes vary. Which rows
train or validate is a list of positions, so that folds, and sets grown by an augmentation,
meet one compiled program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.errors import check
from fgw_jax.graphs import Batch, Graph

#: work of a padded graph of m nodes, virtual node included: m^2 + _ROW m (adjacency, weights)
_ROW = 200.0
#: work of one more padded size in every step, in the same unit, as measured: small sets want few
_SHAPE = 10_000.0
#: how much longer than its batches an epoch may get before the shares follow a grown set
_LONGER = 1.3
#: rows kept free for graphs an augmentation may add
_SPARE = 1.3


@dataclasses.dataclass(frozen=True)
class Layout:
    """Padded sizes of a dataset (real nodes), rows of each a step takes, and rows kept of each.

    The last row of every size is left empty: slots of a step that have no graph take it.
    """

    sizes: tuple[int, ...]
    shares: tuple[int, ...]
    rows: tuple[int, ...]
    batch_size: int

    def place(self, graphs: Sequence[Graph]) -> np.ndarray:
        """``[N]`` number of the padded size of each graph."""
        return np.searchsorted(self.sizes, [graph.num_nodes for graph in graphs])


def plan(
    sizes: Sequence[int],
    batch_size: int,
    *,
    extra: Sequence[int] = (),
    trained: Sequence[int] = (),
    max_shapes: int = 7,
    max_pairs: int = 2**22,
) -> Layout:
    """Choose padded sizes and shares for graphs of the given ``sizes``.

    Sizes minimise the padded work of a step, by dynamic programming. They depend on ``sizes``
    alone (the whole dataset, whatever the fold); graphs of ``extra`` sizes, made by an
    augmentation, only need room. Shares follow ``sizes`` too, unless the graphs to be ``trained``
    on are of other sizes, so that an epoch would take steps that are mostly empty.
    """
    check(len(sizes) > 0, "sizes: an empty list; pass at least one graph")
    check(batch_size >= 1, f"batch_size: {batch_size} must be at least 1")
    # With the virtual node a padded graph has a multiple of four rows.
    padded = -(-(np.asarray(sizes) + 1) // 4) * 4
    more = -(-(np.asarray(extra, int) + 1) // 4) * 4
    padded = np.concatenate([padded, more[more > padded.max()]])
    batch = min(batch_size, len(padded))
    chosen = _choose(padded, batch, max_shapes)
    counts = np.bincount(np.searchsorted(chosen, padded), minlength=len(chosen))
    shares = _shares(counts, batch)
    met = np.searchsorted(chosen, np.minimum(np.asarray(trained, int) + 1, chosen[-1]))
    shares = _grown(shares, np.bincount(met, minlength=len(chosen)), batch)
    while (shares * chosen**2).sum() > max_pairs and batch > 1:
        batch = max(1, batch // 2)
        shares = _shares(counts, batch)
    needed = counts + np.bincount(np.searchsorted(chosen, more), minlength=len(chosen))
    rows = [max(_round(_SPARE * c), _round(n + 1)) for c, n in zip(counts, needed, strict=True)]
    return Layout(
        tuple(int(m) - 1 for m in chosen), tuple(int(s) for s in shares), tuple(rows), batch
    )


def _shares(counts: np.ndarray, batch: int) -> np.ndarray:
    return np.maximum(np.ceil(batch * counts / counts.sum() - 1e-9), 1).astype(int)


def _grown(shares: np.ndarray, counts: np.ndarray, batch: int) -> np.ndarray:
    """Shares by which ``counts`` graphs do not take many more steps than batches.

    Where they are changed they are rounded up to few different numbers: the folds of a method then
    share a program.
    """
    steps = -(-counts.sum() // batch)
    if (-(-counts // shares)).max() <= max(_LONGER * steps, steps + 1):
        return shares
    needed = -(-counts // steps)
    rounded = np.array([count if count < 4 else _round(count) for count in needed])
    return np.where(needed > shares, np.minimum(rounded, batch), shares)


def _choose(padded: np.ndarray, batch: int, max_shapes: int) -> np.ndarray:
    """Sizes that minimise the work of a step; exact, by dynamic programming over distinct sizes."""
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
    """R graphs of one padded size: ``batch``, ``labels`` ``[R, C]``, the model's ``extras``."""

    batch: Batch
    labels: Any
    extras: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Members:
    """Rows that belong to a set: for each padded size ``positions`` ``[R]`` and their ``count``."""

    positions: tuple[Any, ...]
    counts: tuple[Any, ...]

    def num_steps(self, layout: Layout) -> jax.Array:
        """Steps that take every graph once."""
        total = sum(self.counts)
        needed = [-(-c // s) for c, s in zip(self.counts, layout.shares, strict=True)]
        steps = -(-total // layout.batch_size)
        for other in needed:
            steps = jnp.maximum(steps, other)
        return steps

    def shuffled(self, key: jax.Array) -> Members:
        """The same rows in random order."""
        out = []
        for i, (rows, count) in enumerate(zip(self.positions, self.counts, strict=True)):
            draws = jax.random.uniform(jax.random.fold_in(key, i), rows.shape)
            out.append(rows[jnp.argsort(jnp.where(jnp.arange(len(rows)) < count, draws, 2.0))])
        return Members(tuple(out), self.counts)


def build(
    layout: Layout, sets: Sequence[tuple[Sequence[Graph], np.ndarray]], prepare: Callable[..., Any]
) -> tuple[tuple[Rows, ...], list[Members]]:
    """The pool of all graphs of some sets of ``(graphs, soft labels)``, and the members of each.

    ``prepare`` is the model's: what it derives from a batch of graphs, once.
    A graph that is in several sets with the same label takes one row.
    """
    places: list[dict[Any, int]] = [{} for _ in layout.sizes]
    kept: list[list[tuple[Graph, np.ndarray]]] = [[] for _ in layout.sizes]
    members = []
    for graphs, labels in sets:
        found: list[list[int]] = [[] for _ in layout.sizes]
        for graph, label, k in zip(graphs, labels, layout.place(graphs), strict=True):
            name = (id(graph), label.tobytes())
            if name not in places[k]:
                places[k][name] = len(kept[k])
                kept[k].append((graph, label))
            found[k].append(places[k][name])
        members.append(found)
    rows = [max(r, _round(len(g) + 1)) for r, g in zip(layout.rows, kept, strict=True)]
    width, classes = sets[0][0][0].features.shape[1], sets[0][1].shape[1]
    pool = tuple(
        _stack(graphs, size, r, width, classes, prepare)
        for graphs, size, r in zip(kept, layout.sizes, rows, strict=True)
    )
    return pool, [
        Members(
            tuple(
                jnp.asarray(np.pad(f, (0, r - len(f)), constant_values=r - 1).astype(np.int32))
                for f, r in zip(found, rows, strict=True)
            ),
            tuple(jnp.asarray(len(f), jnp.int32) for f in found),
        )
        for found in members
    ]


def _stack(
    graphs: list[tuple[Graph, np.ndarray]],
    size: int,
    rows: int,
    width: int,
    classes: int,
    prepare: Callable[..., Any],
) -> Rows:
    """Graphs and empty rows, padded to one size, on the device."""
    empty = Graph.from_adjacency(np.zeros((1, 1)), np.zeros((1, width))).pad(size)
    batch = Batch.stack([graph.unpad() for graph, _ in graphs] or [empty], size)
    missing = rows - len(graphs)
    extras = prepare(batch)
    if not graphs:
        batch, extras = jax.tree.map(lambda x: x[:0], (batch, extras))
    labels = np.zeros((rows, classes), batch.features.dtype)
    if graphs:
        labels[: len(graphs)] = [label for _, label in graphs]
    fill = lambda x: jnp.asarray(np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1)))  # noqa: E731
    padded, extras = jax.tree.map(fill, (batch, extras))
    if np.array_equal(batch.structure, batch.adjacency):  # one array on the device for both
        padded = dataclasses.replace(padded, structure=padded.adjacency)
    return Rows(padded, jnp.asarray(labels), extras)


def take(
    pool: tuple[Rows, ...], members: Members, layout: Layout, step: Any, num_steps: Any
) -> tuple[tuple[Rows, ...], jax.Array, list[jax.Array]]:
    """Rows of one step, ``[B]`` which slots hold a graph, and the first slot's place in each set.

    Step s of S takes the graphs from floor(s N / S) to floor((s + 1) N / S) of each size.
    """
    out, real, starts = [], [], []
    for rows, positions, count, share in zip(
        pool, members.positions, members.counts, layout.shares, strict=True
    ):
        each, rest = count // num_steps, count % num_steps
        start = step * each + jnp.minimum(step, rest)
        end = start + each + (step < rest)
        slots = start + jnp.arange(share)
        here = slots < end
        last = len(positions) - 1
        chosen = jnp.where(here, positions[jnp.minimum(slots, last)], last)
        out.append(jax.tree.map(lambda x, i=chosen: x[i], rows))
        real.append(here)
        starts.append(start)
    return tuple(out), jnp.concatenate(real), starts
