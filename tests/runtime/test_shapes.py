"""Bucket policy: few shapes, little padded work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgw_jax.datasets import loader
from fgw_jax.errors import InputError
from fgw_jax.runtime import shapes


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
def test_eight_shapes_save_work_on_pairs_of_tu_datasets(name, datasets_dir):
    sizes = [graph.num_nodes for graph in loader.load(name, datasets_dir).graphs]
    first, second = np.random.default_rng(0).choice(sizes, (2, 1000)).astype(float)
    larger, smaller = np.maximum(first, second), np.minimum(first, second)
    fitted = shapes.pair_shapes(first, second, max_shapes=8).waste
    ordered = shapes.pair_shapes(larger, smaller, max_shapes=8).waste
    exact = (first**2 * second + first * second**2).sum()
    square = shapes.pair_shapes(larger, larger, max_shapes=8).waste * (2 * larger**3).sum() / exact
    assert ordered < fitted < square
    assert len(shapes.grid_shapes(larger, smaller).shapes) <= 8
