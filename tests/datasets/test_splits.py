"""Protocols: disjoint, stratified, complete, repeatable."""

import subprocess
import sys

import numpy as np
import pytest

from fgw_jax import Graph
from fgw_jax.datasets import Dataset, Split, splits
from fgw_jax.errors import InputError

LABELS = np.repeat([0, 1, 2], [120, 60, 25])[np.random.default_rng(3).permutation(205)]


def _parts(split):
    return split.train, split.validation, split.test


@pytest.mark.parametrize("protocol", splits.PROTOCOLS)
@pytest.mark.parametrize("folds", [5, 10])
def test_every_split_covers_all_graphs_once_and_tests_stratified(protocol, folds):
    made = splits.PROTOCOLS[protocol](LABELS, folds=folds, seed=1)
    assert len(made) == folds
    share = np.bincount(LABELS) / len(LABELS)
    for split in made:
        np.testing.assert_array_equal(
            np.sort(np.concatenate(_parts(split))), np.arange(len(LABELS))
        )
        assert len(split.test) == pytest.approx(len(LABELS) / folds, abs=1.01)
        assert len(split.validation) == pytest.approx(
            len(LABELS) * (1 - 1 / folds) / folds, abs=1.01
        )
        counts = np.bincount(LABELS[split.test], minlength=3)
        np.testing.assert_allclose(counts, share * len(split.test), atol=1.01)


def test_holdout_tests_on_one_set_and_validates_on_each_of_the_rest_once():
    made = splits.holdout(LABELS)
    for split in made[1:]:
        np.testing.assert_array_equal(split.test, made[0].test)
    validated = np.sort(np.concatenate([s.validation for s in made]))
    rest = np.setdiff1d(np.arange(len(LABELS)), made[0].test)
    np.testing.assert_array_equal(validated, rest)


def test_rotating_tests_every_graph_once():
    tested = np.sort(np.concatenate([s.test for s in splits.rotating(LABELS)]))
    np.testing.assert_array_equal(tested, np.arange(len(LABELS)))


@pytest.mark.parametrize("protocol", splits.PROTOCOLS)
def test_the_seed_decides(protocol):
    make = splits.PROTOCOLS[protocol]
    for first, second in zip(make(LABELS, seed=5), make(LABELS, seed=5), strict=True):
        for a, b in zip(_parts(first), _parts(second), strict=True):
            np.testing.assert_array_equal(a, b)
    assert not np.array_equal(make(LABELS, seed=5)[0].test, make(LABELS, seed=6)[0].test)


@pytest.mark.slow
def test_another_process_makes_the_same_split():
    code = (
        "import numpy as np; from fgw_jax.datasets import splits;"
        "labels = np.arange(60) % 3;"
        "print(*(int(s.validation @ np.arange(len(s.validation))) for f in"
        " (splits.holdout, splits.rotating) for s in f(labels, folds=5, seed=2)))"
    )
    labels = np.arange(60) % 3
    ours = [
        int(s.validation @ np.arange(len(s.validation)))
        for f in (splits.holdout, splits.rotating)
        for s in f(labels, folds=5, seed=2)
    ]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [int(word) for word in out.stdout.split()] == ours


def _small_dataset(split=None):
    graphs = [Graph.from_edges([(0, 1)], 2) for _ in range(6)]
    return Dataset(graphs, [0, 1] * 3, split=split)


def test_scaffold_is_the_published_split():
    published = Split(np.array([0, 1, 2]), np.array([3]), np.array([4, 5]))
    assert splits.scaffold(_small_dataset(published)) is published
    with pytest.raises(InputError, match="published"):
        splits.scaffold(_small_dataset())
    # a subset renumbers its graphs, so the published positions no longer hold
    with pytest.raises(InputError, match="published"):
        splits.scaffold(_small_dataset(published)[[0, 1, 2]])


def test_a_dataset_splits_as_its_labels_do():
    data = _small_dataset()
    np.testing.assert_array_equal(
        splits.rotating(data, folds=3)[0].test, splits.rotating(data.labels, folds=3)[0].test
    )


@pytest.mark.parametrize("protocol", splits.PROTOCOLS)
@pytest.mark.parametrize(
    ("labels", "folds", "word"),
    [
        ([0, 1] * 4, 5, "fewer folds"),
        ([0, 1] * 4, 1, "at least 2"),
        (np.eye(2)[[0, 1] * 10], 2, "soft"),
        ([0.5] * 20, 2, "class indices"),
    ],
)
def test_bad_requests_are_named(protocol, labels, folds, word):
    with pytest.raises(InputError, match=word):
        splits.PROTOCOLS[protocol](labels, folds=folds)


def test_holdout_says_when_too_few_remain():
    with pytest.raises(InputError, match="remain"):
        splits.holdout([0, 1] * 10, folds=10)
