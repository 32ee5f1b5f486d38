"""Graphs as rows, the data structure of the message-passing backbones, dense or sparse.

Nodes of graphs are rows of a matrix ``[M, d]``; a virtual node, connected to every real node of its
graph, is one more row per graph. Two operators multiply such rows by the adjacency:
:class:`Dense` by batched products of padded matrices, which is faster on CPU for graphs of tens to
hundreds of nodes, and :class:`Sparse` by sums over edges, for large graphs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np

from fgw_jax.backbones.quotients import Quotient
from fgw_jax.errors import InputError, check
from fgw_jax.graphs import Batch
from fgw_jax.inputs import concrete

#: number of rows from which blocks are checked for being empty before they are multiplied
LARGE = 128


@dataclasses.dataclass(frozen=True)
class Dense:
    """Block-diagonal matrix of blocks ``[B, m, m]`` of equal size, on the host or the device.

    Symmetric, or given with its ``transposed`` blocks.
    """

    blocks: Any
    transposed: Any = None

    def apply(self, rows: jax.Array) -> jax.Array:
        """The matrix times rows ``[B m, h]``."""
        b, m = self.blocks.shape[:2]
        transposed = self.blocks if self.transposed is None else self.transposed
        return _product(self.blocks, transposed, rows.reshape(b, m, -1)).reshape(b * m, -1)

    def renormalized(self) -> Dense:
        """``D^(-1/2) (A + I) D^(-1/2)`` with ``D`` the degrees of ``A + I``, symmetric."""
        blocks = self.blocks + np.eye(self.blocks.shape[1], dtype=self.blocks.dtype)
        degree = blocks.sum(-1)
        _check_degrees(degree)
        scale = degree**-0.5
        return Dense(scale[:, :, None] * blocks * scale[:, None, :])


@dataclasses.dataclass(frozen=True)
class Sparse:
    """Symmetric matrix of ``size`` rows given by its entries, each listed in both directions."""

    senders: jax.Array
    receivers: jax.Array
    weights: jax.Array
    size: int

    def apply(self, rows: jax.Array) -> jax.Array:
        """The matrix times rows ``[M, h]``."""
        messages = self.weights[:, None] * rows[self.senders]
        return jax.ops.segment_sum(messages, self.receivers, self.size)

    def renormalized(self) -> Sparse:
        """``D^(-1/2) (A + I) D^(-1/2)`` with ``D`` the degrees of ``A + I``."""
        itself = jnp.arange(self.size, dtype=self.senders.dtype)
        senders = jnp.concatenate([self.senders, itself])
        receivers = jnp.concatenate([self.receivers, itself])
        weights = jnp.concatenate([self.weights, jnp.ones(self.size, self.weights.dtype)])
        degree = jax.ops.segment_sum(weights, receivers, self.size)
        _check_degrees(degree)
        scale = jax.lax.rsqrt(degree)
        weights = scale[senders] * weights * scale[receivers]
        return Sparse(senders, receivers, weights, self.size)


def _check_degrees(degree: Any) -> None:
    check(
        not concrete(degree) or bool((degree > 0).all()),
        "inputs: edge weights of a node sum to -1 or less, and vGCN needs the square root of one "
        "plus the sum; use weights >= 0, or another backbone",
    )


def mostly_empty(num_blocks: int, size: int) -> bool:
    """Whether blocks are so large and rare that most steps have no graph for them."""
    return num_blocks <= 2 and size >= LARGE


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Graphs as rows.

    Attributes:
        features: ``[M, d]``; zero for virtual nodes and padding.
        counts: ``[M]`` floats, number of nodes a row represents; 0 for padding.
        adjacency: operator on rows, virtual edges included.
        virtual: ``[G]`` rows of the virtual nodes, in the order of the graphs.
    """

    features: jax.Array
    counts: jax.Array
    adjacency: Dense | Sparse
    virtual: jax.Array

    @property
    def mostly_empty(self) -> bool:
        """Whether most steps have no graph for these rows."""
        if isinstance(self.adjacency, Sparse):
            return False
        return mostly_empty(*self.adjacency.blocks.shape[:2])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prepared:
    """Blocks of m rows, each of one graph or of several; virtual nodes stand before the others.

    Attributes:
        features: ``[B, m, d]``; zero for virtual nodes and padding.
        counts: ``[B, m]`` floats, number of nodes a row represents; 0 for padding.
        blocks: ``[B, m, m]`` matrices that rows are multiplied by.
        transposed: the transposed blocks; ``None`` if they are symmetric.
        virtual: ``[B, s]`` rows of the virtual nodes in their block; 0 for slots without a graph.
    """

    features: Any
    counts: Any
    blocks: Any
    transposed: Any
    virtual: Any

    def nodes(self) -> Nodes:
        """The graphs as rows."""
        b, m, d = self.features.shape
        rows = jnp.asarray(self.features).reshape(b * m, d)
        counts = jnp.asarray(self.counts).reshape(b * m)
        virtual = (m * jnp.arange(b)[:, None] + self.virtual).reshape(-1)
        operator = Dense(*jax.tree.map(jnp.asarray, (self.blocks, self.transposed)))
        return Nodes(rows, counts, operator, virtual)


def prepare(batch: Batch) -> Prepared:
    """The graphs of a batch with their virtual nodes; numpy arrays for numpy arrays."""
    xp: Any = jnp if isinstance(batch.adjacency, jax.Array) else np
    features = xp.asarray(batch.features)
    real = xp.asarray(batch.mask).astype(features.dtype)
    inner = xp.asarray(batch.adjacency, features.dtype) * real[:, :, None] * real[:, None, :]
    ahead = lambda x, first: xp.concatenate([first, x], 1)  # noqa: E731
    # A block is [[0, mask], [mask, A]].
    border = ahead(real, xp.zeros_like(real[:, :1]))
    block = xp.concatenate([real[:, :, None], inner], 2)
    return Prepared(
        ahead(features * real[..., None], xp.zeros_like(features[:, :1])),
        ahead(real, real.max(1, keepdims=True)),
        ahead(block, border[:, None, :]),
        None,
        xp.zeros((len(real), 1), np.int32),
    )


def pack(blocks: Sequence[Sequence[Quotient]], size: int, slots: int) -> Prepared:
    """Pack quotient graphs, up to ``slots`` per block of ``size`` rows, with virtual nodes."""
    first = blocks[0][0].features
    shape, dtype = (len(blocks), size), first.dtype
    features = np.zeros((*shape, first.shape[1]), dtype)
    counts, operators = np.zeros(shape, dtype), np.zeros((*shape, size), dtype)
    virtual = np.zeros((len(blocks), slots), np.int32)
    for b, graphs in enumerate(blocks):
        start = 0
        for slot, graph in enumerate(graphs):
            stop = start + 1 + graph.num_nodes
            own = slice(start + 1, stop)
            features[b, own], counts[b, own], counts[b, start] = graph.features, graph.counts, 1
            operators[b, start:stop, start:stop] = graph.operator
            virtual[b, slot], start = start, stop
    transposed = np.ascontiguousarray(operators.transpose(0, 2, 1))
    return Prepared(features, counts, operators, transposed, virtual)


def flatten(parts: Sequence[jax.Array]) -> jax.Array:
    """Arrays ``[B, m, h]`` as rows ``[M, h]``."""
    return jnp.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])


def as_groups(inputs: Batch | Sequence[Batch]) -> tuple[Batch, ...]:
    """A tuple of the batches, which may have different padded sizes."""
    groups = (inputs,) if isinstance(inputs, Batch) else tuple(inputs)
    for group in groups:
        if not isinstance(group, Batch):
            raise InputError(
                f"inputs: expected a Batch, a list of them or a jraph.GraphsTuple, got "
                f"{type(group).__name__}; stack graphs with Batch.stack"
            )
    check(len(groups) > 0, "inputs: an empty list; pass at least one Batch")
    return groups


def from_jraph(graph: jraph.GraphsTuple) -> Nodes:
    """Rows of a GraphsTuple as ``Graph.to_jraph`` and ``jraph.batch`` construct it.

    ``nodes``: features ``[N, d]``, or a dictionary with ``features`` and optionally ``mask``;
    without a mask every node is real.
    ``edges``: ``None``, weights, or a dictionary with ``weight``.
    Virtual nodes are appended, one per graph, including padding graphs.

    Raises:
        InputError: if edges have more than one weight.
    """
    nodes = graph.nodes if isinstance(graph.nodes, dict) else {"features": graph.nodes}
    features = jnp.asarray(nodes["features"])
    count, graphs = features.shape[0], len(graph.n_node)
    dtype = features.dtype
    mask = jnp.asarray(nodes.get("mask", jnp.ones(count))).astype(dtype)
    owner = jnp.repeat(jnp.arange(graphs), jnp.asarray(graph.n_node), total_repeat_length=count)
    edges = graph.edges["weight"] if isinstance(graph.edges, dict) else graph.edges
    senders, receivers = jnp.asarray(graph.senders), jnp.asarray(graph.receivers)
    weights = jnp.ones(len(senders), dtype) if edges is None else jnp.asarray(edges, dtype)
    check(
        weights.size == len(senders),
        f"inputs: expected one number per edge, got edges of shape {weights.shape}; "
        "pass weights [m], a dictionary with 'weight', or None",
    )
    weights = weights.reshape(-1) * mask[senders] * mask[receivers]
    virtual = count + jnp.arange(graphs)
    itself = jnp.arange(count)
    operator = Sparse(
        jnp.concatenate([senders, itself, virtual[owner]]),
        jnp.concatenate([receivers, virtual[owner], itself]),
        jnp.concatenate([weights, mask, mask]),
        count + graphs,
    )
    alive = jax.ops.segment_max(mask, owner, graphs) > 0
    return Nodes(
        jnp.concatenate([features * mask[:, None], jnp.zeros((graphs, features.shape[1]), dtype)]),
        jnp.concatenate([mask, alive.astype(dtype)]),
        operator,
        virtual,
    )


@jax.custom_vjp
def _product(blocks: jax.Array, transposed: jax.Array, rows: jax.Array) -> jax.Array:
    """``blocks @ rows`` for blocks that carry no gradient.

    Given the transpose, the backward pass is the same fast product; products with a transposed
    left side run at half the speed on CPU.
    """
    return blocks @ rows


def _product_forward(
    blocks: jax.Array, transposed: jax.Array, rows: jax.Array
) -> tuple[jax.Array, jax.Array]:
    return blocks @ rows, transposed


def _product_backward(transposed: jax.Array, gradient: jax.Array) -> tuple[Any, Any, jax.Array]:
    return None, None, transposed @ gradient


_product.defvjp(_product_forward, _product_backward)
