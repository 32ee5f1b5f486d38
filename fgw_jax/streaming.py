"""Ragged lists through compiled functions: group by shape, stack, run in chunks.

The host-side way in of every batched function. Items are grouped into few padded shapes, each
group is cut into chunks whose memory is bounded, and lane counts come from a fixed grid, so that
lists drawn from one dataset meet compiled functions again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fgw_jax.buckets import pair_shapes, round_up
from fgw_jax.errors import check
from fgw_jax.graphs import Batch, Graph

#: Default bound of one chunk, in float entries over all lanes; small chunks also fit the cache.
CHUNK_ENTRIES = 2_000_000


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Lanes of one padded shape.

    Attributes:
        shape: padded ``(rows, columns)``.
        items: ``[k]`` positions in the input of the real lanes.
        lanes: ``[L]`` positions with filler lanes (repeats of the first) at the end.
    """

    shape: tuple[int, int]
    items: np.ndarray
    lanes: np.ndarray


def pair_chunks(
    rows: Sequence[int],
    columns: Sequence[int],
    *,
    max_shapes: int = 12,
    chunk_size: int | None = None,
) -> list[Chunk]:
    """Chunks of pairs of sizes ``(rows, columns)``, large shapes first.

    ``chunk_size`` bounds the lanes of a chunk; by default it follows from :data:`CHUNK_ENTRIES`.
    """
    check(
        chunk_size is None or chunk_size >= 1,
        f"chunk_size: must be at least 1, got {chunk_size}; leave it out for a bound on memory",
    )
    shapes = pair_shapes(rows, columns, max_shapes)
    chunks = []
    for number in np.argsort([-r * c * max(r, c) for r, c in shapes.shapes], kind="stable"):
        n, m = shapes.shapes[number]
        items = np.flatnonzero(shapes.index == number)
        entries = n * n + m * m + 6 * n * m
        most = chunk_size or max(1, CHUNK_ENTRIES // entries)
        num_chunks = -(-len(items) // most)
        lanes = min(most, lane_count(-(-len(items) // num_chunks)))
        for start in range(0, len(items), lanes):
            part = items[start : start + lanes]
            filler = np.full(lanes - len(part), part[0])
            chunks.append(Chunk((n, m), part, np.concatenate([part, filler])))
    return chunks


def lane_count(count: int) -> int:
    """Number of lanes that holds ``count`` items: 1, 2, 3, 4, then the grid of ``round_up``."""
    return count if count <= 4 else round_up(count)


def stack(graphs: Sequence[Graph], positions: np.ndarray, size: int) -> Batch:
    """The graphs at ``positions``, padded to ``size``; each distinct graph is padded once."""
    distinct, inverse = np.unique(positions, return_inverse=True)
    batch = Batch.stack([graphs[i] for i in distinct], size)
    if len(distinct) == len(positions) and (inverse == np.arange(len(positions))).all():
        return batch
    fields = (getattr(batch, f.name) for f in dataclasses.fields(Batch))
    return Batch(*(field[inverse] for field in fields))


def with_progress(chunks: Sequence[Chunk], progress: bool, what: str) -> Iterator[Chunk]:
    """Yield the chunks, with a bar that counts their items when ``progress`` is set."""
    if not progress:
        yield from chunks
        return
    from tqdm.auto import tqdm

    with tqdm(total=sum(len(c.items) for c in chunks), unit=what, desc=what) as bar:
        for chunk in chunks:
            yield chunk
            bar.update(len(chunk.items))


def take(tree: Any, index: Any) -> Any:
    """``leaf[index]`` of every leaf."""
    import jax

    return jax.tree.map(lambda leaf: leaf[index], tree)
