"""Distances between the nodes of a graph for the spatial encoding of Graphormers.

Distances and their encodings are symmetric, so unordered pairs are stored and encoded once, as the
upper triangle ``[B, T]``, ``T = m (m + 1) / 2``, and unfolded to ``[B, m, m]`` at the end. The
virtual node comes first; its distances have a separate entry.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax import structure
from fgw_jax.errors import check
from fgw_jax.graphs import Batch


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Distances:
    """Distances of all pairs of a batch.

    Attributes:
        hops: ``[B, T]`` index into the distance table: the length of a shortest path, at most
            ``cap``; ``cap + 1`` for disconnected pairs, ``cap + 2`` for pairs with the virtual
            node.
        resistance: ``[B, T]`` resistance distances, 0 for such pairs; ``None`` if not requested.
    """

    hops: Any
    resistance: Any = None


def distances(batch: Batch, cap: int, resistance: bool = False) -> Distances:
    """Distances of a padded batch: by scipy on the host, by Floyd-Warshall under ``jit``.

    Edges are the non-zero entries of the adjacency; in the resistance their weights are
    conductances. On the host each graph costs one breadth-first search per node; under ``jit``,
    where an augmentation changes the edges at every step, a Floyd-Warshall pass of n^3.

    Args:
        batch: the graphs, on the host or traced.
        cap: largest distance with a separate entry.
        resistance: whether to compute resistance distances as well.

    Raises:
        InputError: if ``resistance`` meets a negative edge weight.
    """
    if isinstance(batch.adjacency, jax.Array):
        return jax.vmap(lambda a, mask: _encode(jnp, a, mask, cap, resistance))(
            batch.adjacency, jnp.asarray(batch.mask)
        )
    adjacency, mask = np.asarray(batch.adjacency), np.asarray(batch.mask)
    check(
        not resistance or bool((adjacency >= 0).all()),
        "inputs: resistance takes edge weights as conductances, and one is negative; "
        "use weights >= 0, or another backbone",
    )
    rows = [_encode(np, a, m, cap, resistance) for a, m in zip(adjacency, mask, strict=True)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def _encode(xp: Any, adjacency: Any, mask: Any, cap: int, resistance: bool) -> Distances:
    hops = structure.shortest_path(adjacency, mask, unreachable=-1.0)
    entry = xp.where(hops < 0, cap + 1, xp.minimum(hops, cap)).astype(xp.int16)
    entry = xp.pad(entry, ((1, 0), (1, 0)), constant_values=cap + 2)
    rows, columns = _triangle(entry.shape[0])
    if not resistance:
        return Distances(entry[rows, columns])
    ohms = xp.maximum(structure.resistance(adjacency, mask, unreachable=0.0), 0)
    return Distances(entry[rows, columns], xp.pad(ohms, ((1, 0), (1, 0)))[rows, columns])


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def unfold(pairs: jax.Array, size: int) -> jax.Array:
    """Values ``[B, T, c]`` of unordered pairs as ``[B, m, m, c]``, ``m = size``.

    Its transpose adds the two entries of a pair: a gather, where the transpose of a gather as JAX
    derives it would be a scatter, which is slow on CPU.
    """
    i = np.minimum.outer(np.arange(size), np.arange(size))
    j = np.maximum.outer(np.arange(size), np.arange(size))
    place = i * size - i * (i - 1) // 2 + j - i
    return pairs[:, place.astype(np.int32)]


def _unfold_forward(pairs: jax.Array, size: int) -> tuple[jax.Array, None]:
    return unfold(pairs, size), None


def _unfold_backward(size: int, saved: None, gradient: jax.Array) -> tuple[jax.Array]:
    rows, columns = _triangle(size)
    twice = jnp.where((rows == columns)[:, None], 0, gradient[:, columns, rows])
    return (gradient[:, rows, columns] + twice,)


unfold.defvjp(_unfold_forward, _unfold_backward)


@functools.cache
def _triangle(size: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(size)
    return rows.astype(np.int32), columns.astype(np.int32)
