"""Graphormer: attention between all nodes, biased by shortest paths."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.backbones import nodes
from fgw_jax.backbones.distances import Distances, distances, unfold
from fgw_jax.backbones.layers import Linear
from fgw_jax.backbones.model import Backbone
from fgw_jax.errors import check
from fgw_jax.graphs import Batch
from fgw_jax.inputs import float_dtype


class Attention(nn.Module):
    """Multi-head attention between the nodes of each graph.

    softmax(Q K^T / sqrt(d) + bias), times the multiplier if there is one.
    """

    heads: int
    dropout: float
    train: bool

    @nn.compact
    def __call__(
        self,
        rows: jax.Array,
        keys: Sequence[jax.Array],
        encodings: Sequence[tuple[jax.Array, jax.Array | None]],
    ) -> jax.Array:
        """New rows ``[M, h]``.

        For each group of graphs: ``keys`` ``[B, m]`` mark the real nodes, ``encodings`` are bias
        and multiplier, ``[B, heads, m, m]``.
        """
        width = rows.shape[-1]
        # Split, not sliced: the transpose is then one concatenation, not a sum of padded parts.
        projected = jnp.split(Linear(3 * width)(rows), np.cumsum([k.size for k in keys])[:-1])
        mixed = []
        for part, real, (bias, multiplier) in zip(projected, keys, encodings, strict=True):
            b, m = real.shape
            query, key, value = (
                x.reshape(b, m, self.heads, -1).transpose(0, 2, 1, 3)
                for x in jnp.split(part, 3, axis=1)
            )
            scores = query @ key.transpose(0, 1, 3, 2) / jnp.sqrt(query.shape[-1]) + bias
            scores = jnp.where(real[:, None, None, :], scores, -1e9)
            attention = jax.nn.softmax(scores)
            if multiplier is not None:
                attention = attention * multiplier * real[:, None, None, :]
            if self.train and self.dropout > 0:
                attention = _drop(self.make_rng("dropout"), attention, self.dropout)
            mixed.append((attention @ value).transpose(0, 2, 1, 3).reshape(b * m, width))
        return Linear(width)(jnp.concatenate(mixed))


def _drop(key: jax.Array, values: jax.Array, rate: float) -> jax.Array:
    """Dropout with 16 random bits per entry: half the cost of the usual 32."""
    bits = jax.random.bits(key, values.shape, jnp.uint16)
    return jnp.where(bits >= round(rate * 2**16), values / (1 - rate), 0)


class TableEncoder(nn.Module):
    """A learned bias per number of hops and head; no multiplier."""

    heads: int
    entries: int

    @nn.compact
    def __call__(self, found: Distances) -> jax.Array:
        """Bias ``[B, T, heads]`` of all pairs."""
        shape = (self.entries, self.heads)
        table = self.param("table", nn.initializers.normal(1.0), shape, float_dtype())
        return lookup(table, found.hops)


class Block(nn.Module):
    """Attention and a feed-forward map as wide as the layer, a layer norm after each.

    ``encoder`` computes for every pair the bias of each head, and optionally its multiplier.
    """

    hidden: int
    heads: int
    dropout: float
    encoder: Callable[..., nn.Module]
    train: bool

    @nn.compact
    def __call__(
        self, rows: jax.Array, keys: Sequence[jax.Array], distances: Sequence[Distances]
    ) -> tuple[jax.Array, None]:
        """New rows ``[M, h]``, as a step of a scan over layers."""
        dtype: Any = float_dtype()
        encoder = self.encoder(name="encoder")
        encodings = []
        for real, found in zip(keys, distances, strict=True):
            values = unfold(encoder(found), real.shape[1]).transpose(0, 3, 1, 2)
            multiplier = values[:, self.heads :] if values.shape[1] > self.heads else None
            encodings.append((values[:, : self.heads], multiplier))
        attention = Attention(self.heads, self.dropout, self.train, name="attention")
        rows = rows + attention(rows, keys, encodings)
        rows = nn.LayerNorm(param_dtype=dtype, name="norm_1")(rows)
        inner = jax.nn.gelu(Linear(self.hidden, name="forward_1")(rows))
        rows = rows + Linear(self.hidden, name="forward_2")(inner)
        return nn.LayerNorm(param_dtype=dtype, name="norm_2")(rows), None


class Encoder(nn.Module):
    """Embedding, then a scan over blocks, which is compiled once instead of once per layer.

    Blocks are rematerialized in the backward pass, so that the memory of a step is that of the
    pairs of one layer.
    """

    hidden: int
    num_layers: int
    heads: int
    dropout: float
    encoder: Callable[..., nn.Module]

    @nn.compact
    def __call__(
        self, groups: Sequence[Batch], distances: Sequence[Distances], train: bool
    ) -> jax.Array:
        """Representations ``[B, h]``."""
        rows, keys = [], []
        for group in groups:
            real = jnp.asarray(group.mask).astype(bool)
            features = jnp.asarray(group.features) * real[..., None]
            rows.append(jnp.pad(features, ((0, 0), (1, 0), (0, 0))))
            keys.append(jnp.pad(real, ((0, 0), (1, 0)), constant_values=True))
        x = Linear(self.hidden, name="embedding")(nodes.flatten(rows))
        blocks = nn.scan(
            nn.remat(Block, prevent_cse=False),
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=(nn.broadcast, nn.broadcast),
            length=self.num_layers,
        )(self.hidden, self.heads, self.dropout, self.encoder, train, name="blocks")
        x, _ = blocks(x, keys, distances)
        first, start = [], 0
        for b, m in (real.shape for real in keys):
            first.append(x[start : start + b * m].reshape(b, m, -1)[:, 0])
            start += b * m
        return jnp.concatenate(first)


class Graphormer(Backbone):
    """Attention with a learned bias per number of hops, separate in each layer and head.

    The virtual node takes part in the attention but is not connected to the graph: pairs with it
    have a separate entry in the table, and so have disconnected pairs. Takes padded batches only;
    distances depend on the edges, not on their weights.

    Attributes:
        heads: attention heads.
        cap: largest distance with a separate entry.
        attention_dropout: dropout rate of the attention.
    """

    title: ClassVar[str] = "Graphormer"
    heads: int = 4
    cap: int = 500
    attention_dropout: float = 0.1

    def setup(self) -> None:
        """The scan over blocks."""
        check(
            self.hidden % self.heads == 0,
            f"hidden: {self.hidden} does not divide by {self.heads} heads; use a multiple of it",
        )
        super().setup()
        self.encoder = Encoder(
            self.hidden, self.num_layers, self.heads, self.attention_dropout, self.pairs()
        )

    def pairs(self) -> Callable[..., nn.Module]:
        """Constructor of the pair encoder of a layer."""
        return functools.partial(TableEncoder, self.heads, self.cap + 3)

    def prepare(self, batch: Batch) -> Distances:
        """Shortest paths."""
        return distances(batch, self.cap)

    def encode(
        self, inputs: Batch | Sequence[Batch], extras: Any = None, train: bool = False
    ) -> jax.Array:
        """Representations ``[B, h]``; ``extras`` are the results of :meth:`prepare` per batch."""
        groups, extras = self.prepared(inputs, extras)
        return self.encoder(groups, jax.tree.map(jnp.asarray, extras), train)


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
