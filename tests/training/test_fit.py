"""Training as a user sees it: on small synthetic sets, with one small model.

Covers fgw_jax.training.config, fgw_jax.training.pool, fgw_jax.training.sets,
fgw_jax.training.state, fgw_jax.training.step.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgw_jax import Batch, Dataset, Graph, augment, backbones, training
from fgw_jax.augment.base import Augmentation
from fgw_jax.datasets import splits
from fgw_jax.errors import InputError
from fgw_jax.training import step

CONFIG = training.Config(epochs=12, batch_size=16, learning_rate=1e-2, max_shapes=1)
KEY = jax.random.key(0)


@functools.cache
def folds():
    """Two folds of one dataset: rings, the nodes of one class mostly of the first colour."""
    rng = np.random.default_rng(0)
    graphs, labels = [], np.arange(80) % 2
    for label in labels:
        n = int(rng.integers(6, 12))
        colours = rng.random(n) < (0.75 if label else 0.25)
        ring = [(i, (i + 1) % n) for i in range(n)]
        graphs.append(Graph.from_edges(ring, n, np.eye(2)[colours.astype(int)]))
    data = Dataset(graphs, labels)
    found = splits.rotating(data, folds=4)
    return [tuple(data[part] for part in (s.train, s.validation, s.test)) for s in found[:2]]


@functools.cache
def model():
    return backbones.make("vgcn", 2, hidden=8, num_layers=2)


@functools.cache
def vanilla(fold=0):
    return training.fit(model(), *folds()[fold], config=CONFIG, key=KEY)


def leaves(result):
    return jax.tree.leaves((result.params, result.batch_stats))


def assert_equal(first, second):
    for a, b in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_it_learns_and_tells_how():
    result = vanilla()
    assert result.curves["train_loss"][-1] < 0.7 * result.curves["train_loss"][0]
    assert result.test["accuracy"] >= 0.8
    assert {name: len(curve) for name, curve in result.curves.items()} == dict.fromkeys(
        ("train_loss", "valid_loss", "valid_score"), 12
    )
    assert result.epochs == 12 and result.seconds > 0


def test_the_best_epoch_by_validation_is_kept():
    result = vanilla()
    score, loss = result.curves["valid_score"], result.curves["valid_loss"]
    best = min(range(12), key=lambda e: (-score[e], loss[e]))
    assert result.best_epoch == best + 1
    assert result.valid["accuracy"] == pytest.approx(score.max())
    assert result.valid["loss"] == pytest.approx(loss[best], abs=1e-5)


def test_predictions_are_the_models_in_the_order_of_the_data():
    result, (_, _, test) = vanilla(), folds()[0]
    logits = training.predict(model(), result.variables, test)
    expected = jax.jit(model().apply)(result.variables, Batch.stack(test.graphs))
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    accuracy = training.metrics.accuracy(logits, test.soft_labels())
    assert accuracy == pytest.approx(result.test["accuracy"])


def test_same_key_same_bits_other_key_other_model():
    again = training.fit(model(), *folds()[0], config=CONFIG, key=KEY)
    assert_equal(vanilla(), again)
    other = training.fit(model(), *folds()[0], config=CONFIG, key=jax.random.key(1))
    assert np.abs(leaves(other)[0] - leaves(again)[0]).max() > 1e-3


def test_the_test_set_takes_no_part():
    train, valid, test = folds()[0]
    other = test.replace(labels=1 - test.labels)
    turned = training.fit(model(), train, valid, other, config=CONFIG, key=KEY)
    assert_equal(vanilla(), turned)
    assert turned.test["accuracy"] == pytest.approx(1 - vanilla().test["accuracy"])


@pytest.mark.parametrize("largest", [8, 11, 40])
@pytest.mark.parametrize("name", ["vgcn", pytest.param("graphormer", marks=pytest.mark.slow)])
def test_neither_does_its_size(name, largest):
    """No test set, one of any sizes, one with a graph larger than all others: the same bits."""
    train, valid, test = folds()[0]
    network = backbones.make(name, 2, hidden=8, num_layers=1)
    graphs = [g for g in test.graphs if g.num_nodes <= largest]
    if largest > 11:
        ring = [(i, (i + 1) % largest) for i in range(largest)]
        graphs.append(Graph.from_edges(ring, largest, np.eye(2)[np.zeros(largest, int)]))
    other = Dataset(graphs, np.arange(len(graphs)) % 2)
    config = dataclasses.replace(CONFIG, epochs=2, max_shapes=3)
    fit = functools.partial(training.fit, network, train, valid, config=config, key=KEY)
    without, with_test = fit(), fit(other)
    assert_equal(without, with_test)
    assert without.valid == with_test.valid and without.test is None
    logits = training.predict(network, with_test.variables, other)
    accuracy = training.metrics.accuracy(logits, other.soft_labels())
    assert accuracy == pytest.approx(with_test.test["accuracy"])


def test_folds_methods_and_numbers_share_one_program():
    vanilla()
    before = step.run._cache_size()
    vanilla(fold=1)
    changed = dataclasses.replace(CONFIG, learning_rate=3e-3, clip_norm=1.0, decay_every=2)
    training.fit(model(), *folds()[0], config=changed, key=KEY)
    training.fit(model(), *folds()[0], config=CONFIG, key=KEY, augment=Grown())
    assert step.run._cache_size() == before


@dataclasses.dataclass(frozen=True)
class Grown(Augmentation):
    """Every fourth graph a second time: a grown set without the cost of mixing."""

    def __call__(self, key, dataset):
        data = dataset.replace(labels=dataset.soft_labels())
        return data.concatenate(data[::4])


@dataclasses.dataclass(frozen=True)
class Wrong(Augmentation):
    """Labels turned around: training on it must show."""

    def __call__(self, key, dataset):
        return dataset.replace(labels=1 - dataset.soft_labels())


def test_the_training_set_is_the_augmented_one():
    result = training.fit(model(), *folds()[0], config=CONFIG, key=KEY, augment=Wrong())
    assert result.curves["valid_score"][-1] < 0.5 < vanilla().curves["valid_score"][-1]


@dataclasses.dataclass(frozen=True)
class Fresh(Augmentation):
    """Counts how often it is called, and with which keys."""

    refresh_every = 5
    calls: tuple = dataclasses.field(default=(), compare=False)

    def prepare(self, key, dataset):
        CALLS.append(np.asarray(jax.random.key_data(key)).tolist())
        return Grown()(key, dataset)


CALLS: list = []


def test_fresh_draws_come_every_few_epochs_with_keys_of_their_own():
    CALLS.clear()
    training.fit(model(), *folds()[0], config=CONFIG, key=KEY, augment=Fresh())
    assert len(CALLS) == 3  # epochs 0, 5 and 10 of 12
    assert len({tuple(call) for call in CALLS}) == 3


@dataclasses.dataclass(frozen=True)
class Undecided(Augmentation):
    """Even labels after READOUT."""

    def on_representations(self, key, representations, labels, mask):
        return representations, jnp.full_like(labels, 0.5)


def test_labels_of_the_step_are_the_hooks():
    result = training.fit(model(), *folds()[0], config=CONFIG, key=KEY, augment=Undecided())
    # The least loss for even labels is log 2.
    assert result.curves["train_loss"].min() > 0.69 > vanilla().curves["train_loss"].min()


@pytest.mark.parametrize("method", [pytest.param("dropnode", marks=pytest.mark.slow), "mmixup"])
def test_methods_of_the_step_train(method):
    result = training.fit(
        model(), *folds()[0], config=CONFIG, key=KEY, augment=augment.make(method)
    )
    assert result.curves["train_loss"][-1] < result.curves["train_loss"][0]
    assert np.isfinite(result.curves["train_loss"]).all()
    assert np.abs(leaves(result)[0] - leaves(vanilla())[0]).max() > 1e-4


@pytest.mark.slow
def test_a_graphormer_trains_while_edges_drop():
    small = backbones.make("graphormer", 2, hidden=8, num_layers=1, heads=2)
    config = dataclasses.replace(CONFIG, epochs=2)
    result = training.fit(
        small, *folds()[0], config=config, key=KEY, augment=augment.make("dropedge")
    )
    assert np.isfinite(result.curves["train_loss"]).all()


def test_early_stopping_and_step_decay():
    config = dataclasses.replace(
        training.Config.authors(batch_size=16), epochs=200, patience=3, patience_from=5
    )
    result = training.fit(model(), *folds()[0], config=config, key=KEY)
    assert result.epochs == max(5, result.best_epoch + 3) < 200
    assert len(result.curves["train_loss"]) == result.epochs
    frozen = dataclasses.replace(CONFIG, decay_every=1, decay_factor=1e-9)
    short, long = (
        training.fit(model(), *folds()[0], config=dataclasses.replace(frozen, epochs=n), key=KEY)
        for n in (1, 4)
    )
    for a, b in zip(jax.tree.leaves(short.params), jax.tree.leaves(long.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_wrong_use_is_told():
    train, valid, _ = folds()[0]
    with pytest.raises(InputError, match="classes for a model of 3"):
        training.fit(backbones.make("vgcn", 3), train, valid, key=KEY)
    with pytest.raises(InputError, match="train: expected a Dataset, got tuple"):
        training.fit(model(), train.graphs, valid, key=KEY)
    with pytest.raises(InputError, match="no such metric 'f1'"):
        training.Config(select="f1")
    for name in ("epochs", "batch_size"):
        for wrong in (0, 2.5):
            with pytest.raises(InputError, match=f"{name}: {wrong}"):
                training.Config(**{name: wrong})
    for name, wrong in (("decay_factor", None), ("patience", 0.5), ("patience_from", -1)):
        with pytest.raises(InputError, match=f"{name}: {wrong}"):
            training.Config(**{name: wrong})
    for rows in (np.random.default_rng(0).normal(size=(len(train), 2)), np.ones((len(train), 2))):
        with pytest.raises(InputError, match="train: labels that are no distribution"):
            training.fit(model(), Dataset(train.graphs, rows), valid, key=KEY)
    one_class = valid[np.flatnonzero(np.asarray(valid.labels) == 1)]
    config = dataclasses.replace(CONFIG, select="auroc")
    with pytest.raises(InputError, match="valid: no graph of class 0"):
        training.fit(model(), train, one_class, config=config, key=KEY)


def test_divergence_is_told():
    wild = dataclasses.replace(CONFIG, learning_rate=1e30)
    with pytest.raises(InputError, match="diverged in its first epoch; lower learning_rate"):
        training.fit(model(), *folds()[0], config=wild, key=KEY)


@pytest.mark.parametrize(
    "select", ["accuracy", pytest.param("auroc", marks=pytest.mark.slow), "loss"]
)
def test_a_model_of_nan_is_never_the_best(select):
    """The largest of NaN logits is the first, so that its accuracy may be good."""
    train, valid, test = folds()[0]
    corrupted = dataclasses.replace(valid.graphs[0], features=valid.graphs[0].features * np.nan)
    broken = Dataset([corrupted, *valid.graphs[1:]], valid.labels)
    config = dataclasses.replace(CONFIG, epochs=2, select=select)
    with pytest.raises(InputError, match="diverged in its first epoch"):
        training.fit(model(), train, broken, test, config=config, key=KEY)


def test_small_batches_train():
    """A block holds several graphs; steps without any would give moments of nothing."""
    config = dataclasses.replace(CONFIG, epochs=2, batch_size=2)
    result = training.fit(model(), *folds()[0], config=config, key=KEY)
    assert np.isfinite(result.test["loss"])
    assert all(np.isfinite(leaf).all() for leaf in leaves(result))


def test_a_key_of_another_kind_is_refused():
    for key, said in (
        (0, "expected a random key, got int"),
        (jax.random.key(0, impl="rbg"), "rbg"),
    ):
        with pytest.raises(InputError, match=f"key: .*{said}"):
            training.fit(model(), *folds()[0], config=CONFIG, key=key)
