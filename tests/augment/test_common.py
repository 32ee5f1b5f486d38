"""What every augmentation promises: one row a method, a new one joins METHODS and is tested.

Covers fgw_jax.augment.base, fgw_jax.augment.drawing, fgw_jax.augment.fgw_mixup,
fgw_jax.augment.rebuild, fgw_jax.augment.vanilla.
"""

import dataclasses

import jax
import numpy as np
import pytest

from fgw_jax import Dataset, Graph, augment
from fgw_jax.augment import drawing
from fgw_jax.errors import InputError
from fgw_jax.graphs import Batch

#: methods that change graphs in place, drawn anew at every training step
PER_STEP = {"dropedge", "dropnode", "attrmask", "subgraph"}
#: methods whose call leaves the graphs alone
IDENTITY = {"vanilla", "mmixup"}
#: methods that append graphs mixed across classes
MIXING = set(augment.METHODS) - PER_STEP - IDENTITY
#: of those, methods whose graphs have 0/1 edges, by a threshold or by chance
DECODED = MIXING - {"ifmixup"}

NUM_GRAPHS = 12


def random_graphs(rng, count=NUM_GRAPHS, low=5, high=9, structure="adjacency"):
    """Connected graphs of one padded size, so that each solver compiles once."""
    graphs = []
    for _ in range(count):
        n = int(rng.integers(low, high))
        upper = np.triu(rng.random((n, n)) < 0.4, 1)
        upper[np.arange(n - 1), np.arange(1, n)] = True
        features = np.eye(3)[rng.integers(3, size=n)]
        graphs.append(Graph.from_adjacency(upper | upper.T, features, structure=structure))
    return graphs


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return Dataset(random_graphs(rng), np.arange(NUM_GRAPHS) % 3, num_classes=3)


@pytest.fixture(scope="module")
def results(data):
    """Each method's result, made once."""
    made = {}

    def result(name, seed=0):
        if (name, seed) not in made:
            made[name, seed] = method(name)(jax.random.key(seed), data)
        return made[name, seed]

    return result


@pytest.fixture(scope="module")
def step(data):
    """Each method's hook inside the step, compiled once for batches of one shape."""
    hooks = {name: jax.jit(method(name).on_graphs) for name in augment.METHODS}

    def run(name, seed, batch):
        return jax.tree.map(np.asarray, hooks[name](jax.random.key(seed), batch))

    return run


def method(name):
    fields = {"ratio": 0.5} if name in MIXING else {}
    return augment.make(name, **fields)


every = pytest.mark.parametrize("name", augment.METHODS)
mixing = pytest.mark.parametrize("name", sorted(MIXING))
per_step = pytest.mark.parametrize("name", sorted(PER_STEP))


@every
def test_labels_are_rows_on_the_simplex(name, results):
    out = results(name)
    assert out.labels.shape == (len(out), 3)
    assert (out.labels >= 0).all()
    np.testing.assert_allclose(out.labels.sum(1), 1, atol=1e-6)


@every
def test_graphs_are_symmetric_finite_and_without_loops(name, results):
    for graph in results(name).graphs:
        np.testing.assert_array_equal(graph.adjacency, graph.adjacency.T)
        np.testing.assert_allclose(graph.structure, graph.structure.T, atol=1e-6)
        assert not np.diagonal(graph.adjacency).any()
        assert all(np.isfinite(x).all() for x in (graph.structure, graph.features))
        assert graph.adjacency.dtype == graph.features.dtype == graph.weights.dtype == np.float32
        assert graph.num_nodes == len(graph.mask) >= 1
        np.testing.assert_allclose(graph.weights.sum(), 1, atol=1e-6)


@every
def test_originals_stay_in_front_and_new_graphs_name_their_parents(name, results, data):
    out = results(name)
    if name in PER_STEP:
        assert len(out) == len(data)
        assert [origin.parents for origin in out.origins] == [(i,) for i in range(len(data))]
        np.testing.assert_array_equal(out.labels, data.soft_labels())
        return
    assert len(out) == (round(1.5 * len(data)) if name in MIXING else len(data))
    assert all(a is b for a, b in zip(out.graphs, data.graphs, strict=False))
    assert out.origins[: len(data)] == (None,) * len(data)
    rows = data.soft_labels()
    for origin, label in zip(out.origins[len(data) :], out.labels[len(data) :], strict=True):
        assert origin.method == method(name).name
        assert 0 <= origin.lam <= 1
        if origin.parents:  # G-Mixup has classes for parents
            first, second = origin.parents
            assert data.labels[first] != data.labels[second]
            np.testing.assert_allclose(
                label, origin.lam * rows[first] + (1 - origin.lam) * rows[second], atol=1e-6
            )


@mixing
def test_every_pair_of_classes_is_mixed_evenly(name, results, data):
    new = results(name).labels[len(data) :]
    # Six graphs of three pairs: each class has no part in two of them (or more, if lam is 0 or 1).
    assert ((new == 0).sum(0) >= 2).all()


@every
def test_the_same_key_gives_the_same_bits_and_another_key_others(name, results, data):
    again = method(name)(jax.random.key(0), data)
    assert again.fingerprint() == results(name).fingerprint()
    assert again.origins == results(name).origins
    other = results(name, seed=1)
    assert (other.fingerprint() == again.fingerprint()) == (name in IDENTITY)


@every
def test_the_training_set_itself_is_left_as_it_was(name, results, data):
    rng = np.random.default_rng(0)
    fresh = Dataset(random_graphs(rng), np.arange(NUM_GRAPHS) % 3, num_classes=3)
    results(name)
    assert data.fingerprint() == fresh.fingerprint()


@every
def test_graphs_outside_the_training_set_are_never_read(name, results, data):
    # The training graphs lie between poisoned ones; any look at those would spread NaN.
    bad = dataclasses.replace(
        data.graphs[0],
        adjacency=np.full_like(data.graphs[0].adjacency, np.nan),
        structure=np.full_like(data.graphs[0].structure, np.nan),
        features=np.full_like(data.graphs[0].features, np.nan),
    )
    graphs, labels = [], []
    for graph, label in data:
        graphs += [graph, bad]
        labels += [label, (label + 1) % 3]
    whole = Dataset(graphs, labels, num_classes=3)
    train = whole[np.arange(0, 2 * len(data), 2)]
    out = method(name)(jax.random.key(0), train)
    assert out.fingerprint() == results(name).fingerprint()


@pytest.mark.parametrize("name", sorted(DECODED))
def test_made_graphs_have_whole_edges_and_no_isolated_nodes(name, results, data):
    for graph in results(name).graphs[len(data) :]:
        assert set(np.unique(graph.adjacency)) <= {0, 1}
        assert graph.adjacency.any(1).all()
        np.testing.assert_array_equal(graph.structure, graph.adjacency)


@every
def test_padded_graphs_are_read_without_their_padding(name, data, results):
    padded = Dataset([g.pad(8) for g in data.graphs], data.labels, num_classes=3)
    out = method(name)(jax.random.key(0), padded)
    for a, b in zip(out.graphs, results(name).graphs, strict=True):
        np.testing.assert_allclose(a.unpad().features, b.features, atol=1e-5)
        np.testing.assert_allclose(a.unpad().adjacency, b.adjacency, atol=1e-5)


@every
def test_soft_labels_go_in_as_well(name, data):
    soft = data.replace(labels=data.soft_labels())
    out = method(name)(jax.random.key(0), soft)
    np.testing.assert_allclose(out.labels.sum(1), 1, atol=1e-6)


@every
def test_single_nodes_and_edgeless_graphs(name):
    # padded like the other graphs of this file, so that nothing compiles again
    sizes = (1, 8, 7, 1) * 3
    graphs = [Graph.from_edges([], n, np.ones((n, 3))).pad(8) for n in sizes]
    out = method(name)(jax.random.key(0), Dataset(graphs, np.arange(NUM_GRAPHS) % 3))
    for graph in out.graphs:
        assert graph.num_nodes >= 1
        assert not graph.adjacency.any()
        assert np.isfinite(graph.features).all()
        np.testing.assert_allclose(graph.weights.sum(), 1, atol=1e-6)


@every
def test_one_class_alone_is_refused_only_where_mixing_needs_two(name, data):
    alone = data.replace(labels=np.zeros(len(data), int), num_classes=3)
    if name in MIXING:
        with pytest.raises(InputError, match="dataset: .*class"):
            method(name)(jax.random.key(0), alone)
    else:
        assert len(method(name)(jax.random.key(0), alone)) == len(data)


@mixing
def test_ratio_zero_adds_nothing_and_a_negative_one_is_refused(name, data):
    out = augment.make(name, ratio=0)(jax.random.key(0), data)
    assert len(out) == len(data)
    assert out.labels.shape == (len(data), 3)
    with pytest.raises(InputError, match="ratio"):
        augment.make(name, ratio=-0.1)
    with pytest.raises(InputError, match="beta_k"):
        augment.make(name, beta_k=0)


@every
def test_methods_are_values_that_a_compiled_step_can_close_over(name):
    assert hash(method(name)) == hash(method(name))
    assert method(name) == method(name)


@every
def test_hooks_inside_the_step_keep_shapes_and_padding(name, data, step):
    batch = Batch.stack(data.graphs, 10)
    out = step(name, 0, batch)
    for field in dataclasses.fields(Batch):
        old, new = getattr(batch, field.name), getattr(out, field.name)
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
        if name not in PER_STEP:
            np.testing.assert_array_equal(old, new)
    assert not (out.mask & ~batch.mask).any()
    assert out.mask.any(1).all()
    outside = ~out.mask
    for values in (out.weights, out.features, out.adjacency, out.structure):
        assert not values[outside].any()
    np.testing.assert_array_equal(out.adjacency, np.swapaxes(out.adjacency, 1, 2))
    np.testing.assert_allclose(out.weights.sum(1), 1, atol=1e-6)


@per_step
def test_the_loop_gets_the_originals_and_draws_anew_at_every_step(name, data, step):
    made = method(name)
    assert made.per_step
    prepared = made.prepare(jax.random.key(0), data)
    assert prepared.graphs == data.graphs
    assert prepared.labels.shape == (len(data), 3)
    batch = Batch.stack(data.graphs, 10)
    first, again, other = (step(name, seed, batch) for seed in (0, 0, 1))
    same = jax.tree.map(np.array_equal, first, again)
    assert all(jax.tree.leaves(same))
    assert not all(jax.tree.leaves(jax.tree.map(np.array_equal, first, other)))


@per_step
def test_graphs_without_real_nodes_stay_empty(name, data, step):
    batch = Batch.stack(data.graphs, 10)
    real = np.arange(len(batch)) < 2
    empty = jax.tree.map(
        lambda x: np.where(real.reshape(-1, *[1] * (x.ndim - 1)), x, 0).astype(x.dtype), batch
    )
    out = step(name, 0, empty)
    assert out.mask[:2].any(1).all()
    for values in jax.tree.leaves(out):
        assert not values[2:].any()
        assert np.isfinite(values.astype(float)).all()


@per_step
def test_other_structures_are_computed_anew_on_the_host(name):
    rng = np.random.default_rng(1)
    data = Dataset(random_graphs(rng, 4, structure="shortest_path"), [0, 1, 0, 1])
    for graph in method(name)(jax.random.key(0), data).graphs:
        expected = Graph.from_adjacency(graph.adjacency, structure="shortest_path").structure
        np.testing.assert_array_equal(graph.structure, expected)


@pytest.mark.parametrize("name", ["dropedge", "smixup", "geomix", "gmixup"])
def test_cliques_do_not_hide_the_structure_of_the_others(name):
    """Between all nodes of a clique there is one step: adjacency and shortest path are the same."""
    cliques = [Graph.from_adjacency(1 - np.eye(6), np.eye(6)[:, :3]) for _ in range(60)]
    paths = [Graph.from_edges([(i, i + 1) for i in range(5)], 6, np.eye(6)[:, :3])] * 2
    data = Dataset(
        [
            Graph.from_adjacency(g.adjacency, g.features, structure="shortest_path")
            for g in (*cliques, *paths)
        ],
        [0] * 60 + [1] * 2,
    )
    made = method(name)(jax.random.key(0), data).graphs
    for graph in made if name in PER_STEP else made[len(data) :]:
        expected = Graph.from_adjacency(graph.adjacency, structure="shortest_path").structure
        np.testing.assert_array_equal(graph.structure, expected)


@pytest.mark.parametrize("structure", ["adjacency", "shortest_path", "resistance"])
@pytest.mark.parametrize("measure", ["uniform", "degree"])
@pytest.mark.parametrize("name", sorted(DECODED - {"gmixup_gw", "gmixup_gw_star", "gmixup_fgw"}))
def test_new_graphs_get_structure_and_measure_of_the_others(name, structure, measure, data):
    names = {"structure": structure, "measure": measure}
    graphs = [Graph.from_adjacency(g.adjacency, g.features, **names) for g in data.graphs]
    out = method(name)(jax.random.key(0), Dataset(graphs, data.labels, num_classes=3))
    assert (out.structure, out.measure) == (structure, measure)
    for graph in out.graphs[len(data) :]:
        expected = Graph.from_adjacency(graph.adjacency, **names)
        np.testing.assert_array_equal(graph.structure, expected.structure)
        np.testing.assert_array_equal(graph.weights, expected.weights)


def test_a_structure_may_be_named_where_the_graphs_do_not_say():
    rng = np.random.default_rng(1)
    own = [dataclasses.replace(g) for g in random_graphs(rng, 4, structure="shortest_path")]
    data = Dataset(own, [0, 1, 0, 1])
    assert data.structure is None
    for change in (augment.DropEdge(), augment.FGWMixup(ratio=0.5)):
        with pytest.raises(InputError, match="structure: the dataset does not say.*replace"):
            change(jax.random.key(0), data)
        out = change(jax.random.key(0), data.replace(structure="shortest_path"))
        assert out.structure == "shortest_path"
    out = augment.FGWMixup(ratio=0.5, structure="shortest_path")(jax.random.key(0), data)
    expected = Graph.from_adjacency(out.graphs[-1].adjacency, structure="shortest_path")
    np.testing.assert_array_equal(out.graphs[-1].structure, expected.structure)


@pytest.mark.parametrize("pairs", ["cross", "within", "any"])
@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_pairs_are_shared_evenly_and_the_remainder_at_random(pairs, count, data):
    labels = data.labels
    extra = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        first, second = drawing.draw_pairs(rng, data, count, pairs)
        assert first.shape == second.shape == (count,)
        assert pairs == "cross" or (first != second).all()
        if pairs == "any":
            continue
        assert ((labels[first] == labels[second]) == (pairs == "within")).all()
        groups = labels[first] + labels[second]  # 0, 2, 4 within; 1, 2, 3 across three classes
        groups = groups // 2 if pairs == "within" else groups - 1
        counts = np.bincount(groups, minlength=3)
        assert counts.max() - counts.min() <= 1
        extra |= set(np.flatnonzero(counts > count // 3).tolist())
    if pairs != "any" and count % 3:
        assert extra == {0, 1, 2}


@every
def test_fields_are_given_by_name(name, data):
    with pytest.raises(TypeError, match="positional"):
        type(method(name))(2.0)


def test_features_may_change_under_any_structure():
    rng = np.random.default_rng(1)
    own = [
        dataclasses.replace(g, structure=(g.adjacency * 7).astype(np.float32))
        for g in random_graphs(rng, 4)
    ]
    out = augment.make("attrmask")(jax.random.key(0), Dataset(own, [0, 1, 0, 1]))
    for before, after in zip(own, out.graphs, strict=True):
        np.testing.assert_array_equal(before.structure, after.structure)


@every
def test_a_number_is_no_key(name, data):
    if name in IDENTITY:
        assert len(method(name)(0, data)) == len(data)
        return
    with pytest.raises(InputError, match=r"key: expected a random key, got int; .*jax.random.key"):
        method(name)(0, data)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"structure": "shortest_pth"}, "structure: unknown name 'shortest_pth'"),
        ({"measure": "degre"}, "measure: unknown name 'degre'"),
        ({"ratio": np.inf}, "ratio: inf new graphs"),
        ({"alpha": np.nan}, "alpha: nan is not a share"),
    ],
)
def test_fields_of_fgwmixup_are_refused_at_once(fields, said):
    with pytest.raises(InputError, match=said):
        augment.FGWMixup(**fields)


def test_fgwmixup_refuses_another_structure_than_the_graphs_have():
    rng = np.random.default_rng(1)
    data = Dataset(random_graphs(rng, 4, structure="shortest_path"), [0, 1, 0, 1])
    for wrong in ("adjacency", "resistance"):
        with pytest.raises(InputError, match=f"structure: '{wrong}' is not what the graphs carry"):
            augment.FGWMixup(structure=wrong, ratio=0.5)(jax.random.key(0), data)


def test_a_structure_that_does_not_follow_from_the_adjacency_is_refused():
    rng = np.random.default_rng(1)
    graphs = [
        dataclasses.replace(g, structure=(g.adjacency * 7).astype(np.float32))
        for g in random_graphs(rng, 4)
    ]
    with pytest.raises(InputError, match="structure"):
        augment.DropEdge()(jax.random.key(0), Dataset(graphs, [0, 1, 0, 1]))
