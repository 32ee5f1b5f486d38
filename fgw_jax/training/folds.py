"""Folds on the device."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment.base import Augmentation
from fgw_jax.backbones.model import Backbone
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import check
from fgw_jax.training import packing
from fgw_jax.training.config import Config


@dataclasses.dataclass
class Folds:
    """Folds on the device: the plan, the pool, who trains and who validates."""

    model: Backbone
    folds: Sequence[tuple[Dataset, Dataset, Dataset | None]]
    augment: Augmentation
    keys: jax.Array
    config: Config
    augment_seconds: float = 0.0
    drawn: int | None = None

    def draw(self, number: int) -> None:
        """Prepare the training sets for the ``number``-th time, and load everything.

        What is drawn depends on keys and number alone, never on what was drawn before, so that a
        resumed run sees the same sets.
        """
        if number == self.drawn:
            return
        start = time.perf_counter()
        grown = [
            self.augment.prepare(jax.random.fold_in(key, number), train)
            for key, (train, _, _) in zip(self.keys, self.folds, strict=True)
        ]
        self.augment_seconds += time.perf_counter() - start
        valid = [fold[1] for fold in self.folds]
        kept = _kept([*grown, *valid, self.folds[0][0]], self.model if self.shared else None)
        # Planned from the original training and validation graphs of a fold. The test set has no
        # part in it: block sizes decide which graphs share a step, and so what is learned. Other
        # graphs only need room, unless there are so many of a size that the shares must follow.
        sizes = [graph.num_nodes for part in self.folds[0][:2] for graph in kept(part)]
        trained = [graph.num_nodes for graph in kept(grown[0])]
        others = [graph.num_nodes for part in (*grown, *valid) for graph in kept(part)]
        self.plan = packing.plan(
            sizes,
            packing.even(len(self.folds[0][0]), self.config.batch_size),
            extra=[n for n in others if n > max(sizes)],
            trained=trained,
            max_shapes=self.config.max_shapes,
            max_pairs=self.config.max_pairs,
            slots=packing.SLOTS if self.shared else (1,),
        )
        parts = [(kept(data), data.soft_labels()) for data in (*grown, *valid)]
        self.pool, members = packing.build(self.plan, parts, self.model)
        count = len(self.folds)
        self.train, self.valid, self.drawn = members[:count], members[count:], number

    @property
    def shared(self) -> bool:
        """Whether several graphs may share a block."""
        return self.model.packs and not self.augment.per_step

    def apart(
        self, data: Dataset
    ) -> tuple[packing.Layout, tuple[packing.Rows, ...], packing.Members]:
        """Plan, pool and members of a set that takes no part in training.

        Blocks are those of training where they are large enough, so that a model compiles for few
        shapes, and planned for these graphs alone where they are not.
        """
        graphs = _kept([data], self.model if self.shared else None)(data)
        sizes = [graph.num_nodes for graph in graphs]
        if max(sizes) < self.plan.sizes[-1]:
            plan = dataclasses.replace(self.plan, rows=(0,) * len(self.plan.sizes))
        else:
            plan = packing.plan(
                sizes,
                self.plan.batch_size,
                max_shapes=self.config.max_shapes,
                max_pairs=self.config.max_pairs,
                slots=packing.SLOTS if self.shared else (1,),
            )
        pool, (members,) = packing.build(plan, [(graphs, data.soft_labels())], self.model)
        return plan, pool, members

    def sets(self, many: bool) -> tuple[Any, Any]:
        """Training and validation members: of the only fold, or of all of them stacked."""
        if not many:
            return self.train[0], self.valid[0]
        stack = lambda sets: jax.tree.map(lambda *x: jnp.stack(x), *sets)  # noqa: E731
        return stack(self.train), stack(self.valid)


def _kept(
    parts: Sequence[Dataset | None], model: Backbone | None
) -> Callable[[Dataset | None], list[Any]]:
    """What is kept on the device of the graphs of a part: themselves, or their quotients."""
    graphs = {id(graph): graph for part in parts if part is not None for graph in part.graphs}
    found: dict[int, Any] = dict(graphs)
    if model is not None:
        found = dict(zip(graphs, model.quotients(list(graphs.values())), strict=True))
    return lambda part: [] if part is None else [found[id(graph)] for graph in part.graphs]


def check_folds(model: Backbone, folds: Any, select: str = "loss") -> None:
    """Refuse sets that do not fit the model or one another, before any computation.

    ``select`` is what the best epoch is best at: an AUROC needs every class among ``valid``.
    """
    for train, valid, test in folds:
        for name, part in (("train", train), ("valid", valid), ("test", test)):
            if part is None and name == "test":
                continue
            check(
                isinstance(part, Dataset),
                f"{name}: expected a Dataset, got {type(part).__name__}; "
                "use Dataset(graphs, labels)",
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
