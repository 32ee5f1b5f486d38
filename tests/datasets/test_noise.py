"""Label corruption: how many, to what, where, and repeatable."""

import numpy as np
import pytest

from fgw_jax import Graph
from fgw_jax.datasets import Dataset, corrupt_labels, splits
from fgw_jax.datasets.noise import corrupt
from fgw_jax.errors import InputError


@pytest.fixture
def data():
    graph = Graph.from_edges([(0, 1)], 2)
    return Dataset([graph] * 300, np.arange(300) % 3)


@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.4, 0.6, 1.0])
def test_exactly_the_ratio_is_switched_and_always_to_another_class(ratio):
    labels = np.arange(500) % 4
    noisy = corrupt(labels, ratio, num_classes=4, seed=1)
    assert (noisy != labels).sum() == round(ratio * 500)
    assert set(noisy) <= set(range(4))
    np.testing.assert_array_equal(labels, np.arange(500) % 4)


def test_every_other_class_is_as_likely():
    noisy = corrupt(np.zeros(9000, int), 1.0, num_classes=4)
    np.testing.assert_allclose(np.bincount(noisy, minlength=4)[1:] / 9000, 1 / 3, atol=0.03)


def test_validation_and_test_stay_clean_unless_asked(data):
    split = splits.holdout(data, folds=5)[0]
    noisy = corrupt_labels(data, split, 0.4, seed=7)
    changed = np.flatnonzero(noisy.labels != data.labels)
    assert set(changed) <= set(split.train)
    assert len(changed) == round(0.4 * len(split.train))
    everywhere = corrupt_labels(data, split, 0.4, seed=7, parts=("train", "validation", "test"))
    np.testing.assert_array_equal(everywhere.labels[split.train], noisy.labels[split.train])
    for part in (split.validation, split.test):
        assert (everywhere.labels[part] != data.labels[part]).sum() == round(0.4 * len(part))


def test_the_seed_decides(data):
    split = splits.holdout(data, folds=5)[0]
    first, again, other = (corrupt_labels(data, split, 0.2, seed=s).labels for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_bad_requests_are_named(data):
    split = splits.holdout(data, folds=5)[0]
    with pytest.raises(InputError, match="ratio"):
        corrupt_labels(data, split, 1.5)
    with pytest.raises(InputError, match="parts"):
        corrupt_labels(data, split, 0.5, parts=("training",))
    with pytest.raises(InputError, match="soft"):
        corrupt_labels(data.replace(labels=data.soft_labels()), split, 0.5)
    with pytest.raises(InputError, match="split: its train part reaches beyond the 10 graphs"):
        corrupt_labels(data[:10], split, 0.5)
    with pytest.raises(InputError, match="no other"):
        corrupt(np.zeros(4, int), 0.5, num_classes=1)
