"""What a graph and a batch of graphs share: their fields, sizes and padding."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self, TypeVar

import jax
import numpy as np

from fgw_jax.errors import check
from fgw_jax.inputs import check_whole

#: fields of graphs and batches, in order
FIELDS = ("structure", "features", "weights", "adjacency", "mask")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GraphArrays:
    """The fields of :class:`~fgw_jax.Graph` and, stacked, of :class:`~fgw_jax.Batch`.

    Under ``jax.vmap`` a lane of a batch arrives as a ``Batch`` whose fields have lost their leading
    axis; :func:`is_single` accepts it as the single graph it is.
    """

    structure: Any
    features: Any
    weights: Any
    adjacency: Any
    mask: Any

    #: names of structure and measure where a constructor was given them. Not a field: what is
    #: traced, replaced or stacked has forgotten them, so that they never describe other arrays.
    names: ClassVar[tuple[str | None, str | None]] = (None, None)

    @property
    def num_nodes(self) -> Any:
        """Number of real nodes: an int, or a traced scalar under jit."""
        if isinstance(self.mask, jax.core.Tracer):
            return self.mask.sum(-1)
        if self.mask.ndim == 1:
            return int(np.count_nonzero(self.mask))
        return np.asarray(self.mask).sum(-1)

    @property
    def density(self) -> Any:
        """Share of present edges (non-zero entries), 2|E| / (n (n - 1)); 0 for one node."""
        xp = jax.numpy if isinstance(self.adjacency, jax.Array) else np
        n = self.mask.sum(-1)
        entries = (self.adjacency != 0).sum((-2, -1))
        return xp.where(n > 1, entries / xp.maximum(n * (n - 1), 1), 0.0)

    def pad(self, size: int) -> Self:
        """Append masked nodes of weight zero up to ``size`` nodes (of a batch: to every graph).

        Args:
            size: number of nodes, padding included.

        Returns:
            The padded graph or batch; the same object if it has that size.

        Raises:
            InputError: if ``size`` is no whole number, or less than the present size.
        """
        check_whole("size", size)
        extra = size - self.mask.shape[-1]
        check(
            extra >= 0,
            f"size: cannot pad a graph of {self.mask.shape[-1]} nodes to {size}; "
            "pass at least its own size",
        )
        if extra == 0:
            return self
        adjacency = _pad(self.adjacency, extra, 2, 0)
        shared = self.structure is self.adjacency
        padded = type(self)(
            adjacency if shared else _pad(self.structure, extra, 2, 0),
            _pad(self.features, extra, 1, 1),
            _pad(self.weights, extra, 1, 0),
            adjacency,
            _pad(self.mask, extra, 1, 0),
        )
        return with_names(padded, self.names)


Arrays = TypeVar("Arrays", bound=GraphArrays)


def with_names(graph: Arrays, names: tuple[str | None, str | None]) -> Arrays:
    """A graph just made, carrying the names of its structure and measure from now on."""
    object.__setattr__(graph, "names", names)
    return graph


def is_single(graph: Any) -> bool:
    """Whether this is one graph: a ``Graph``, or a lane of a ``Batch`` under ``vmap``."""
    return isinstance(graph, GraphArrays) and np.ndim(graph.mask) == 1


def counted(number: Any, what: str) -> str:
    """A number and its noun.

    >>> counted(1, "node"), counted(3, "node")
    ('1 node', '3 nodes')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def kinds(arrays: GraphArrays) -> str:
    """Width and type of the features."""
    return f"{counted(arrays.features.shape[-1], 'feature')}, {arrays.features.dtype}"


def _pad(x: Any, extra: int, count: int, trailing: int) -> Any:
    """Append zeros to the last ``count`` axes before the ``trailing`` ones."""
    leading = x.ndim - count - trailing
    widths = [(0, 0)] * leading + [(0, extra)] * count + [(0, 0)] * trailing
    if not isinstance(x, np.ndarray):
        return jax.numpy.pad(x, widths)
    # np.pad spends 20 us before it moves a number
    out = np.zeros(
        [size + after for size, (_, after) in zip(x.shape, widths, strict=True)], x.dtype
    )
    out[tuple(slice(size) for size in x.shape)] = x
    return out
