"""The training, validation and test set of a run, checked and packed on the device."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from fgw_jax.augment.base import Augmentation
from fgw_jax.backbones.model import Backbone
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import check
from fgw_jax.training import packing, pool
from fgw_jax.training.config import Config


@dataclasses.dataclass
class TrainingSets:
    """Training and validation set of a run on the device: layout, pool, and members of each.

    Attributes:
        model: decides whether several graphs may share a block, and what is derived from them.
        original: the training set before augmentation.
        validation: the validation set.
        augment: the augmentation.
        key: random key of the augmentation.
        config: batch size and limits of the layout.
        augment_seconds: wall time of the augmentation so far.
        draw_number: number of the draw that is loaded; ``None`` before the first :meth:`draw`.
    """

    model: Backbone
    original: Dataset
    validation: Dataset
    augment: Augmentation
    key: jax.Array
    config: Config
    augment_seconds: float = 0.0
    draw_number: int | None = None

    def draw(self, number: int) -> None:
        """Augment the training set for the ``number``-th time, and load both sets.

        The draw depends on the key and ``number`` alone, never on earlier draws, so that a
        resumed run sees the same sets.
        """
        if number == self.draw_number:
            return
        start = time.perf_counter()
        grown = self.augment.prepare(jax.random.fold_in(self.key, number), self.original)
        self.augment_seconds += time.perf_counter() - start
        parts = (grown, self.validation)
        stored = _stored([*parts, self.original], self.model if self.shared else None)
        # Planned from the original training and validation graphs. The test set has no part in it:
        # block sizes decide which graphs share a step, and so what is learned. Other graphs only
        # need room, unless there are so many of a size that the shares must follow.
        sizes = [g.num_nodes for part in (self.original, self.validation) for g in stored(part)]
        self.layout = self._plan(
            sizes,
            packing.equal_batch_size(len(self.original), self.config.batch_size),
            extra=[g.num_nodes for p in parts for g in stored(p) if g.num_nodes > max(sizes)],
            trained=[graph.num_nodes for graph in stored(grown)],
        )
        packed = [(stored(part), part.soft_labels()) for part in parts]
        self.pool, (self.train, self.valid) = pool.build(self.layout, packed, self.model)
        self.draw_number = number

    @property
    def shared(self) -> bool:
        """Whether several graphs may share a block."""
        return self.model.packs and not self.augment.per_step

    def pack_separately(
        self, data: Dataset
    ) -> tuple[packing.Layout, tuple[pool.Blocks, ...], pool.Members]:
        """Layout, pool and members of a set that takes no part in training.

        Blocks are those of training where they are large enough, so that a model compiles for few
        shapes, and planned for these graphs alone where they are not.
        """
        graphs = _stored([data], self.model if self.shared else None)(data)
        sizes = [graph.num_nodes for graph in graphs]
        if max(sizes) < self.layout.sizes[-1]:
            layout = dataclasses.replace(self.layout, rows=(0,) * len(self.layout.sizes))
        else:
            layout = self._plan(sizes, self.layout.batch_size)
        rows, (members,) = pool.build(layout, [(graphs, data.soft_labels())], self.model)
        return layout, rows, members

    def _plan(self, sizes: Sequence[int], batch_size: int, **more: Any) -> packing.Layout:
        return packing.plan(
            sizes,
            batch_size,
            max_shapes=self.config.max_shapes,
            max_pairs=self.config.max_pairs,
            slots=packing.SLOTS if self.shared else (1,),
            **more,
        )


def _stored(parts: Sequence[Dataset], model: Backbone | None) -> Callable[[Dataset], list[Any]]:
    """What the device stores for the graphs of a set: themselves, or the model's quotients."""
    graphs = {id(graph): graph for part in parts for graph in part.graphs}
    found: dict[int, Any] = dict(graphs)
    if model is not None:
        found = dict(zip(graphs, model.quotients(list(graphs.values())), strict=True))
    return lambda part: [found[id(graph)] for graph in part.graphs]


def check_sets(
    model: Backbone, train: Any, valid: Any, test: Any = None, select: str = "loss"
) -> None:
    """Check, before any computation, that the sets fit the model and one another.

    Args:
        model: the backbone to be trained.
        train: training set.
        valid: validation set.
        test: test set, or ``None``.
        select: what the best epoch is best at; AUROC needs every class in ``valid``.

    Raises:
        InputError: naming the set, what is wrong with it and the remedy.
    """
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        if part is None and name == "test":
            continue
        check(
            isinstance(part, Dataset),
            f"{name}: expected a Dataset, got {type(part).__name__}; use Dataset(graphs, labels)",
        )
        check(
            part.num_classes == model.num_classes,
            f"{name}: {part.num_classes} classes for a model of {model.num_classes}; "
            "make the model with backbones.make(name, data.num_classes)",
        )
        check(
            part.num_features == train.num_features,
            f"{name}: features of width {part.num_features} beside {train.num_features} in "
            "train; give all sets the same features",
        )
        rows = part.soft_labels()
        check(
            bool((rows >= -1e-6).all()) and bool((np.abs(rows.sum(1) - 1) <= 1e-3).all()),
            f"{name}: labels that are no distribution over classes, which the cross entropy "
            "needs; use whole numbers, or rows of shares that sum to 1",
        )
    absent = set(range(model.num_classes)) - set(valid.soft_labels().argmax(1).tolist())
    check(
        select != "auroc" or not absent,
        f"valid: no graph of class {min(absent, default=0)}, so that select='auroc' is not "
        "defined; use another split, or select='accuracy'",
    )
