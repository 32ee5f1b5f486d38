"""Structures and measures against scipy and networkx, on the host and under jit."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from fgw_jax import Graph, structure
from fgw_jax.errors import InputError

SIZE = 16  # one padded shape, so that each structure compiles once


def _random_graphs(rng, count=12):
    graphs = [
        nx.gnp_random_graph(int(n), p, seed=int(s))
        for n, p, s in zip(
            rng.integers(2, SIZE, count),
            rng.uniform(0.05, 0.5, count),
            rng.integers(1000, size=count),
            strict=True,
        )
    ]
    return [nx.to_numpy_array(g, dtype=np.float32) for g in graphs]


def _adjacencies(rng):
    one, none = np.zeros((1, 1), np.float32), np.zeros((5, 5), np.float32)
    return [*_random_graphs(rng), one, none]


def _pad(a, size=SIZE):
    n = len(a)
    return np.pad(a, (0, size - n)), np.arange(size) < n


@pytest.mark.parametrize("name", structure.STRUCTURES)
def test_structure_is_finite_symmetric_and_the_same_padded_and_jitted(name, rng):
    jitted = jax.jit(lambda a, m: structure.compute(name, a, m))
    for a in _adjacencies(rng):
        n = len(a)
        host = structure.compute(name, a)
        assert isinstance(host, np.ndarray) and host.dtype == np.float32
        assert np.isfinite(host).all()
        np.testing.assert_allclose(host, host.T, atol=1e-6)
        padded_a, mask = _pad(a)
        for padded in (structure.compute(name, padded_a, mask), jitted(padded_a, mask)):
            padded = np.asarray(padded)
            np.testing.assert_allclose(padded[:n, :n], host, rtol=1e-4, atol=1e-5)
            assert not padded[n:].any() and not padded[:, n:].any()


@pytest.mark.parametrize("name", structure.MEASURES)
def test_measure_is_a_probability_vector_padded_and_jitted(name, rng):
    jitted = jax.jit(lambda a, m: structure.measure(name, a, m))
    for a in _adjacencies(rng):
        n = len(a)
        host = structure.measure(name, a)
        assert isinstance(host, np.ndarray) and host.dtype == np.float32
        assert (host >= 0).all() and host.sum() == pytest.approx(1, abs=1e-6)
        padded_a, mask = _pad(a)
        for padded in (structure.measure(name, padded_a, mask), jitted(padded_a, mask)):
            np.testing.assert_allclose(padded[:n], host, atol=1e-6)
            assert not np.asarray(padded[n:]).any()


def test_shortest_path_is_exactly_networkx_on_host_and_under_jit(rng):
    jitted = jax.jit(structure.shortest_path)
    for a in _random_graphs(rng):
        n = len(a)
        lengths = dict(nx.all_pairs_shortest_path_length(nx.from_numpy_array(a)))
        longest = max(max(row.values()) for row in lengths.values())
        expected = np.array([[lengths[i].get(j, longest + 1) for j in range(n)] for i in range(n)])
        np.testing.assert_array_equal(structure.shortest_path(a), expected)
        padded_a, mask = _pad(a)
        np.testing.assert_array_equal(jitted(padded_a, mask)[:n, :n], expected)


def test_shortest_path_counts_edges_not_weights_and_takes_a_value_for_unreachable_pairs():
    a = np.zeros((4, 4))
    a[0, 1] = a[1, 0] = 0.25
    a[1, 2] = a[2, 1] = 7.0
    np.testing.assert_array_equal(structure.shortest_path(a, unreachable=500)[0], [0, 1, 2, 500])


@pytest.mark.parametrize("weighted", [False, True])
def test_resistance_equals_networkx_in_every_component(weighted, rng):
    for a in _random_graphs(rng):
        if weighted:
            w = rng.uniform(0.5, 2, a.shape).astype(np.float32)
            a = a * (w + w.T)
        graph = nx.from_numpy_array(a)
        ours = structure.resistance(a)
        largest = 0.0
        for nodes in nx.connected_components(graph):
            nodes = sorted(nodes)
            if len(nodes) == 1:
                continue
            theirs = nx.resistance_distance(
                graph.subgraph(nodes), weight="weight", invert_weight=False
            )
            expected = np.array([[theirs[i][j] for j in nodes] for i in nodes])
            np.testing.assert_allclose(ours[np.ix_(nodes, nodes)], expected, rtol=1e-5, atol=1e-6)
            largest = max(largest, expected.max())
        for i in range(len(a)):
            reached = nx.node_connected_component(graph, i)
            for j in set(range(len(a))) - reached:
                assert ours[i, j] == pytest.approx(largest + 1, rel=1e-5)


def test_edgeless_graphs():
    a = np.zeros((3, 3), np.float32)
    expected = 1 - np.eye(3)
    np.testing.assert_array_equal(structure.shortest_path(a), expected)
    np.testing.assert_array_equal(structure.resistance(a), expected)
    np.testing.assert_allclose(structure.degree(a), np.full(3, 1 / 3), rtol=1e-6)


def test_degree_measure_follows_degrees():
    star = np.zeros((4, 4))
    star[0, 1:] = star[1:, 0] = 1
    np.testing.assert_allclose(structure.degree(star), [3 / 6, 1 / 6, 1 / 6, 1 / 6])


def test_heat_kernel_is_the_matrix_exponential(rng):
    import scipy.linalg

    a = _random_graphs(rng)[3].astype(np.float64)
    laplacian = np.diag(a.sum(1)) - a
    np.testing.assert_allclose(structure.heat(a, time=0.7), scipy.linalg.expm(-0.7 * laplacian))


def test_works_under_vmap_and_keeps_jax_arrays(rng):
    pairs = [_pad(a) for a in _random_graphs(rng, 3)]
    a, m = (jnp.asarray(np.stack(x)) for x in zip(*pairs, strict=True))
    batched = jax.vmap(structure.shortest_path)(a, m)
    assert isinstance(batched, jax.Array)
    for i in range(3):
        np.testing.assert_array_equal(batched[i], structure.shortest_path(*pairs[i]))


def test_double_precision_stays_double(x64):
    a = np.ones((3, 3)) - np.eye(3)
    assert structure.resistance(a).dtype == np.float64
    assert jax.jit(structure.resistance)(a).dtype == jnp.float64


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: structure.compute("nonsense", np.eye(2)), "shortest_path"),
        (lambda: structure.measure("nonsense", np.eye(2)), "uniform"),
        (lambda: structure.shortest_path(np.ones((2, 3))), "square"),
        (lambda: structure.uniform(np.ones((2, 2)), [True]), "mask"),
        (lambda: structure.resistance(np.array([[0, -1.0], [-1.0, 0]])), "negative"),
    ],
)
def test_bad_input_is_named(call, word):
    with pytest.raises(InputError, match=word):
        call()


def test_weak_edges_are_edges():
    ohms = structure.resistance(np.array([[0, 5e-9], [5e-9, 0]]))
    np.testing.assert_allclose(ohms[0, 1], 2e8, rtol=1e-4)


def test_a_structure_that_overflows_is_refused():
    with pytest.raises(InputError, match="structure: heat of this adjacency is not finite"):
        Graph.from_adjacency([[0, -100.0], [-100.0, 0]], structure="heat")


def chain(*conductances):
    return np.diag(conductances, 1) + np.diag(conductances, -1)


@pytest.mark.parametrize(
    "conductances",
    [(1e-18,), (1e17,), (1e-16, 1.0), (1.0, 1e-18, 1e17), (1e-12, 1e12, 3.0, 1e-30), (1e38, 3e38)],
)
def test_resistances_in_series_add_up_whatever_their_range(conductances):
    ohms, nodes = 1 / np.array(conductances), range(len(conductances) + 1)
    expected = np.array([[ohms[min(i, j) : max(i, j)].sum() for j in nodes] for i in nodes])
    np.testing.assert_allclose(structure.resistance(chain(*conductances)), expected, rtol=1e-6)
    graph = Graph.from_adjacency(chain(*conductances), structure="resistance")
    np.testing.assert_allclose(graph.structure, expected, rtol=1e-6)


def test_resistances_are_exact_for_conductances_of_any_range(rng):
    """Grounded at the second node, the potential of the first one at unit current, as fractions."""
    for _ in range(5):
        n = 6
        upper = np.triu(10.0 ** rng.uniform(-8, 8, (n, n)) * (rng.random((n, n)) < 0.7), 1)
        upper += np.diag(10.0 ** rng.uniform(-8, 8, n - 1), 1)
        adjacency = upper + upper.T
        found = structure.resistance(adjacency)
        traced = jax.jit(structure.resistance)(adjacency.astype(np.float32))
        expected = np.zeros((n, n))
        for ground in range(n):
            others = [i for i in range(n) if i != ground]
            exact = [[Fraction(-float(adjacency[i, j])) for j in others] for i in others]
            for i, row in enumerate(others):
                exact[i][i] = sum(Fraction(float(x)) for x in adjacency[row])
            inverse = invert(exact)
            for i, node in enumerate(others):
                expected[node, ground] = float(inverse[i][i])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_allclose(traced, expected, rtol=1e-5)


def invert(matrix):
    """Gauss and Jordan, on fractions."""
    n = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(n))] for i, row in enumerate(matrix)]
    for i in range(n):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [row[n:] for row in rows]


def test_what_a_type_cannot_hold_is_refused():
    with pytest.raises(InputError, match="adjacency: resistances .* not finite in float32"):
        structure.resistance(np.float32(chain(1e-39)))
    with pytest.raises(InputError, match="adjacency: degrees .* too large for the heat kernel"):
        structure.heat(chain(1e30, 1e30))


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1.0, 1e19, 1.5e38])
@pytest.mark.parametrize("name", ["normalized_adjacency", "uniform", "degree"])
def test_what_does_not_depend_on_scale_survives_any(name, scale, rng):
    compute = structure.compute if name in structure.STRUCTURES else structure.measure
    adjacency = np.triu(rng.random((5, 5)), 1)
    adjacency = np.float32(adjacency + adjacency.T)
    expected = compute(name, adjacency)
    scaled = adjacency * np.float32(scale)
    np.testing.assert_allclose(compute(name, scaled), expected, rtol=1e-5)
    traced = jax.jit(lambda a: compute(name, a))(scaled)
    np.testing.assert_allclose(traced, expected, rtol=1e-5)
