"""Decoding: exact threshold, symmetric 0/1 edges, the same under jit and vmap."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgw_jax import decode
from fgw_jax.errors import InputError


def symmetric(rng, n):
    matrix = rng.uniform(size=(n, n))
    return matrix + matrix.T


def density_of(adjacency, n=None):
    n = len(adjacency) if n is None else n
    return adjacency.sum() / max(n * (n - 1), 1)


@pytest.mark.parametrize("density", [0.1, 0.37, 0.5, 0.9, 1.0])
def test_threshold_is_the_best_of_all(rng, density):
    matrix = symmetric(rng, 9)
    found = density_of(decode(matrix, density))
    entries = matrix[np.triu_indices(9, 1)]
    errors = [abs((entries >= t).mean() - density) for t in entries]
    assert abs(found - density) == pytest.approx(min(errors), abs=1e-9)


def test_result_is_symmetric_with_zero_diagonal_and_no_edge_on_padding(rng):
    matrix = symmetric(rng, 8)
    mask = np.array([True] * 6 + [False] * 2)
    out = decode(matrix, 0.4, mask)
    np.testing.assert_array_equal(out, out.T)
    assert set(np.unique(out)) <= {0.0, 1.0} and not out.diagonal().any()
    assert not out[6:].any()
    np.testing.assert_array_equal(out[:6, :6], decode(matrix[:6, :6], 0.4))


def test_distance_like_structures_keep_their_small_entries():
    path = np.abs(np.subtract.outer(np.arange(5), np.arange(5))).astype(float)
    out = decode(path, 4 / 10, distance_like=True)
    np.testing.assert_array_equal(out, (path == 1).astype(float))


def test_a_cut_between_equal_entries_is_not_counted_on():
    """One entry of 3, four of 2, one of 1, two edges asked for: one edge is nearer than five."""
    matrix = np.zeros((4, 4))
    matrix[np.triu_indices(4, 1)] = [2, 3, 2, 2, 1, 2]
    out = decode(matrix + matrix.T, 2 / 6)
    assert out.sum() == 2 and out[0, 2] == 1


def test_of_two_cuts_equally_close_the_one_with_fewer_edges_is_taken(rng):
    """Whatever rounding says: compared in fractions, on the host and under jit."""
    traced = jax.jit(decode)
    for _ in range(200):
        n = 9
        matrix = rng.integers(0, 6, size=(n, n)) / 5
        matrix = np.maximum(matrix, matrix.T)
        entries = matrix[np.triu_indices(n, 1)]
        total = len(entries)
        wanted = Fraction(int(rng.integers(1, 2 * total)), 2)
        counts = sorted({int((entries >= t).sum()) for t in entries})
        best = min(counts, key=lambda count: abs(count - wanted))
        density = float(wanted / total)
        assert decode(matrix, density).sum() == 2 * best
        assert traced(jnp.asarray(matrix, jnp.float32), density).sum() == 2 * best


def test_equal_entries_are_edges_together():
    out = decode(np.ones((4, 4)), 0.3)
    assert density_of(out) == 1.0


def test_density_zero_and_single_nodes_have_no_edge(rng):
    assert not decode(symmetric(rng, 5), 0.0).any()
    assert decode(np.zeros((1, 1)), 0.5).shape == (1, 1)


def test_jit_and_vmap_agree_with_the_host(rng):
    matrices = np.stack([symmetric(rng, 7) for _ in range(3)]).astype(np.float32)
    densities = np.array([0.2, 0.5, 0.8], np.float32)
    batched = jax.jit(jax.vmap(decode))(jnp.asarray(matrices), jnp.asarray(densities))
    for got, matrix, density in zip(batched, matrices, densities, strict=True):
        np.testing.assert_array_equal(got, decode(matrix, float(density)))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((np.zeros((2, 3)), 0.5), "structure"),
        ((np.full((3, 3), np.nan), 0.5), "structure: NaN"),
        ((np.zeros((3, 3)), 1.5), "density"),
        ((np.zeros((3, 3)), [0.5, 0.5]), "density: must be one number"),
        ((np.zeros((3, 3)), "half"), "density: must be one number"),
        ((np.zeros((3, 3)), 0.5, np.ones(2, bool)), "mask"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(InputError, match=name):
        decode(*arguments)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_are_refused_or_seen(bad):
    matrix = np.array([[0, 1, bad], [1, 0, 2], [bad, 2, 0]])
    for array in (matrix, jnp.asarray(matrix)):
        with pytest.raises(InputError, match="structure: NaN or infinite"):
            decode(array, 0.5)
        mask = np.array([True, True, False])  # on padding anything may stand
        assert decode(array, 1.0, mask).sum() == 2
    found = jax.jit(jax.vmap(decode, (0, None)))(np.stack([matrix, np.ones((3, 3))]), 1.0)
    assert np.isnan(found[0]).all() and found[1].sum() == 6
