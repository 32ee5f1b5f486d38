"""Label corruption: a share of labels switched to another class."""

from __future__ import annotations

import numpy as np

from fgw_jax.datasets.dataset import Dataset, Split
from fgw_jax.errors import check


def corrupt(labels: np.ndarray, ratio: float, num_classes: int, seed: int = 0) -> np.ndarray:
    """Switch ``round(ratio * N)`` of the class indices ``[N]`` to another class, drawn evenly.

    >>> corrupt(np.zeros(10, int), 0.2, num_classes=2).sum()
    np.int64(2)
    """
    labels = np.asarray(labels)
    check(0 <= ratio <= 1, f"ratio: {ratio} is not a share; use a number from 0 to 1")
    check(
        labels.ndim == 1 and labels.dtype.kind in "iu",
        "labels: corruption needs class indices [N]; corrupt before labels become soft",
    )
    check(
        num_classes >= 2 or ratio == 0,
        f"num_classes: {num_classes} class leaves no other to switch to",
    )
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(labels), round(ratio * len(labels)), replace=False)
    shift = rng.integers(1, max(num_classes, 2), size=len(chosen))
    out = labels.copy()
    out[chosen] = (labels[chosen] + shift) % num_classes
    return out


def corrupt_labels(
    data: Dataset,
    split: Split,
    ratio: float,
    *,
    seed: int = 0,
    parts: tuple[str, ...] = ("train",),
) -> Dataset:
    """The dataset with a ``ratio`` of the labels of some parts of a split switched.

    Only the training labels by default: validation and test stay as they are. The paper does not
    say which labels it switched; ``parts=("train", "validation", "test")`` touches them all.
    """
    known = ("train", "validation", "test")
    check(
        len(parts) > 0 and set(parts) <= set(known),
        f"parts: {tuple(parts)} names no part of a split; choose from {', '.join(known)}",
    )
    labels = data.labels.copy()
    for part in known:
        if part in parts:
            where = getattr(split, part)
            check(
                len(where) == 0 or np.max(where) < len(labels),
                f"split: its {part} part reaches beyond the {len(labels)} graphs; pass a split of "
                "this dataset",
            )
            # Parts draw on their own, so that asking for one more leaves the others unchanged.
            own_seed = np.random.SeedSequence([seed, known.index(part)]).generate_state(1)[0]
            labels[where] = corrupt(labels[where], ratio, data.num_classes, int(own_seed))
    return data.replace(labels=labels)
