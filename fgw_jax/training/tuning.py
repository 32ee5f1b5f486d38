"""Learning rate and batch size, chosen once by vanilla validation and kept for every method."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from fgw_jax.backbones.model import Backbone
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import check
from fgw_jax.training.config import Config
from fgw_jax.training.fit import fit
from fgw_jax.training.metrics import METRICS


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The chosen config, and the mean validation score of every ``(learning rate, batch size)``."""

    config: Config
    scores: dict[tuple[float, int], float]


def tune(
    model: Backbone,
    folds: Sequence[tuple[Dataset, Dataset]],
    *,
    config: Config | None = None,
    key: jax.Array,
    learning_rates: Sequence[float] = (1e-3, 5e-4, 1e-4),
    batch_sizes: Sequence[int] = (32, 128),
    progress: bool = False,
) -> Tuned:
    """The paper's grid: train without augmentation on ``(train, valid)`` sets, keep the best pair.

    A pair's score is the mean over the folds of the best validation score; test sets take no part.
    """
    config = config or Config()
    check(len(folds) > 0, "folds: an empty list; pass at least one (train, valid)")
    check(
        len(learning_rates) > 0 and len(batch_sizes) > 0,
        "learning_rates, batch_sizes: nothing to try; name at least one of each",
    )
    scores = {}
    for batch_size in batch_sizes:
        for rate in learning_rates:
            tried = dataclasses.replace(config, learning_rate=rate, batch_size=batch_size)
            found = [
                fit(model, train, valid, config=tried, key=k, progress=progress)
                for k, (train, valid) in zip(jax.random.split(key, len(folds)), folds, strict=True)
            ]
            scores[rate, batch_size] = float(np.mean([r.valid[config.select] for r in found]))
    larger = METRICS[config.select][1]
    rate, batch_size = (max if larger else min)(scores, key=scores.__getitem__)
    return Tuned(dataclasses.replace(config, learning_rate=rate, batch_size=batch_size), scores)
