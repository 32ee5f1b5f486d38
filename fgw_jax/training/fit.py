"""Training from a dataset to a tested model."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment.base import Augmentation
from fgw_jax.backbones.model import Backbone
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import check
from fgw_jax.inputs import check_key, float_dtype
from fgw_jax.training import checkpoints, metrics, packing, step
from fgw_jax.training.config import Config, Numbers
from fgw_jax.training.folds import Folds, check_folds
from fgw_jax.training.state import State, initial, unravel


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """The best model of a run by its validation score, and how it came about.

    Attributes:
        params: parameters of the best epoch.
        batch_stats: running moments of its batch norms; empty for models without.
        test: metrics on the test set (accuracy, loss, auroc where defined), computed once, at the
            end; ``None`` without a test set.
        valid: the same on the validation set.
        curves: ``train_loss``, ``valid_loss`` and ``valid_score``, each ``[epochs]``.
        best_epoch: number of the best epoch, counted from 1.
        epochs: epochs run.
        seconds: wall time of the training alone, compilation included.
        augment_seconds: wall time of the augmentation on the host.
    """

    params: Any
    batch_stats: Any
    test: dict[str, float] | None
    valid: dict[str, float]
    curves: dict[str, np.ndarray]
    best_epoch: int
    epochs: int
    seconds: float
    augment_seconds: float

    @property
    def variables(self) -> dict[str, Any]:
        """What ``model.apply`` takes."""
        return {"params": self.params, "batch_stats": self.batch_stats}


def fit(
    model: Backbone,
    train: Dataset,
    valid: Dataset,
    test: Dataset | None = None,
    *,
    config: Config | None = None,
    key: jax.Array,
    augment: Augmentation | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Result:
    """Train ``model``, keep its best epoch on ``valid``, test that once.

    The training set is prepared by ``augment`` (once, or every ``refresh_every`` epochs) and put
    on the device with the validation set; epochs are then single compiled calls. Runs whose
    training and validation graphs together have the same sizes (all folds of a held-out test set,
    all methods on a fold) share one program. The test set has no influence on training, not even by
    its sizes: with and without it the same key gives the same parameters.

    Args:
      model: a backbone.
      train: training set, not yet augmented.
      valid: validation set.
      test: test set; not looked at before the end.
      config: numbers of the run; by default the paper's.
      key: random key of initialisation, batches, dropout and augmentation.
      augment: the method, with its hooks; by default none.
      checkpoint: file from which a run goes on where it was, and into which it is written every
        ``config.checkpoint_every`` epochs. A run that was killed ends with the same bits.
      progress: show a bar (needs tqdm).

    >>> from fgw_jax import backbones, datasets, training
    >>> data = datasets.synthetic(num_graphs=40)
    >>> model = backbones.make("vgcn", data.num_classes, hidden=8, num_layers=2)
    >>> parts = data[:24], data[24:32], data[32:]
    >>> result = training.fit(
    ...     model, *parts, config=training.Config(epochs=3), key=jax.random.key(0)
    ... )
    >>> sorted(result.test), result.epochs
    (['accuracy', 'auroc', 'loss'], 3)
    """
    check_key(key)
    (result,) = _fit(
        model, [(train, valid, test)], config, key[None], augment, checkpoint, progress, False
    )
    return result


def fit_many(
    model: Backbone,
    folds: Sequence[tuple[Dataset, Dataset, Dataset | None]],
    *,
    config: Config | None = None,
    keys: jax.Array,
    augment: Augmentation | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> list[Result]:
    """:func:`fit` for several ``(train, valid, test)``, side by side in one program.

    All folds lie in one pool on the device and the parameters of each are a lane of a vmapped
    epoch. That pays where steps are so small that starting operations costs more than the
    operations; where they are large, folds one after the other take less. A lane computes what
    :func:`fit` with its key computes, up to rounding. ``seconds`` is the share of a fold.

    Args:
      model: a backbone.
      folds: one ``(train, valid, test)`` each.
      config: as in :func:`fit`, for all.
      keys: one key a fold.
      augment: as in :func:`fit`.
      checkpoint: as in :func:`fit`, one file for all.
      progress: as in :func:`fit`.
    """
    check(len(folds) > 0, "folds: an empty list; pass at least one (train, valid, test)")
    check(len(keys) == len(folds), f"keys: {len(keys)} for {len(folds)} folds; pass one a fold")
    return _fit(model, folds, config, keys, augment, checkpoint, progress, True)


def predict(
    model: Backbone, variables: dict[str, Any], data: Dataset, batch_size: int = 128
) -> np.ndarray:
    """Logits ``[N, C]`` of a dataset, in its order."""
    plan = packing.plan([graph.num_nodes for graph in data.graphs], batch_size)
    pool, (members,) = packing.build(plan, [(data.graphs, data.soft_labels())], model)
    params = jax.flatten_util.ravel_pytree(variables["params"])[0]
    stats = variables.get("batch_stats", {})
    logits, _, real = step.predict(model, plan, params, stats, pool, members)
    return _restore_order(plan, data, np.asarray(logits)[np.asarray(real)])


def _restore_order(plan: packing.Layout, data: Dataset, rows: np.ndarray) -> np.ndarray:
    """Rows that come block after block, put back in the order of the dataset."""
    out = np.empty_like(rows)
    out[[graph for _, block in plan.place(data.graphs) for graph in block]] = rows
    return out


def _fit(
    model: Backbone,
    folds: Sequence[tuple[Dataset, Dataset, Dataset | None]],
    config: Config | None,
    keys: jax.Array,
    augment: Augmentation | None,
    checkpoint: str | os.PathLike[str] | None,
    progress: bool,
    many: bool,
) -> list[Result]:
    config, augment = config or Config(), augment or Augmentation()
    check_folds(model, folds, config.select)
    _check_keys(keys)
    began = time.perf_counter()
    run_keys, augment_keys = jax.vmap(lambda k: tuple(jax.random.split(k)))(keys)
    data = Folds(model, folds, augment, augment_keys, config)
    data.draw(0)
    numbers = Numbers.of(config)
    states = [initial(model, data.pool, numbers, key) for key in run_keys]
    state: State = jax.tree.map(lambda *x: jnp.stack(x), *states) if many else states[0]
    curves = np.zeros((config.epochs, len(folds), 3))
    owner = ""
    if checkpoint is not None:
        owner = _owner(model, folds, config, keys, augment, many)
        like = {"state": state, "curves": curves, "seconds": 0.0}
        found = checkpoints.load(checkpoint, owner, like)
        if found is not None:
            state, curves = jax.tree.map(jnp.asarray, found["state"]), np.array(found["curves"])
            began -= float(found["seconds"])
    bar = _bar(progress, config.epochs)
    while True:
        epoch = int(np.max(state.epoch))
        bar.update(epoch - bar.n)
        if epoch >= config.epochs or bool(np.all(state.stopped)):
            break
        until = _next_stop(epoch, config, augment.refresh_every, checkpoint is not None)
        data.draw(epoch // augment.refresh_every if augment.refresh_every else 0)
        program = step.Program(model, data.plan, _hooks(augment), config.select)
        before = np.atleast_1d(state.epoch)
        arguments = (data.pool, *data.sets(many), numbers, until)
        state, seen = (step.run_many if many else step.run)(program, state, *arguments)
        for lane, (a, b) in enumerate(zip(before, np.atleast_1d(state.epoch), strict=True)):
            curves[a:b, lane] = np.asarray(seen if many else seen[None])[lane, : b - a]
        bar.set_postfix_str(f"best validation {float(np.mean(np.abs(state.best_score))):.4f}")
        if checkpoint is not None:
            seconds = time.perf_counter() - began - data.augment_seconds
            content = {"state": state, "curves": curves, "seconds": seconds}
            checkpoints.save(checkpoint, owner, content)
    bar.close()
    seconds = time.perf_counter() - began - data.augment_seconds
    return [
        _result(data, i, state if not many else jax.tree.map(lambda x, i=i: x[i], state),
                curves[:, i], seconds / len(folds))
        for i in range(len(folds))
    ]  # fmt: skip


def _result(data: Folds, fold: int, state: State, curves: np.ndarray, seconds: float) -> Result:
    model, epochs = data.model, int(state.epoch)
    advice = "lower learning_rate, or set clip_norm"
    check(int(state.best_epoch) > 0, f"config: training diverged in its first epoch; {advice}")
    if not np.isfinite(curves[:epochs]).all():
        warnings.warn(f"training diverged in epoch {epochs}, the best before is kept; {advice}")

    def tested(plan: packing.Layout, pool: Any, members: packing.Members) -> dict[str, float]:
        logits, labels, real = step.predict(
            model, plan, state.best_params, state.best_stats, pool, members
        )
        keep = np.asarray(real)
        return metrics.summary(np.asarray(logits)[keep], np.asarray(labels)[keep])

    test = data.folds[fold][2]
    return Result(
        params=unravel(model, data.pool, state.best_params),
        batch_stats=state.best_stats,
        test=None if test is None else tested(*data.apart(test)),
        valid=tested(data.plan, data.pool, data.valid[fold]),
        curves={
            name: curves[:epochs, i].copy()
            for i, name in enumerate(("train_loss", "valid_loss", "valid_score"))
        },
        best_epoch=int(state.best_epoch),
        epochs=epochs,
        seconds=seconds,
        augment_seconds=data.augment_seconds / len(data.folds),
    )


def _check_keys(keys: Any) -> None:
    """Refuse keys of another implementation than JAX's default: a state holds their bits alone."""
    if jax.dtypes.issubdtype(keys.dtype, jax.dtypes.prng_key):
        usual, given = jax.random.key_impl(jax.random.key(0)), jax.random.key_impl(keys)
        check(given == usual, f"key: of the kind {given}; pass jax.random.key(0), a {usual}")


def _next_stop(epoch: int, config: Config, refresh: int | None, saving: bool) -> int:
    """The epoch at which the host has something to do next."""
    every = [step.EPOCHS_A_CALL, *([refresh] if refresh else [])]
    every += [config.checkpoint_every] if saving else []
    return min([config.epochs] + [(epoch // n + 1) * n for n in every])


def _hooks(augment: Augmentation) -> Augmentation:
    """The augmentation as far as the compiled step knows it.

    Methods that leave both hooks alone become one, so that they share a program.
    """
    own = type(augment)
    if (
        own.on_graphs is Augmentation.on_graphs
        and own.on_representations is Augmentation.on_representations
    ):
        return Augmentation()
    return augment


def _owner(
    model: Backbone, folds: Any, config: Config, keys: Any, augment: Augmentation, many: bool
) -> str:
    prints = [part.fingerprint() for fold in folds for part in fold if part is not None]
    plain = dataclasses.replace(config, checkpoint_every=1)
    return checkpoints.fingerprint(
        model,
        plain,
        augment,
        many,
        str(float_dtype()),
        np.asarray(jax.random.key_data(keys)),
        *prints,
    )


class _Silent:
    """A progress bar that shows nothing."""

    n = 0

    def update(self, n: int) -> None:
        """Count."""
        self.n += n

    def set_postfix_str(self, text: str) -> None:
        """Ignore."""

    def close(self) -> None:
        """Ignore."""


def _bar(progress: bool, total: int) -> Any:
    if not progress:
        return _Silent()
    from tqdm import tqdm

    return tqdm(total=total, unit="epoch")
