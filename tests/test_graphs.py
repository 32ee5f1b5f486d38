"""Graph and Batch: what goes in, what is refused, padding, stacking, and use under jit.

Covers fgw_jax.errors, fgw_jax.fields, fgw_jax.inputs.
"""

import dataclasses
import subprocess
import sys

import jax
import jax.numpy as jnp
import networkx
import numpy as np
import pytest

from fgw_jax import structure as structures
from fgw_jax.errors import InputError
from fgw_jax.graphs import Batch, Graph, check_list
from fgw_jax.inputs import check_key
from tests import helpers

TRIANGLE_WITH_TAIL = [(0, 1), (1, 2), (2, 0), (2, 3)]
FIELDS = [field.name for field in dataclasses.fields(Graph)]


def random_graph(rng, size, **options):
    return helpers.random_graph(rng, size, weighted=True, **options)


def assert_equal(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_from_adjacency_gives_the_paper_s_tuple():
    graph = Graph.from_adjacency([[0, 1], [1, 0]], [[1, 2, 3], [4, 5, 6]])
    assert graph.features.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert graph.structure.tolist() == graph.adjacency.tolist() == [[0, 1], [1, 0]]
    assert graph.weights.tolist() == [0.5, 0.5]
    assert graph.mask.tolist() == [True, True]
    assert (graph.num_nodes, graph.density) == (2, 1)
    assert {getattr(graph, f).dtype for f in FIELDS} == {np.dtype("float32"), np.dtype(bool)}


def test_double_precision_is_the_user_s_choice(x64):
    graph = Graph.from_edges(TRIANGLE_WITH_TAIL, 4)
    assert graph.structure.dtype == graph.weights.dtype == graph.features.dtype == np.float64


def test_structure_and_measure_by_name_and_by_value():
    path = networkx.to_numpy_array(networkx.path_graph(4))
    distances = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    named = Graph.from_adjacency(path, structure="shortest_path", measure="degree")
    given = Graph.from_adjacency(path, structure=distances, measure=[1, 2, 2, 1])
    assert_equal(named, given)
    assert named.weights.sum() == pytest.approx(1)
    for name in structures.STRUCTURES:
        matrix = Graph.from_adjacency(path, structure=name).structure
        assert np.isfinite(matrix).all()
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)


def test_weights_are_normalised_and_zero_weight_is_not_padding():
    graph = Graph.from_edges([(0, 1)], 3, measure=[2, 6, 0])
    assert graph.weights.tolist() == [0.25, 0.75, 0]
    assert graph.num_nodes == 3


def test_a_graph_does_not_change_with_the_arrays_it_was_made_of():
    adjacency = np.array([[0, 1], [1, 0]], np.float32)
    features, weights = np.ones((2, 1), np.float32), np.full(2, 0.5, np.float32)
    graph = Graph.from_adjacency(adjacency, features, measure=weights)
    for array in (adjacency, features, weights):
        array[:] = 7
    assert graph.adjacency.max() == 1
    assert graph.features.max() == 1
    assert graph.weights.max() == 0.5


def test_self_loops_are_dropped_from_the_adjacency_but_kept_in_a_given_structure():
    matrix = [[5, 1], [1, 5]]
    graph = Graph.from_adjacency(matrix, structure=matrix)
    assert graph.adjacency.tolist() == [[0, 1], [1, 0]]
    assert graph.structure.tolist() == matrix
    assert Graph.from_edges([(0, 0), (0, 1)], 2).adjacency.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("measure", sorted(structures.MEASURES))
@pytest.mark.parametrize("structure", sorted(structures.STRUCTURES))
@pytest.mark.parametrize("size", [1, 3])
def test_one_node_and_no_edge_are_legal(size, structure, measure):
    graph = Graph.from_edges([], size, structure=structure, measure=measure)
    assert graph.num_nodes == size
    assert graph.density == 0
    assert graph.weights.sum() == pytest.approx(1)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(graph))
    assert_equal(graph.pad(5).unpad(), graph)


def test_rounding_asymmetry_is_averaged_away():
    matrix = np.array([[0, 1], [1 + 1e-7, 0]])
    adjacency = Graph.from_adjacency(np.float32(matrix)).adjacency
    np.testing.assert_array_equal(adjacency, adjacency.T)


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        (([[0, 1, 0], [1, 0, 0]],), {}, "adjacency: .*square"),
        (([0, 1],), {}, "adjacency: .*square"),
        (([[0, 1], [0, 0]],), {}, "adjacency: not symmetric"),
        (([[0, np.nan], [np.nan, 0]],), {}, "adjacency: NaN"),
        (([[0, np.inf], [np.inf, 0]],), {}, "adjacency: NaN or infinite"),
        (([[0, 1e60], [1e60, 0]],), {}, "adjacency: NaN or infinite"),
        (([[0, 1j], [1j, 0]],), {}, "adjacency: not an array of real numbers"),
        (([["a", "b"], ["b", "a"]],), {}, "adjacency: not an array of real numbers"),
        (([[0, 1], [1]],), {}, "adjacency: not a numeric array"),
        ((np.zeros((0, 0)),), {}, "adjacency: the graph has no node"),
        ((np.zeros((2, 2)), np.ones((3, 1))), {}, "features: .*each of the 2 nodes"),
        ((np.zeros((2, 2)), np.ones((2, 1, 1))), {}, "features: .*each of the 2 nodes"),
        ((np.zeros((2, 2)), [[1], [np.nan]]), {}, "features: NaN"),
        ((np.zeros((2, 2)),), {"measure": [1, -1]}, "measure: negative"),
        ((np.zeros((2, 2)),), {"measure": [0, 0]}, "measure: .*sum to zero"),
        ((np.zeros((2, 2)),), {"measure": [1, 1, 1]}, "measure: expected 2"),
        ((np.zeros((2, 2)),), {"measure": [np.inf, 1]}, "measure: NaN or infinite"),
        ((np.zeros((2, 2)),), {"measure": "even"}, "measure: .*uniform"),
        ((np.zeros((2, 2)),), {"structure": "path"}, "structure: .*shortest_path"),
        ((np.zeros((2, 2)),), {"structure": np.zeros((3, 3))}, "structure: expected a .2, 2."),
        ((np.zeros((2, 2)),), {"structure": [[0, 1], [2, 0]]}, "structure: not symmetric"),
    ],
)
def test_from_adjacency_names_what_is_wrong(arguments, options, named):
    with pytest.raises(InputError, match=named):
        Graph.from_adjacency(*arguments, **options)


def test_from_edges_counts_an_edge_once_and_keeps_weights():
    graph = Graph.from_edges([(0, 1), (1, 0), (0, 1), (1, 2)], 3, edge_weights=[2, 2, 2, 5])
    assert graph.adjacency.tolist() == [[0, 2, 0], [2, 0, 5], [0, 5, 0]]


@pytest.mark.parametrize(
    ("edges", "size", "options", "named"),
    [
        ([(0, 2)], 2, {}, r"edges: .*0\.\.1"),
        ([(-1, 0)], 2, {}, r"edges: .*0\.\.1"),
        ([(0, 1, 2)], 3, {}, "edges: .*m, 2"),
        ([(0, 1), (0,)], 3, {}, "edges: .*m, 2"),
        ([(0.5, 1.0)], 3, {}, "edges: .*whole numbers"),
        ([(0, 1)], 0, {}, "num_nodes: .*at least one"),
        ([(0, 1)], 2, {"edge_weights": [1, 2]}, "edge_weights: expected 1"),
        ([(0, 1)], 2, {"edge_weights": [np.nan]}, "edge_weights: NaN"),
        ([(0, 1), (1, 0)], 2, {"edge_weights": [1, 2]}, "edge_weights: .*twice"),
    ],
)
def test_from_edges_names_what_is_wrong(edges, size, options, named):
    with pytest.raises(InputError, match=named):
        Graph.from_edges(edges, size, **options)


def test_density_agrees_with_networkx(rng):
    for size in (1, 2, 9):
        graph = random_graph(rng, size)
        assert graph.density == pytest.approx(networkx.density(graph.to_networkx()))
        assert graph.pad(12).density == pytest.approx(graph.density)


def test_pad_appends_empty_masked_nodes(rng):
    graph = random_graph(rng, 4, structure="shortest_path", measure="degree")
    padded = graph.pad(6)
    assert padded.mask.tolist() == [True] * 4 + [False] * 2
    assert padded.num_nodes == 4
    for name in FIELDS:
        assert not np.any(getattr(padded, name)[4:])
    assert not padded.structure[:, 4:].any()
    assert_equal(padded.unpad(), graph)
    assert graph.pad(4) is graph
    with pytest.raises(InputError, match="size: cannot pad a graph of 4 nodes to 3"):
        graph.pad(3)


def test_unpad_drops_masked_nodes_wherever_they_are(rng):
    graph = random_graph(rng, 5)
    mask = np.array([True, False, True, True, False])
    kept = dataclasses.replace(graph, mask=mask).unpad()
    np.testing.assert_array_equal(kept.adjacency, graph.adjacency[np.ix_(mask, mask)])
    np.testing.assert_array_equal(kept.features, graph.features[mask])


def test_stack_and_unstack(rng):
    graphs = [random_graph(rng, n, structure="shortest_path") for n in (3, 1, 5)]
    batch = Batch.stack(graphs, size=7)
    assert len(batch) == 3
    assert batch.structure.shape == batch.adjacency.shape == (3, 7, 7)
    assert batch.features.shape == (3, 7, 3)
    assert batch.num_nodes.tolist() == [3, 1, 5]
    np.testing.assert_allclose(batch.density, [g.density for g in graphs], rtol=1e-6)
    for graph, lane, out in zip(graphs, batch, batch.unstack(), strict=True):
        assert_equal(graph.pad(7), lane)
        assert_equal(graph, out)
    assert Batch.stack(graphs).mask.shape == (3, 5)
    assert_equal(batch.pad(9), Batch.stack(graphs, size=9))
    assert isinstance(batch.pad(9), Batch)


def test_batch_indexing(rng):
    batch = Batch.stack([random_graph(rng, n) for n in (3, 1, 5)])
    assert type(batch[1]) is Graph
    assert batch[-1].num_nodes == 5
    for part in (batch[1:], batch[np.array([1, 2])], batch[np.array([False, True, True])]):
        assert isinstance(part, Batch)
        assert part.num_nodes.tolist() == [1, 5]
    with pytest.raises(IndexError):
        batch[3]


def test_stack_shares_the_adjacency_when_it_is_the_structure(rng):
    batch = Batch.stack([random_graph(rng, n) for n in (3, 5)])
    assert batch.structure is batch.adjacency
    mixed = Batch.stack([random_graph(rng, 3), random_graph(rng, 3, structure="shortest_path")])
    assert not np.array_equal(mixed.structure, mixed.adjacency)


def test_lists_are_checked(rng):
    graph, wide = random_graph(rng, 3), random_graph(rng, 3, d=4)
    with pytest.raises(InputError, match="graphs: the list is empty"):
        Batch.stack([])
    with pytest.raises(InputError, match=r"graphs: feature widths differ \(\[3, 4\]\)"):
        Batch.stack([graph, wide])
    with pytest.raises(InputError, match="graphs: item 1 is a ndarray"):
        Batch.stack([graph, np.zeros((3, 3))])
    with pytest.raises(InputError, match="others: item 0 is a Batch"):
        check_list("others", [Batch.stack([graph])])
    with pytest.raises(InputError, match="size: the largest graph has 3 nodes"):
        Batch.stack([graph], size=2)
    # Methods of one graph are not there to fail on many.
    assert not issubclass(Batch, Graph) and not hasattr(Batch, "to_networkx")


def test_a_line_says_what_it_is(rng):
    graph = random_graph(rng, 3)
    assert repr(graph.pad(5)).startswith("Graph(3 nodes padded to 5, ")
    assert repr(Batch.stack([graph])) == "Batch(1 graph padded to 3 nodes, 3 features, float32)"
    seen = []
    jax.vmap(lambda g: (seen.append(repr(g)), g.weights)[1])(Batch.stack([graph]))
    jax.jit(lambda g: (seen.append(repr(g)), g.weights)[1])(graph)
    assert all("\n" not in line and len(line) < 100 for line in [*seen, repr(graph)])
    assert len(seen) == 2


def test_graphs_need_neither_disk_nor_locks_nor_learning():
    """As on a platform without ``fcntl``, in a fresh process."""
    code = (
        "import sys; sys.modules['fcntl'] = None; import fgw_jax; "
        "g = fgw_jax.Graph.from_edges([(0, 1)], 2); fgw_jax.Batch.stack([g]).unstack(); "
        "unwanted = ('flax', 'optax', 'jraph', 'ott', 'sklearn', 'networkx', 'matplotlib', "
        "'fgw_jax.runtime.files', 'fgw_jax.runtime.program_cache'); "
        "print([name for name in unwanted if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_solvers_and_datasets_work_without_locks():
    code = (
        "import sys; sys.modules['fcntl'] = None; import fgw_jax, jax; "
        "g = fgw_jax.Graph.from_edges([(0, 1)], 2); h = fgw_jax.Graph.from_edges([], 2); "
        "data = fgw_jax.Dataset([g, h], [0, 1]); "
        "print(float(fgw_jax.distance(g, h).value) > 0, fgw_jax.mixup(g, h, 0.5).graph.num_nodes, "
        "'fgw_jax.runtime.program_cache' in sys.modules, "
        "len(fgw_jax.augment.FGWMixup(ratio=0.5)(jax.random.key(0), data)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "True 2 False 3"


def test_graphs_pass_through_jit_vmap_and_grad(rng):
    graphs = [random_graph(rng, n) for n in (3, 5)]
    batch = Batch.stack(graphs)

    def energy(graph):
        signal = graph.features.sum(-1) * graph.weights
        return signal @ graph.structure @ signal / graph.num_nodes

    expected = [energy(graph) for graph in graphs]
    np.testing.assert_allclose(jax.jit(jax.vmap(energy))(batch), expected, rtol=1e-5)
    slope = jax.grad(energy, allow_int=True)(graphs[0])
    assert slope.features.shape == graphs[0].features.shape
    assert isinstance(jax.jit(lambda b: b)(batch), Batch)
    assert jax.jit(lambda g: g.num_nodes + g.density)(graphs[0]) == pytest.approx(
        3 + graphs[0].density
    )


@pytest.mark.parametrize("structure", sorted(structures.STRUCTURES))
def test_from_adjacency_under_jit_and_vmap_equals_the_host(rng, structure):
    hosts = [random_graph(rng, 5, structure=structure, measure="degree") for _ in range(3)]
    stacked = np.stack([g.adjacency for g in hosts]), np.stack([g.features for g in hosts])

    def build(adjacency, features):
        return Graph.from_adjacency(adjacency, features, structure=structure, measure="degree")

    made = jax.jit(jax.vmap(build))(*stacked)
    for i, host in enumerate(hosts):
        for name in ("structure", "features", "weights", "adjacency"):
            np.testing.assert_allclose(
                getattr(made, name)[i], getattr(host, name), atol=1e-5, err_msg=name
            )


def test_from_adjacency_under_jit_takes_integers_weights_and_self_loops():
    matrix = jnp.array([[3, 1], [1, 0]])
    made = jax.jit(lambda a, w: Graph.from_adjacency(a, measure=w))(matrix, jnp.array([1, 3]))
    assert_equal(made, Graph.from_adjacency(matrix, measure=[1, 3]))
    assert made.adjacency.dtype == jnp.float32
    zero = jax.jit(lambda w: Graph.from_adjacency(matrix, measure=w).weights)(jnp.zeros(2))
    assert zero.tolist() == [0, 0]
    with pytest.raises(InputError, match="square"):
        jax.jit(Graph.from_adjacency)(jnp.zeros((2, 3)))


def test_stack_inside_jit_equals_the_host(rng):
    graphs = [random_graph(rng, n, structure="shortest_path") for n in (2, 4)]
    stacked = jax.jit(lambda gs: Batch.stack(gs, size=6))(graphs)
    assert isinstance(stacked, Batch)
    assert_equal(stacked, Batch.stack(graphs, size=6))
    padded = jax.jit(lambda g: g.pad(6))(graphs[0])
    assert_equal(padded, graphs[0].pad(6))


def test_jax_arrays_come_in_as_well(rng):
    graph = random_graph(rng, 4)
    again = Graph.from_adjacency(
        jnp.asarray(graph.adjacency), jnp.asarray(graph.features, jnp.bfloat16)
    )
    np.testing.assert_array_equal(again.adjacency, graph.adjacency)
    np.testing.assert_allclose(again.features, graph.features, rtol=1e-2)
    on_device = jax.tree.map(jnp.asarray, graph.pad(6))
    assert on_device.num_nodes == 4
    assert_equal(on_device.unpad(), graph)
    assert_equal(Batch.stack([on_device])[0], graph.pad(6))


@pytest.mark.parametrize("measure", [[3e38, 3e38], [1e-44, 1e-44], [1e-30, 1e-30], [2, 2]])
def test_weights_of_any_scale_are_shares(measure):
    assert Graph.from_edges([(0, 1)], 2, measure=measure).weights.tolist() == [0.5, 0.5]
    if min(measure) > 1e-38:  # smaller ones are zeros to a device
        traced = jax.jit(lambda m: Graph.from_edges([(0, 1)], 2, measure=m).weights)
        assert traced(jnp.array(measure, jnp.float32)).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("scale", [1e-30, 9e-7, 1.0, 1e30, 3e38])
def test_symmetry_is_judged_at_the_matrix_s_own_scale(scale):
    for matrix in ([[0, scale], [0, 0]], [[0, scale], [0.9 * scale, 0]]):
        with pytest.raises(InputError, match="adjacency: not symmetric"):
            Graph.from_adjacency(matrix)
        with pytest.raises(InputError, match="structure: not symmetric"):
            Graph.from_edges([(0, 1)], 2, structure=matrix)
    nearly = Graph.from_adjacency([[0, scale], [scale * (1 - 1e-6), 0]]).adjacency
    assert nearly[0, 1] == nearly[1, 0] == pytest.approx(scale)


@pytest.mark.parametrize("number", [2.0, "2", True, None])
def test_numbers_of_nodes_are_whole(number):
    for call in (
        lambda: Graph.from_edges([(0, 1)], number),
        lambda: Graph.from_edges([(0, 1)], 2).pad(number),
    ):
        with pytest.raises(InputError, match="must be a whole number"):
            call()
    if number is not None:
        with pytest.raises(InputError, match="size: .* must be a whole number"):
            Batch.stack([Graph.from_edges([(0, 1)], 2)], number)
    assert Graph.from_edges([(0, 1)], np.int64(2)).pad(np.int32(3)).mask.shape == (3,)


def test_a_key_is_a_random_key():
    for key in (jax.random.key(0), jax.random.PRNGKey(0), np.asarray(jax.random.PRNGKey(0))):
        check_key(key)
        check_key(key[None], several=True)
        with pytest.raises(InputError, match="key: expected one key"):
            check_key(key[None])
        jax.jit(lambda k: check_key(k))(key)
    for wrong in (0, jnp.asarray(3), np.int64(3), jnp.arange(2), jnp.zeros(2), np.uint32(3)):
        with pytest.raises(InputError, match="key: expected a random key"):
            check_key(wrong)
