"""Metrics against scikit-learn."""

import jax
import numpy as np
import pytest
import scipy.special
from sklearn import metrics as peer

from fgw_jax.errors import InputError
from fgw_jax.training import metrics


@pytest.fixture(params=[2, 4])
def scored(request, rng):
    """Logits with many ties, labels of every class."""
    classes = request.param
    logits = rng.integers(-2, 3, (60, classes)).astype(np.float64)
    return logits, np.eye(classes)[rng.permutation(np.arange(60) % classes)]


def test_equal_to_scikit_learn(scored):
    logits, labels = scored
    given, probabilities = labels.argmax(1), scipy.special.softmax(logits, axis=1)
    scores = logits[:, 1] - logits[:, 0] if labels.shape[1] == 2 else probabilities
    area = peer.roc_auc_score(given, scores, multi_class="ovr")
    assert metrics.auroc(logits, labels) == pytest.approx(area, abs=1e-12)
    loss = peer.log_loss(given, probabilities)
    assert metrics.cross_entropy(logits, labels) == pytest.approx(loss, abs=1e-12)
    right = peer.accuracy_score(given, logits.argmax(1))
    assert metrics.accuracy(logits, labels) == pytest.approx(right)


@pytest.mark.parametrize("name", list(metrics.METRICS))
def test_traced_and_masked_equal_the_plain_ones(name, scored, rng):
    logits, labels = scored
    logits = logits + rng.normal(size=logits.shape)  # ties would be broken by rounding
    metric = metrics.METRICS[name][0]
    keep = rng.random(60) < 0.7
    expected = metric(logits[keep], labels[keep])
    assert metric(logits, labels, keep) == pytest.approx(expected, abs=1e-12)
    traced = jax.jit(metric)(logits.astype(np.float32), labels.astype(np.float32), keep)
    assert float(traced) == pytest.approx(expected, abs=1e-5)


def test_soft_labels_enter_the_loss():
    logits = np.log([[0.25, 0.75]])
    expected = -(0.4 * np.log(0.25) + 0.6 * np.log(0.75))
    assert metrics.cross_entropy(logits, np.array([[0.4, 0.6]])) == pytest.approx(expected)


def test_nan_has_no_area():
    labels = np.eye(2)[[0, 1, 1, 0]]
    logits = np.full((4, 2), np.nan)
    assert np.isnan(metrics.auroc(logits, labels))
    assert np.isnan(jax.jit(metrics.auroc)(logits, labels))
    logits[1:] = [[0.0, 2.0], [0.0, 3.0], [0.0, 1.0]]
    assert metrics.auroc(logits, labels, np.arange(4) > 0) == 1.0


def test_wrong_use_is_told():
    one_class = np.eye(2)[[0, 0]]
    with pytest.raises(InputError, match="a class is absent"):
        metrics.auroc(np.zeros((2, 2)), one_class)
    assert "auroc" not in metrics.summary(np.zeros((2, 2)), one_class)
    assert float(jax.jit(metrics.auroc)(np.zeros((2, 2)), one_class)) == 0.5
    with pytest.raises(InputError, match="soft_labels"):
        metrics.accuracy(np.zeros((2, 2)), np.array([0, 1]))
