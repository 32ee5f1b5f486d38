"""Ragged lists in groups and chunks."""

import contextlib
import io

import jax.numpy as jnp
import numpy as np
import pytest

from fgw_jax import Graph
from fgw_jax.errors import InputError
from fgw_jax.runtime import batching


def test_every_item_is_in_one_chunk_that_holds_it(rng):
    rows, columns = rng.integers(1, 60, 100), rng.integers(1, 60, 100)
    chunks = batching.pair_chunks(rows, columns, max_shapes=5, chunk_size=7)
    seen = np.concatenate([chunk.items for chunk in chunks])
    assert sorted(seen) == list(range(100))
    assert len({chunk.shape for chunk in chunks}) <= 5
    for chunk in chunks:
        assert len(chunk.lanes) <= 7
        assert set(chunk.lanes) == set(chunk.items)  # filler lanes repeat items
        assert rows[chunk.items].max() <= chunk.shape[0]
        assert columns[chunk.items].max() <= chunk.shape[1]


def test_memory_of_a_chunk_is_bounded_and_large_shapes_come_first():
    groups = batching.pair_groups([300] * 9 + [10] * 9, [300] * 9 + [10] * 9, max_shapes=2)
    assert [group.shape for group in groups] == [(320, 320), (12, 12)]
    assert groups[0].lanes == 1  # one pair of this size is a chunk of its own
    assert groups[1].lanes >= 9


def test_groups_split_into_parts_of_the_same_lanes():
    group = batching.Group((8, 8), np.arange(10), 2)
    parts = group.split(2)
    assert [len(part.items) for part in parts] == [4, 4, 2]
    assert {part.lanes for part in parts} == {2}


def test_chunk_size_must_be_positive():
    with pytest.raises(InputError, match="chunk_size"):
        batching.pair_groups([1], [1], chunk_size=0)


def test_stacking_repeats_graphs_in_the_order_asked_for():
    graphs = [Graph.from_edges([(0, 1)], 2), Graph.from_edges([(0, 1), (1, 2)], 3)]
    batch = batching.stack(graphs, np.array([1, 0, 1]), 4)
    assert [graph.num_nodes for graph in batch] == [3, 2, 3]


def test_progress_bar_counts_items():
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream), batching.progress_bar(3, True, "pairs") as tick:
        tick(3)
    assert "pairs" in stream.getvalue() and "3/3" in stream.getvalue()
    with contextlib.redirect_stderr(stream), batching.progress_bar(3, False, "hidden") as tick:
        tick(3)
    assert "hidden" not in stream.getvalue()


@pytest.mark.parametrize("refills", [False, True])
def test_every_item_is_run_once_whatever_its_neighbors(refills, rng):
    """Countdowns of very different length: each ends with its own number of steps."""
    rows, columns = rng.integers(1, 80, (2, 90))
    lengths = rng.integers(0, 50, 90)
    shapes_seen = set()

    def enter(items, shape):
        assert (rows[items] <= shape[0]).all() and (columns[items] <= shape[1]).all()
        shapes_seen.add((shape, len(items)))
        problem = jnp.asarray(lengths[items])
        return (problem, problem) if refills else 2 * problem

    advance = batching.until_some_leave(lambda problem, left: left - 1, lambda left: left <= 0)
    # Finished lanes keep their state: nothing is left of it, nor is it below zero.
    steps = {"advance": advance, "leave": lambda problem, left: 2 * problem + left}
    crop = lambda items, found: list(zip(items, found, strict=True))  # noqa: E731
    job = batching.Job(enter, crop, **(steps if refills else {}))
    groups = batching.pair_groups(rows, columns, chunk_size=8)
    found = [pair for part in batching.run(job, groups) for pair in part]
    assert sorted(item for item, _ in found) == list(range(90))
    assert all(value == 2 * lengths[item] for item, value in found)
    assert len({lanes for _, lanes in shapes_seen}) <= 4
