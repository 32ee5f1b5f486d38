"""Bucket policy: few shapes, little padded work."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgw_jax.datasets import loader
from fgw_jax.errors import InputError
from fgw_jax.runtime import shapes

sizes_lists = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def padded_work(sizes, chosen):
    return sum(min(c for c in chosen if c >= n) ** 3 for n in sizes)


@settings(deadline=None, max_examples=60)
@given(sizes_lists, st.integers(1, 4))
def test_bucket_sizes_are_the_best_of_all_choices(sizes, max_shapes):
    chosen = shapes.bucket_sizes(sizes, max_shapes)
    assert len(chosen) <= max_shapes
    assert chosen == sorted(set(chosen))
    others = sorted(set(sizes) - {max(sizes)})
    best = min(
        padded_work(sizes, [*some, max(sizes)])
        for k in range(max_shapes)
        for some in itertools.combinations(others, min(k, len(others)))
    )
    assert padded_work(sizes, chosen) == best
    exact = sum(n**3 for n in sizes)
    assert shapes.waste(sizes, chosen) == pytest.approx(best / exact)
    for n in sizes:
        assert shapes.padded_size(n, chosen) == min(c for c in chosen if c >= n)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 700), st.integers(1, 700)), min_size=1, max_size=30))
def test_pair_shapes_hold_every_pair(pairs):
    rows, columns = zip(*pairs, strict=True)
    out = shapes.pair_shapes(rows, columns, max_shapes=5)
    assert len(out.shapes) <= 5
    assert out.index.shape == (len(pairs),)
    assert set(out.index) == set(range(len(out.shapes)))
    work = exact = 0
    for (n1, n2), shape in zip(pairs, out.index, strict=True):
        p1, p2 = out.shapes[shape]
        assert n1 <= p1 and n2 <= p2
        work += p1**2 * p2 + p1 * p2**2
        exact += n1**2 * n2 + n1 * n2**2
    assert out.waste == pytest.approx(work / exact)


def test_more_shapes_never_cost_more(rng):
    sizes = rng.integers(1, 200, 300)
    wastes = [shapes.waste(sizes, shapes.bucket_sizes(sizes, k)) for k in range(1, 10)]
    assert wastes == sorted(wastes, reverse=True)
    pairs = rng.integers(1, 200, (2, 300))
    wastes = [shapes.pair_shapes(*pairs, max_shapes=k).waste for k in range(1, 10)]
    assert wastes == sorted(wastes, reverse=True)


def test_round_up_is_a_grid_of_few_values():
    grid = [shapes.round_up(n) for n in range(1, 1000)]
    assert all(n <= g for n, g in enumerate(grid, 1))
    assert grid == sorted(grid)
    assert all(shapes.round_up(g) == g for g in grid)
    assert len(set(grid)) < 40
    assert max(g / n for n, g in enumerate(grid, 1) if n >= 16) < 1.25


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: shapes.bucket_sizes([]), "sizes: the list is empty"),
        (lambda: shapes.bucket_sizes([0, 3]), "sizes: .*at least one node"),
        (lambda: shapes.bucket_sizes([3], max_shapes=0), "max_shapes: must be at least 1"),
        (lambda: shapes.padded_size(9, [4, 8]), "size: .*largest bucket"),
        (lambda: shapes.waste([9], [4, 8]), "sizes: .*largest bucket"),
        (lambda: shapes.pair_shapes([1, 2], [1]), "lengths differ"),
        (lambda: shapes.pair_shapes([], []), "rows, columns: .*empty"),
        (lambda: shapes.pair_shapes([1], [0]), "rows, columns: .*at least one node"),
        (lambda: shapes.pair_shapes([1], [1], max_shapes=0), "max_shapes: must be at least 1"),
    ],
)
def test_odd_input(call, named):
    with pytest.raises(InputError, match=named):
        call()


@pytest.mark.parametrize("name", ["PROTEINS", "NCI1", "NCI109", "IMDB-BINARY", "IMDB-MULTI"])
def test_eight_shapes_keep_tu_datasets_within_1_6_times_their_work(name, datasets_dir):
    sizes = [graph.num_nodes for graph in loader.load(name, datasets_dir).graphs]
    chosen = shapes.bucket_sizes(sizes, max_shapes=8)
    assert len(chosen) <= 8
    assert shapes.waste(sizes, chosen) <= 1.6
    pairs = np.random.default_rng(0).choice(sizes, (2, 1000))
    chosen_pairs = shapes.pair_shapes(*pairs, max_shapes=8)
    larger = shapes.bucket_sizes(pairs.max(0), max_shapes=8)
    by_larger = [shapes.padded_size(n, larger) for n in pairs.max(0)]
    exact = (pairs[0] ** 2 * pairs[1] + pairs[0] * pairs[1] ** 2).sum()
    assert chosen_pairs.waste < sum(2.0 * n**3 for n in by_larger) / exact
