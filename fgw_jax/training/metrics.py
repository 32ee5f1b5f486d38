"""Metrics of logits ``[N, C]`` against soft labels ``[N, C]``.

The class of a graph is its largest entry; an optional ``mask`` ``[N]`` excludes padding. On numpy
arrays metrics are computed in double precision; on jax arrays they work under ``jit``.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from fgw_jax.errors import check


def accuracy(logits: Any, labels: Any, mask: Any = None) -> Any:
    """Fraction of rows whose largest logit is at the largest label.

    >>> float(accuracy(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])))
    0.5
    """
    xp, logits, labels, mask = _prepare(logits, labels, mask)
    return _mean(xp, logits.argmax(-1) == labels.argmax(-1), mask)


def cross_entropy(logits: Any, labels: Any, mask: Any = None) -> Any:
    """Mean of ``-sum_c labels_c log softmax(logits)_c``."""
    xp, logits, labels, mask = _prepare(logits, labels, mask)
    log_softmax = scipy.special.log_softmax if xp is np else jax.nn.log_softmax
    return _mean(xp, -(labels * log_softmax(logits, axis=-1)).sum(-1), mask)


def auroc(logits: Any, labels: Any, mask: Any = None) -> Any:
    """Area under the ROC curve, ties counted half, as scikit-learn's ``roc_auc_score``.

    For two classes, the area of class 1. For more, the mean of one-versus-rest areas. NaN if a
    logit is NaN. If a class is absent, the area is undefined: an error on the host, 0.5 under
    ``jit``.

    Raises:
        InputError: if there is only one class, or on the host if a class is absent.

    >>> float(auroc(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]), np.eye(2)[[0, 1, 1]]))
    1.0
    """
    xp, logits, labels, mask = _prepare(logits, labels, mask)
    check(logits.shape[1] >= 2, f"logits: AUROC needs two classes, got shape {logits.shape}")
    given = labels.argmax(-1)
    if logits.shape[1] == 2:  # ordered like probabilities, without their rounding
        return _area(xp, logits[:, 1] - logits[:, 0], given == 1, mask)
    classes = (scipy.special.softmax if xp is np else jax.nn.softmax)(logits, axis=-1)
    areas = [_area(xp, classes[:, c], given == c, mask) for c in range(logits.shape[1])]
    return sum(areas) / len(areas)


#: name -> (metric, whether larger is better)
METRICS = {"accuracy": (accuracy, True), "auroc": (auroc, True), "loss": (cross_entropy, False)}


def summary(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """All metrics of a set of graphs, without ``auroc`` if a class is absent."""
    present = np.unique(labels.argmax(-1))
    names = [n for n in METRICS if n != "auroc" or len(present) == max(labels.shape[1], 2)]
    return {name: float(METRICS[name][0](np.asarray(logits), labels)) for name in names}


def _area(xp: Any, scores: Any, positive: Any, mask: Any) -> Any:
    """Fraction of (positive, negative) pairs in the right order."""
    negative = ~positive & mask
    positive = positive & mask
    num_positive, num_negative = positive.sum(), negative.sum()
    if xp is np:
        check(
            num_positive > 0 and num_negative > 0,
            "labels: AUROC is not defined when a class is absent; use a larger set, or accuracy",
        )
    ordered = xp.sort(xp.where(negative, scores, xp.inf))
    below = xp.searchsorted(ordered, scores, side="left")
    upto = xp.searchsorted(ordered, scores, side="right")
    share = xp.where(positive, (below + upto) / 2 / xp.maximum(num_negative, 1), 0)
    area = share.sum() / xp.maximum(num_positive, 1)
    area = xp.where((num_positive > 0) & (num_negative > 0), area, 0.5)
    return xp.where((xp.isnan(scores) & mask).any(), xp.nan, area)


def _mean(xp: Any, values: Any, mask: Any) -> Any:
    return xp.where(mask, values, 0).sum() / xp.maximum(mask.sum(), 1)


def _prepare(logits: Any, labels: Any, mask: Any) -> tuple[Any, Any, Any, Any]:
    xp = jnp if isinstance(logits, jax.Array) else np
    logits = logits if xp is jnp else np.asarray(logits, np.float64)
    labels = xp.asarray(labels)
    check(
        logits.ndim == 2 and labels.shape == logits.shape,
        f"labels: shape {labels.shape} beside logits of shape {logits.shape}; "
        "give both as [N, C], class indices by Dataset.soft_labels()",
    )
    check(len(logits) > 0, "logits: no row; pass at least one graph")
    return xp, logits, labels, xp.ones(len(logits), bool) if mask is None else xp.asarray(mask)
