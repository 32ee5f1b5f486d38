"""Dataset: what goes in, what comes out, files and fingerprints.

Covers fgw_jax.datasets.npz.
"""

import dataclasses
import json

import numpy as np
import pytest

from fgw_jax import Graph
from fgw_jax.datasets import Dataset, Origin, Split
from fgw_jax.errors import DataError, InputError
from tests.helpers import random_graph

FIELDS = ("structure", "features", "weights", "adjacency", "mask")


def _graphs(rng, sizes=(1, 4, 3, 6), width=2):
    return [random_graph(rng, n, width, 0.5, structure="shortest_path") for n in sizes]


@pytest.fixture
def data(rng):
    return Dataset(_graphs(rng), [0, 2, 1, 0], name="four")


def _assert_same(first, second):
    assert len(first) == len(second)
    for a, b in zip(first.graphs, second.graphs, strict=True):
        for field in FIELDS:
            x, y = getattr(a, field), getattr(b, field)
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.labels.dtype == second.labels.dtype
    assert (first.name, first.num_classes) == (second.name, second.num_classes)
    assert first.origins == second.origins


def test_items_and_subsets(data):
    graph, label = data[1]
    assert graph is data.graphs[1] and label == 2
    assert data[-1][1] == 0 and data[np.int64(2)][1] == 1
    for index in (
        [3, 1],
        (3, 1),
        np.array([3, 1]),
        slice(3, 0, -2),
    ):
        part = data[index]
        assert part.graphs == (data.graphs[3], data.graphs[1])
        assert part.labels.tolist() == [0, 2]
        assert part.num_classes == 3 and part.name == "four"
    assert data[np.array([True, False, True, False])].labels.tolist() == [0, 1]
    assert [label for _, label in data] == [0, 2, 1, 0]
    with pytest.raises(IndexError):
        data[4]
    with pytest.raises(InputError, match="no graph"):
        data[[]]


def test_it_is_not_changed_in_place(data):
    with pytest.raises(AttributeError):
        data.name = "other"
    renamed = data.replace(name="other", labels=[1, 1, 1, 1])
    assert renamed.name == "other" and data.name == "four"
    assert data.labels.tolist() == [0, 2, 1, 0]


def test_labels_hard_soft_and_vectors(rng):
    graphs = _graphs(rng)
    hard = Dataset(graphs, [0, 1, 1, 0], num_classes=3)
    assert hard.soft_labels().shape == (4, 3)
    np.testing.assert_array_equal(hard.soft_labels().argmax(1), [0, 1, 1, 0])
    rows = np.array([[0.5, 0.5], [1, 0], [0, 1], [0.2, 0.8]])
    soft = Dataset(graphs, rows)
    assert soft.num_classes == 2
    np.testing.assert_allclose(soft.soft_labels(), rows, rtol=1e-6)
    np.testing.assert_allclose(soft[3][1], [0.2, 0.8])
    targets = Dataset(graphs, [[-3.0], [1e6], [0.1], [2.0]])
    assert targets.num_classes == 1 and targets.labels[1, 0] == 1e6
    assert Dataset(graphs, np.array([True, False, True, True])).labels.tolist() == [1, 0, 1, 1]


def test_concatenate_keeps_order_and_origins(rng, data):
    made = Dataset(
        _graphs(rng, (2, 2)),
        [[0.3, 0.7, 0.0], [1, 0, 0]],
        origins=[Origin("mixup", (0, 1), 0.3), Origin("mixup", (2, 3), 0.9)],
    )
    both = data.concatenate(made)
    assert len(both) == 6 and both.labels.shape == (6, 3) and both.name == "four"
    np.testing.assert_allclose(both.labels[:4], data.soft_labels())
    assert both.origins == (None,) * 4 + made.origins
    assert both[[4]].origins == made.origins[:1]
    hard = data.concatenate(data, data)
    assert hard.labels.tolist() == [0, 2, 1, 0] * 3
    with pytest.raises(InputError, match="num_classes"):
        data.concatenate(Dataset(_graphs(rng), [0, 1, 0, 1]))
    with pytest.raises(InputError, match="width"):
        data.concatenate(Dataset(_graphs(rng, width=5), [0, 1, 2, 1]))


@pytest.mark.parametrize("soft", [False, True])
def test_save_and_load_give_the_same_dataset(tmp_path, rng, soft):
    graphs = [*_graphs(rng), _graphs(rng, (3,))[0].pad(5)]
    labels = np.eye(3)[[0, 1, 2, 0, 1]] * 0.9 if soft else [0, 1, 2, 0, 1]
    data = Dataset(
        graphs,
        labels,
        name="näme",
        num_classes=3,
        origins=[None, None, None, None, Origin("m", (0, 3), 0.1 + 0.2)],
        split=Split(np.array([0, 1]), np.array([2]), np.array([3, 4])),
    )
    path = tmp_path / "data.npz"
    data.save(path)
    again = Dataset.load(path)
    _assert_same(data, again)
    assert again.fingerprint() == data.fingerprint()
    np.testing.assert_array_equal(again.split.test, [3, 4])
    assert [p.name for p in tmp_path.iterdir()] == ["data.npz"]


def test_files_that_cannot_be_trusted(tmp_path, data):
    path = tmp_path / "data.npz"
    with pytest.raises(DataError, match="no such file"):
        Dataset.load(path)
    data.save(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="damaged"):
        Dataset.load(path)
    np.savez(path, meta=np.array([{"pickled": "object"}], dtype=object))
    with pytest.raises(DataError, match=r"data\.npz"):
        Dataset.load(path)
    np.savez(path, meta=np.array('{"format": "another"}'))
    with pytest.raises(DataError, match="format"):
        Dataset.load(path)
    data.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **(arrays | {"structure": arrays["structure"][:-1]}))
    with pytest.raises(DataError, match="structure"):
        Dataset.load(path)


def test_fingerprint_is_of_the_content_only(data):
    base = data.fingerprint()
    assert data.replace(name="x").fingerprint() == base
    padded = data.replace(graphs=[g.pad(8) for g in data.graphs])
    assert padded.fingerprint() == base
    assert data.replace(labels=[0, 2, 1, 1]).fingerprint() != base
    assert data.replace(num_classes=4).fingerprint() != base
    assert data[[1, 0, 2, 3]].fingerprint() != base
    moved = [
        Graph(g.structure, g.features + 1e-3, g.weights, g.adjacency, g.mask) for g in data.graphs
    ]
    assert data.replace(graphs=moved).fingerprint() != base


@pytest.mark.parametrize(
    ("labels", "options", "word"),
    [
        ([0, 1, 2], {}, "labels"),
        ([0, 1, 2, -1], {}, "negative"),
        ([0.5, 1.0, 2.0, 0.0], {}, "astype"),
        ([0, 1, 2, 3], {"num_classes": 3}, "num_classes"),
        ([[0, 1]] * 4, {"num_classes": 3}, "columns"),
        ([[np.nan, 1]] * 4, {}, "finite"),
        (["a", "b", "c", "d"], {}, "integers"),
        ([0, 1, 0, 1], {"origins": [None]}, "origins"),
        (
            [0, 1, 0, 1],
            {"split": Split(np.array([0]), np.array([1]), np.array([4]))},
            "split: names graph 4",
        ),
    ],
)
def test_bad_labels_are_named(rng, labels, options, word):
    with pytest.raises(InputError, match=word):
        Dataset(_graphs(rng), labels, **options)


def test_bad_graphs_are_named(rng):
    with pytest.raises(InputError, match="empty"):
        Dataset([], [])
    with pytest.raises(InputError, match="entry 1"):
        Dataset([_graphs(rng)[0], np.eye(3)], [0, 1])
    with pytest.raises(InputError, match="widths"):
        Dataset([*_graphs(rng, (2,)), *_graphs(rng, (2,), width=3)], [0, 1])


@pytest.mark.parametrize(
    "parts", [([0, 1], [1], [2]), ([0, 0], [1], [2]), ([0], [], [1]), ([-1], [0], [1])]
)
def test_a_split_is_disjoint_or_refused(parts):
    with pytest.raises(InputError):
        Split(*(np.array(p, dtype=int) for p in parts))


def test_names_of_structure_and_measure_travel_along(tmp_path, rng):
    data = Dataset(_graphs(rng), [0, 2, 1, 0])
    assert (data.structure, data.measure) == ("shortest_path", "uniform")
    data.save(tmp_path / "data.npz")
    for other in (
        data[1:],
        data.concatenate(data),
        data.replace(labels=[0, 0, 1, 1]),
        Dataset.load(tmp_path / "data.npz"),
        Dataset(Dataset.load(tmp_path / "data.npz").graphs, data.labels),
        Dataset([graph.pad(12) for graph in data.graphs], data.labels),
        Dataset([graph.pad(12).unpad() for graph in data.graphs], data.labels),
    ):
        assert (other.structure, other.measure) == ("shortest_path", "uniform")
    assert "structure='shortest_path'" in repr(data) and "\n" not in repr(data)
    plain = [Graph.from_adjacency(g.adjacency, measure=g.weights) for g in data.graphs]
    other = data.replace(graphs=plain)
    assert (other.structure, other.measure) == ("adjacency", None)
    changed = [dataclasses.replace(g, structure=2 * g.structure) for g in data.graphs]
    assert data.replace(graphs=changed).structure is None
    assert Dataset(changed, data.labels, structure="heat").structure == "heat"
    with pytest.raises(InputError, match="structure: 'heat' is not what the graphs carry"):
        data.replace(structure="heat")
    with pytest.raises(InputError, match="measure: unknown name 'dgree'"):
        data.replace(measure="dgree")


def test_files_of_earlier_versions_are_read(tmp_path, data):
    """As written before datasets carried the names of their structure and measure."""
    data.save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as file:
        arrays = dict(file)
    meta = json.loads(str(arrays["meta"]))
    del meta["structure"], meta["measure"]
    np.savez_compressed(tmp_path / "old.npz", **(arrays | {"meta": np.array(json.dumps(meta))}))
    old = Dataset.load(tmp_path / "old.npz")
    assert old.structure is None and old.fingerprint() == data.fingerprint()
