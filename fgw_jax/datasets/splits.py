"""Which graphs train, validate and test: two protocols over folds, and the published split."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fgw_jax.datasets.dataset import Dataset, Split
from fgw_jax.errors import InputError, check


def holdout(data: Dataset | ArrayLike, folds: int = 10, seed: int = 0) -> list[Split]:
    """The paper's protocol: one held-out test set, cross-validation on the remaining graphs.

    A stratified ``1/folds`` of the graphs (a tenth by default) is the test set of every split; the
    others are cut into ``folds`` stratified parts, each of which validates once.

    Args:
      data: a dataset with class indices, or the class indices ``[N]``.
      folds: number of splits.
      seed: seed of the random assignment.

    Returns:
      One split per fold.

    Raises:
      InputError: if a class has too few graphs.

    >>> splits = holdout(np.arange(100) % 2)
    >>> len(splits), [len(part) for part in (splits[0].train, splits[0].validation, splits[0].test)]
    (10, [81, 9, 10])
    """
    from sklearn.model_selection import StratifiedKFold, train_test_split

    labels = _class_indices(data, folds)
    rest, test = train_test_split(
        np.arange(len(labels)), test_size=1 / folds, stratify=labels, random_state=seed
    )
    check(
        int(np.unique(labels[rest], return_counts=True)[1].min()) >= folds,
        f"folds: too few graphs of a class remain for {folds} folds beside the test set; "
        "use fewer folds",
    )
    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(rest, labels[rest])
    return [Split(rest[train], rest[validation], test) for train, validation in parts]


def rotating(data: Dataset | ArrayLike, folds: int = 10, seed: int = 0) -> list[Split]:
    """The protocol of the authors' code: each fold is the test set once.

    The graphs are cut into ``folds`` stratified parts, each of which tests once; of the others a
    random ``1/folds`` validates (not stratified, as there).

    Args:
      data: a dataset with class indices, or the class indices ``[N]``.
      folds: number of splits.
      seed: seed of the random assignment.

    Returns:
      One split per fold.

    Raises:
      InputError: if a class has too few graphs.

    >>> splits = rotating(np.arange(100) % 2)
    >>> sorted(int(i) for split in splits for i in split.test) == list(range(100))
    True
    """
    from sklearn.model_selection import StratifiedKFold, train_test_split

    labels = _class_indices(data, folds)
    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels)
    splits = []
    for fold, (rest, test) in enumerate(parts):
        # A separate seed for each fold, so that validation sets are drawn independently.
        draw = np.random.RandomState([seed, fold])
        train, validation = train_test_split(rest, test_size=1 / folds, random_state=draw)
        splits.append(Split(train, validation, test))
    return splits


def scaffold(data: Dataset) -> Split:
    """The split published with the dataset (OGB groups molecules by their scaffold)."""
    if not isinstance(data, Dataset) or data.split is None:
        raise InputError(
            "data: no split was published with it; use splits.holdout or splits.rotating, "
            "or load an OGB dataset"
        )
    return data.split


#: protocols that make one split per fold; :func:`scaffold` gives a single one
PROTOCOLS: dict[str, Callable[..., list[Split]]] = {"holdout": holdout, "rotating": rotating}


def _class_indices(data: Dataset | ArrayLike, folds: int) -> np.ndarray:
    """Class indices to stratify by, checked against the number of folds."""
    labels = data.labels if isinstance(data, Dataset) else np.asarray(data)
    check(
        labels.ndim == 1 and labels.dtype.kind in "biu",
        "data: stratified splits need class indices [N]; split before labels become soft",
    )
    check(folds >= 2, f"folds: {folds} is too few; use at least 2")
    counts = np.unique(labels, return_counts=True)[1] if len(labels) else np.zeros(1, int)
    check(
        int(counts.min()) >= folds,
        f"folds: the smallest class has {int(counts.min())} graphs, fewer than {folds} folds; "
        "use fewer folds",
    )
    return labels
