"""The blocks on the device, and which of them a step takes.

All sets of a run share one pool of blocks. Which blocks train or validate is a list of positions,
so that folds, and sets grown by an augmentation, run the same compiled program.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.backbones.model import Backbone
from fgw_jax.graphs import Batch, Graph
from fgw_jax.training.packing import Layout, round_up


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Blocks:
    """R blocks of one size with up to s graphs each.

    Attributes:
        batch: the padded graphs if every block holds one graph; otherwise ``None``.
        labels: ``[R, s, C]``.
        filled: ``[R, s]`` whether a slot holds a graph.
        extras: arrays the model derives from the blocks.
    """

    batch: Any
    labels: Any
    filled: Any
    extras: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Members:
    """The blocks of one set (training, validation or test).

    Attributes:
        positions: of each size, ``[R]`` indices into the pool.
        counts: of each size, the number of valid positions.
        phases: of each size, in [0, 1): which steps take one block more if the count does not
            divide evenly.
        num_graphs: total number of graphs.
    """

    positions: tuple[Any, ...]
    counts: tuple[Any, ...]
    phases: tuple[Any, ...]
    num_graphs: Any

    def num_steps(self, layout: Layout) -> jax.Array:
        """Number of steps of an epoch; every step has at least one graph.

        With several graphs per block there may be fewer blocks than small batches would need.
        """
        most = functools.reduce(jnp.maximum, self.counts)
        steps = jnp.minimum(-(-self.num_graphs // layout.batch_size), most)
        for count, share in zip(self.counts, layout.shares, strict=True):
            steps = jnp.maximum(steps, -(-count // share))
        return steps

    def shuffled(self, key: jax.Array) -> Members:
        """The same blocks in random order, with random phases."""
        out = []
        for i, (rows, count) in enumerate(zip(self.positions, self.counts, strict=True)):
            draws = jax.random.uniform(jax.random.fold_in(key, i), rows.shape)
            out.append(rows[jnp.argsort(jnp.where(jnp.arange(len(rows)) < count, draws, 2.0))])
        phases = jax.random.uniform(jax.random.fold_in(key, len(out)), (len(out),))
        return dataclasses.replace(self, positions=tuple(out), phases=tuple(phases))


def build(
    layout: Layout, sets: Sequence[tuple[Sequence[Any], np.ndarray]], model: Backbone
) -> tuple[tuple[Blocks, ...], list[Members]]:
    """Put sets on the device.

    A block that several sets have in common, with the same labels, is stored once.

    Args:
        layout: block sizes and slots.
        sets: pairs of graphs and soft labels ``[N, C]``; if graphs may share a block, the graphs
            are those of ``model.quotients``.
        model: derives extras from the blocks.

    Returns:
        The pool, one entry per block size, and the members of each set.
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
    rows = [max(r, round_up(m + 1)) for r, m in zip(layout.rows, most, strict=True)]
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
) -> Blocks:
    """The blocks of one size on the device, followed by empty ones."""
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
        # share one array on the device
        padded = dataclasses.replace(padded, structure=padded.adjacency)
    return Blocks(padded, jnp.asarray(labels), jnp.asarray(filled), extras)


def take(
    pool: tuple[Blocks, ...], members: Members, layout: Layout, step: Any, num_steps: Any
) -> tuple[tuple[Blocks, ...], list[jax.Array]]:
    """Gather the blocks of one step; empty blocks fill up the shares.

    Of each size, step s of S takes the blocks from floor((s N + u) / S) to
    floor(((s + 1) N + u) / S), where u in [0, S) is the phase: the remainder is spread evenly over
    the steps, and over epochs every step gets its share of it.

    Args:
        pool: all blocks, from :func:`build`.
        members: the set to take from.
        layout: block sizes and shares.
        step: number of the step, from 0; may be traced.
        num_steps: steps per epoch; may be traced.

    Returns:
        The blocks of each size, and the position in ``members`` of the first.
    """
    out, starts = [], []
    for rows, positions, count, phase, share in zip(
        pool, members.positions, members.counts, members.phases, layout.shares, strict=True
    ):
        each, remainder = count // num_steps, count % num_steps
        shift = jnp.minimum((phase * num_steps).astype(remainder.dtype), num_steps - 1)
        # In two parts: s N could overflow, s times the remainder does not.
        start, end = (s * each + (s * remainder + shift) // num_steps for s in (step, step + 1))
        places = start + jnp.arange(share)
        last = len(positions) - 1
        chosen = jnp.where(places < end, positions[jnp.minimum(places, last)], len(rows.filled) - 1)
        out.append(jax.tree.map(lambda x, i=chosen: x[i], rows))
        starts.append(start)
    return tuple(out), starts


def slot_labels(rows: Sequence[Blocks]) -> tuple[jax.Array, jax.Array]:
    """Labels ``[B, C]`` of all slots, size after size, and ``[B]`` whether a slot is used."""
    labels = [r.labels.reshape(-1, r.labels.shape[-1]) for r in rows]
    return jnp.concatenate(labels), jnp.concatenate([r.filled.reshape(-1) for r in rows])
