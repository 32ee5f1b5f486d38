"""Through training itself: what validates and tests has no part in what is trained on."""

import dataclasses

import jax
import numpy as np
import pytest

from fgw_jax import Dataset, augment, backbones, datasets, training


@pytest.fixture(scope="module")
def whole():
    return datasets.synthetic(num_graphs=40, size=8, seed=3)


def poisoned(data: Dataset) -> Dataset:
    """The same graphs with huge features."""
    graphs = [dataclasses.replace(g, features=g.features * 1e4) for g in data.graphs]
    return data.replace(graphs=graphs)


@pytest.mark.parametrize(
    "name",
    [
        "gmixup",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("dropnode", "ifmixup", "mmixup")),
    ],
)
def test_one_epoch_ends_at_the_same_bits_whatever_validates_and_tests(name, whole):
    model = backbones.make("vgcn", whole.num_classes, hidden=4, num_layers=1)
    train, valid, test = whole[:24], whole[24:32], whole[32:]
    ends = []
    for held_out in ((valid, test), (poisoned(valid), poisoned(test))):
        result = training.fit(
            model,
            train,
            *held_out,
            config=training.Config(epochs=1, batch_size=8),
            key=jax.random.key(0),
            augment=augment.make(name),
        )
        ends.append(np.concatenate([np.ravel(x) for x in jax.tree.leaves(result.params)]))
    np.testing.assert_array_equal(*ends)
