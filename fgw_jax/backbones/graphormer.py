"""Graphormer: attention between all nodes, biased by shortest paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from fgw_jax.backbones import nodes
from fgw_jax.backbones.distances import Distances, distances, unfold
from fgw_jax.backbones.layers import Linear, real_dtype
from fgw_jax.backbones.model import Backbone
from fgw_jax.errors import check
from fgw_jax.graphs import Batch

#: of one group of graphs: bias and multiplier of the attention, each ``[B, heads, m, m]``
Encoding = tuple[jax.Array, jax.Array | None]


class Attention(nn.Module):
    """Multi-head attention between the nodes of each graph.

    softmax(Q K^T / sqrt(d) + bias), times the multiplier if there is one.
    """

    heads: int
    dropout: float

    @nn.compact
    def __call__(
        self,
        rows: jax.Array,
        shapes: Sequence[tuple[int, int]],
        keys: Sequence[jax.Array],
        encodings: Sequence[Encoding],
        train: bool,
    ) -> jax.Array:
        """New rows ``[M, h]``.

        ``shapes`` are ``(B, m)`` and ``keys`` ``[B, m]`` mark the real nodes of each group.
        """
        width = rows.shape[-1]
        projected, start, mixed = Linear(3 * width)(rows), 0, []
        for (b, m), real, (bias, multiplier) in zip(shapes, keys, encodings, strict=True):
            part = projected[start : start + b * m].reshape(b, m, 3, self.heads, -1)
            start += b * m
            query, key, value = (part[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
            scores = query @ key.transpose(0, 1, 3, 2) / jnp.sqrt(query.shape[-1]) + bias
            scores = jnp.where(real[:, None, None, :], scores, -1e9)
            attention = jax.nn.softmax(scores)
            if multiplier is not None:
                attention = attention * multiplier * real[:, None, None, :]
            if train and self.dropout > 0:
                attention = _drop(self.make_rng("dropout"), attention, self.dropout)
            mixed.append((attention @ value).transpose(0, 2, 1, 3).reshape(b * m, width))
        return Linear(width)(jnp.concatenate(mixed))


def _drop(key: jax.Array, values: jax.Array, rate: float) -> jax.Array:
    """Dropout by 16 random bits an entry: half the cost of the usual 32."""
    bits = jax.random.bits(key, values.shape, jnp.uint16)
    return jnp.where(bits >= round(rate * 2**16), values / (1 - rate), 0)


class Block(nn.Module):
    """Attention and a feed-forward map as wide as the layer, a layer norm after each."""

    hidden: int
    heads: int
    dropout: float

    def setup(self) -> None:
        """Parts of the block."""
        dtype: Any = real_dtype()
        self.attention = Attention(self.heads, self.dropout)
        self.norms = [nn.LayerNorm(param_dtype=dtype) for _ in range(2)]
        self.forward = [Linear(self.hidden) for _ in range(2)]

    def __call__(self, rows: jax.Array, *context: Any) -> jax.Array:
        """New rows ``[M, h]``; ``context`` as in :class:`Attention`."""
        rows = self.norms[0](rows + self.attention(rows, *context))
        first, second = self.forward
        return self.norms[1](rows + second(jax.nn.gelu(first(rows))))


class Graphormer(Backbone):
    """Attention with a learned bias for every number of hops, its own in each layer and head.

    The virtual node takes part in the attention without being joined to the graph: pairs with it
    have an entry of their own in the table, as have pairs that no path joins. Takes padded batches
    only; distances depend on which edges there are, not on their weights.

    Attributes:
        heads: attention heads.
        cap: longest distance with an entry of its own.
        attention_dropout: dropout rate of the attention.
    """

    heads: int = 4
    cap: int = 500
    attention_dropout: float = 0.1

    def setup(self) -> None:
        """Embedding, blocks and encoders."""
        check(
            self.hidden % self.heads == 0,
            f"hidden: {self.hidden} does not divide by {self.heads} heads; use a multiple of it",
        )
        super().setup()
        self.embedding = Linear(self.hidden)
        self.blocks = [
            Block(self.hidden, self.heads, self.attention_dropout) for _ in range(self.num_layers)
        ]
        self.make_encoders()

    def make_encoders(self) -> None:
        """One table ``[entries, layers * heads]``, so that it is read once a step."""
        shape = (self.cap + 3, self.num_layers * self.heads)
        self.table = self.param("table", nn.initializers.normal(1.0), shape, real_dtype())

    def prepare(self, batch: Batch) -> Distances:
        """Shortest paths."""
        return distances(batch, self.cap)

    def encodings(self, found: Distances, size: int) -> list[Encoding]:
        """Bias and multiplier of every layer for one group of graphs of ``size`` nodes."""
        values = unfold(lookup(self.table, found.hops), size)
        values = values.reshape(*values.shape[:3], self.num_layers, self.heads)
        return [(bias, None) for bias in values.transpose(3, 0, 4, 1, 2)]

    def encode(
        self, inputs: Batch | Sequence[Batch], extras: Any = None, train: bool = False
    ) -> jax.Array:
        """Representations ``[B, h]``; ``extras``: what :meth:`prepare` gave for each batch."""
        groups = nodes.as_groups(inputs)
        if extras is None:
            extras = [self.prepare(group) for group in groups]
        elif isinstance(inputs, Batch):
            extras = [extras]
        rows, keys, shapes, encodings = [], [], [], []
        for group, found in zip(groups, extras, strict=True):
            b, n = group.mask.shape
            features = jnp.asarray(group.features)
            real = jnp.asarray(group.mask).astype(bool)
            rows.append(jnp.pad(features * real[..., None], ((0, 0), (1, 0), (0, 0))))
            keys.append(jnp.pad(real, ((0, 0), (1, 0)), constant_values=True))
            shapes.append((b, n + 1))
            encodings.append(self.encodings(jax.tree.map(jnp.asarray, found), n + 1))
        x = self.embedding(nodes.flatten(rows))
        for layer, block in enumerate(self.blocks):
            x = block(x, shapes, keys, [group[layer] for group in encodings], train)
        first, start = [], 0
        for b, m in shapes:
            first.append(x[start : start + b * m].reshape(b, m, -1)[:, 0])
            start += b * m
        return jnp.concatenate(first)


@jax.custom_vjp
def lookup(table: jax.Array, entries: jax.Array) -> jax.Array:
    """``table[entries]``: rows ``[B, T, c]`` of a table ``[E, c]``."""
    return table[entries]


def _lookup_forward(
    table: jax.Array, entries: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return table[entries], (table, entries)


def _lookup_backward(
    saved: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, None]:
    table, entries = saved
    flat = gradient.reshape(-1, gradient.shape[-1])
    zeros = jnp.zeros_like(table)
    return zeros.at[entries.reshape(-1)].add(flat, mode="promise_in_bounds"), None


lookup.defvjp(_lookup_forward, _lookup_backward)
