"""Base classes of the backbones: graphs to representations to logits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import jraph

from fgw_jax.backbones import nodes, quotients
from fgw_jax.backbones.layers import BatchNorm, Head
from fgw_jax.backbones.quotients import Quotient
from fgw_jax.graphs import Batch, Graph


class Backbone(nn.Module):
    """Base of the backbones: ``classify(encode(graphs))``.

    ``inputs`` are a padded :class:`~fgw_jax.Batch` or a list of them with different padded sizes
    (graphs in the order of the list); the message-passing backbones also take a
    ``jraph.GraphsTuple``, with the same parameters and the same logits.

    Attributes:
        num_classes: number of logits C.
        hidden: width h.
        num_layers: number of layers.
        dropout: rate of the dropout in the head, 0.5 in the paper.

    >>> import jax
    >>> from fgw_jax import Batch, Graph, backbones
    >>> batch = Batch.stack([Graph.from_edges([(0, 1)], 2), Graph.from_edges([(0, 1), (1, 2)], 3)])
    >>> model = backbones.make("vgcn", num_classes=2, hidden=8, num_layers=2)
    >>> variables = model.init(jax.random.key(0), batch)
    >>> model.apply(variables, batch).shape
    (2, 2)
    """

    num_classes: int
    hidden: int = 64
    num_layers: int = 6
    dropout: float = 0.5

    def setup(self) -> None:
        """The head, the same for all backbones."""
        self.head = Head(self.num_classes, self.hidden, self.dropout)

    def __call__(self, inputs: Any, extras: Any = None, train: bool = False) -> jax.Array:
        """Logits ``[B, C]``."""
        return self.classify(self.encode(inputs, extras, train), train)

    #: name in tables
    title: ClassVar[str] = ""
    #: whether several graphs may share a block, by :meth:`quotients` and :meth:`pack`
    packs: ClassVar[bool] = False

    def prepare(self, batch: Batch) -> Any:
        """Arrays derived from a batch once, to be passed to :meth:`encode` as one of ``extras``."""
        return None

    def quotients(self, graphs: Sequence[Graph]) -> list[Quotient]:
        """The quotient of each graph, whose nodes are the rows of a block."""
        raise TypeError(f"{type(self).__name__} does not define quotients")

    def pack(self, blocks: Sequence[Sequence[Quotient]], size: int, slots: int) -> Any:
        """As :meth:`prepare`, with up to ``slots`` graphs in a block of ``size`` rows."""
        raise TypeError(f"{type(self).__name__} does not define pack")

    def encode(self, inputs: Any, extras: Any = None, train: bool = False) -> jax.Array:
        """Representations ``[B, h]``: the virtual nodes after the last layer."""
        raise TypeError(f"{type(self).__name__} does not define encode")

    def prepared(self, inputs: Batch | Sequence[Batch], extras: Any) -> tuple[Any, list[Any]]:
        """The batches of ``inputs``, and the ``extras`` of each: given, or computed here."""
        groups = nodes.as_groups(inputs)
        if extras is None:
            return groups, [self.prepare(group) for group in groups]
        return groups, [extras] if isinstance(inputs, Batch) else list(extras)

    def classify(self, representations: jax.Array, train: bool = False) -> jax.Array:
        """Logits ``[B, C]`` of representations ``[B, h]``."""
        return self.head(representations, train)


class MessagePassing(Backbone):
    """Layers of convolution, ReLU and batch norm on graphs with a virtual node."""

    packs: ClassVar[bool] = True

    def setup(self) -> None:
        """Convolutions and norms, one per layer."""
        super().setup()
        self.convolutions = [self.convolution() for _ in range(self.num_layers)]
        self.norms = [BatchNorm() for _ in range(self.num_layers)]

    def convolution(self) -> nn.Module:
        """A module that maps ``(rows, affine, adjacency)`` to new rows before the ReLU."""
        raise TypeError(f"{type(self).__name__} does not define convolution")

    def operator(self, adjacency: Any) -> Any:
        """The operator of the convolutions: the adjacency, dense or sparse, or a function of it."""
        return adjacency

    def prepare(self, batch: Batch) -> nodes.Prepared:
        """The graphs with their virtual nodes, and the operator of the convolutions."""
        found = nodes.prepare(batch)
        return dataclasses.replace(found, blocks=self.operator(nodes.Dense(found.blocks)).blocks)

    def quotients(self, graphs: Sequence[Graph]) -> list[Quotient]:
        """Graphs in which nodes that no layer can distinguish are one row."""
        operator = lambda adjacency: self.operator(nodes.Dense(adjacency[None])).blocks[0]  # noqa: E731
        return quotients.quotients(graphs, self.num_layers + 1, operator)

    def pack(self, blocks: Sequence[Sequence[Quotient]], size: int, slots: int) -> nodes.Prepared:
        """Several graphs per block; :meth:`encode` then uses ``extras`` only."""
        return nodes.pack(blocks, size, slots)

    def rows(self, inputs: Any, extras: Any) -> list[nodes.Nodes]:
        """Rows of every group of equal padded size, or of a ``jraph.GraphsTuple`` all at once.

        Groups are separate in all layers: they run in parallel on several cores, and are not
        concatenated and split again.
        """
        if isinstance(inputs, jraph.GraphsTuple):
            rows = nodes.from_jraph(inputs)
            return [dataclasses.replace(rows, adjacency=self.operator(rows.adjacency))]
        if extras is None or isinstance(inputs, Batch):
            extras = self.prepared(inputs, extras)[1]
        return [found.nodes() for found in extras]

    def layer(
        self, convolution: nn.Module, rows: jax.Array, affine: Any, group: nodes.Nodes
    ) -> jax.Array:
        """New rows of a group before the batch norm, ``[M, h]``.

        Large graphs are rare, so that the blocks a step has for them are mostly empty, and skipped
        then: rows without a node are never read.
        """
        convolve = lambda module, r: jax.nn.relu(module(r, affine, group.adjacency))  # noqa: E731
        if self.is_initializing() or not group.mostly_empty:
            return convolve(convolution, rows)
        nothing = lambda module, r: jnp.zeros((len(r), self.hidden), r.dtype)  # noqa: E731
        return nn.cond(group.counts.any(), convolve, nothing, convolution, rows)

    def encode(
        self,
        inputs: Batch | Sequence[Batch] | jraph.GraphsTuple,
        extras: Any = None,
        train: bool = False,
    ) -> jax.Array:
        """Representations ``[B, h]``."""
        groups = self.rows(inputs, extras)
        counts = [group.counts for group in groups]
        rows, affine = [group.features for group in groups], None
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            rows = [
                self.layer(convolution, r, affine, group)
                for r, group in zip(rows, groups, strict=True)
            ]
            affine = norm(rows, counts, train)
        scale, shift = affine  # type: ignore[misc]
        readout = [r[group.virtual] for r, group in zip(rows, groups, strict=True)]
        return jnp.concatenate(readout) * scale + shift
