"""Sparse graphs: the same values and plans as the dense solvers, checked inputs."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import fgw_jax
from fgw_jax import Graph, Relaxed, Strict, large
from fgw_jax.errors import InputError


def pair(rng, sizes=(40, 30)):
    out = []
    for n in sizes:
        upper = np.triu(rng.random((n, n)) < 3.0 / n, 1)
        out.append(((upper + upper.T).astype(float), np.eye(3)[rng.integers(3, size=n)]))
    return out


@pytest.mark.parametrize("solver", [Strict(method="mirror"), Relaxed(round=True)])
def test_sparse_and_dense_agree(solver, rng):
    sides = pair(rng)
    dense = fgw_jax.distance(*(Graph.from_adjacency(*side) for side in sides), solver=solver)
    sparse = large.distance(
        *(large.SparseGraph.from_adjacency(scipy.sparse.coo_matrix(a), x) for a, x in sides),
        solver=solver,
    )
    assert float(sparse.value) == pytest.approx(float(dense.value), abs=1e-5)
    assert float(sparse.quadratic) == pytest.approx(float(dense.quadratic), abs=1e-5)
    np.testing.assert_allclose(sparse.plan, dense.plan, atol=1e-5)
    assert float(sparse.marginal_error) < 1e-5


def test_products_are_those_of_the_matrix(rng, monkeypatch):
    monkeypatch.setattr(large, "BLOCK", 16)  # several blocks, the last one filled up
    (a, _), (b, _) = pair(rng)
    x = jnp.asarray(rng.normal(size=(40, 30)), jnp.float32)
    first, second = large.SparseMatrix.of(a), large.SparseMatrix.of(b)
    assert first.values.shape[0] > 1
    np.testing.assert_allclose(first @ x @ second, a @ np.asarray(x) @ b, atol=1e-4)
    np.testing.assert_allclose(first**2 @ x[:, 0], a**2 @ np.asarray(x[:, 0]), atol=1e-5)


def test_edges_count_once_and_loops_are_dropped():
    graph = large.SparseGraph.from_edges([(0, 1), (1, 0), (1, 1)], 3)
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert float(large.distance(graph, graph).value) == pytest.approx(0.0, abs=0.05)


def test_wrong_input_is_named():
    graph = large.SparseGraph.from_edges([(0, 1)], 2)
    with pytest.raises(InputError, match="solver: use Strict"):
        large.distance(graph, graph, solver=Strict())
    with pytest.raises(InputError, match="graph2: expected a SparseGraph, got Graph"):
        large.distance(graph, Graph.from_edges([(0, 1)], 2))
    with pytest.raises(InputError, match="alpha"):
        large.distance(graph, graph, alpha=2.0)
    with pytest.raises(InputError, match="adjacency: is not symmetric"):
        large.SparseGraph.from_adjacency([[0, 1], [0, 0]])
    with pytest.raises(InputError, match="features: expected one row for each of the 2 nodes"):
        large.SparseGraph.from_adjacency([[0, 1], [1, 0]], np.ones((3, 1)))
    with pytest.raises(InputError, match=r"edges: node numbers must lie in 0\.\.1"):
        large.SparseGraph.from_edges([(0, 2)], 2)
    with pytest.raises(InputError, match=r"edges: .* shape \[m, 2\], got int64 \(2, 3\)"):
        large.SparseGraph.from_edges([[0, 0, 0], [1, 2, 3]], 4)
    with pytest.raises(InputError, match="edges: expected whole numbers"):
        large.SparseGraph.from_edges([[0.2, 1.9]], 3)
    wide = large.SparseGraph.from_edges([(0, 1)], 2, features=np.ones((2, 4)))
    with pytest.raises(InputError, match="feature widths differ"):
        large.distance(graph, wide)
