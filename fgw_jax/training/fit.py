"""Public API of training: `fit` trains and tests a model, `predict` applies it."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.augment.base import Augmentation
from fgw_jax.backbones.model import Backbone
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.errors import check
from fgw_jax.inputs import check_key, float_dtype
from fgw_jax.training import checkpoints, metrics, packing, pool, step
from fgw_jax.training.config import Config, TracedHyperparameters
from fgw_jax.training.sets import TrainingSets, check_sets
from fgw_jax.training.state import State, initial, unravel


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """The best model of a run by its validation score, with metrics and learning curves.

    Attributes:
        params: parameters of the best epoch.
        batch_stats: running moments of its batch norms; empty for models without batch norm.
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
        """The variables that ``model.apply`` takes."""
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
    """Train ``model``, keep its best epoch on ``valid``, and test that once.

    The training set is prepared by ``augment`` (once, or every ``refresh_every`` epochs) and put
    on the device with the validation set; up to 20 epochs are then one compiled call. Runs whose
    training and validation graphs together have the same sizes (all folds of a held-out test set,
    all methods on a fold) share one program. The test set has no influence on training, not even by
    its sizes: with and without it the same key gives the same parameters.

    Args:
        model: a backbone.
        train: training set, before augmentation.
        valid: validation set.
        test: test set; evaluated once, at the end.
        config: hyperparameters of the run; by default those of the paper.
        key: random key of initialization, batches, dropout and augmentation.
        augment: the augmentation method, with its hooks; by default none.
        checkpoint: file that the state is written to every ``config.checkpoint_every`` epochs, and
            that an interrupted run resumes from. It ends with the same bits as one that was not
            interrupted.
        progress: show a progress bar (needs tqdm).

    Returns:
        The best model by its validation score, with its metrics.

    Raises:
        InputError: if the sets do not fit the model or one another, if training diverges in its
            first epoch, or if ``checkpoint`` belongs to another run.
        DataError: if ``checkpoint`` is damaged.

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
    config, augment = config or Config(), augment or Augmentation()
    check_sets(model, train, valid, test, config.select)
    _check_key_implementation(key)
    began = time.perf_counter()
    run_key, augment_key = jax.random.split(key)
    sets = TrainingSets(model, train, valid, augment, augment_key, config)
    sets.draw(0)
    hyper = TracedHyperparameters.of(config)
    state = initial(model, sets.pool, hyper, run_key)
    curves = np.zeros((config.epochs, 3))
    owner = ""
    if checkpoint is not None:
        owner = _owner(model, (train, valid, test), config, key, augment)
        like = {"state": state, "curves": curves, "seconds": 0.0}
        found = checkpoints.load(checkpoint, owner, like)
        if found is not None:
            state = jax.tree.map(jnp.asarray, found["state"])
            curves = np.array(found["curves"]).reshape(curves.shape)
            began -= float(found["seconds"])
    bar = _bar(progress, config.epochs)
    while True:
        epoch = int(state.epoch)
        bar.update(epoch - bar.n)
        if epoch >= config.epochs or bool(state.stopped):
            break
        until = _next_stop(epoch, config, augment.refresh_every, checkpoint is not None)
        sets.draw(epoch // augment.refresh_every if augment.refresh_every else 0)
        program = step.Program(model, sets.layout, _hooks(augment), config.select)
        state, seen = step.run(program, state, sets.pool, sets.train, sets.valid, hyper, until)
        curves[epoch : int(state.epoch)] = np.asarray(seen)[: int(state.epoch) - epoch]
        bar.set_postfix_str(f"best validation {abs(float(state.best_score)):.4f}")
        if checkpoint is not None:
            seconds = time.perf_counter() - began - sets.augment_seconds
            # Written with an axis of length one, as checkpoints always were.
            content = {"state": state, "curves": curves[:, None], "seconds": seconds}
            checkpoints.save(checkpoint, owner, content)
    bar.close()
    return _result(sets, test, state, curves, time.perf_counter() - began - sets.augment_seconds)


def predict(
    model: Backbone, variables: dict[str, Any], data: Dataset, batch_size: int = 128
) -> np.ndarray:
    """Evaluate a trained model.

    Args:
        model: a backbone.
        variables: what it takes, such as :attr:`Result.variables`.
        data: graphs to classify.
        batch_size: graphs per step.

    Returns:
        Logits ``[N, C]``, in the order of ``data``.
    """
    layout = packing.plan([graph.num_nodes for graph in data.graphs], batch_size)
    rows, (members,) = pool.build(layout, [(data.graphs, data.soft_labels())], model)
    params = jax.flatten_util.ravel_pytree(variables["params"])[0]
    stats = variables.get("batch_stats", {})
    logits, _, real = step.predict(model, layout, params, stats, rows, members)
    # Logits come block after block.
    order = [graph for _, block in layout.place(data.graphs) for graph in block]
    found = np.asarray(logits)[np.asarray(real)]
    out = np.empty_like(found)
    out[order] = found
    return out


def _result(
    sets: TrainingSets, test: Dataset | None, state: State, curves: np.ndarray, seconds: float
) -> Result:
    model, epochs = sets.model, int(state.epoch)
    advice = "lower learning_rate, or set clip_norm"
    check(int(state.best_epoch) > 0, f"config: training diverged in its first epoch; {advice}")
    if not np.isfinite(curves[:epochs]).all():
        warnings.warn(f"training diverged in epoch {epochs}, the best before is kept; {advice}")

    def evaluate(layout: packing.Layout, rows: Any, members: pool.Members) -> dict[str, float]:
        logits, labels, real = step.predict(
            model, layout, state.best_params, state.best_stats, rows, members
        )
        keep = np.asarray(real)
        return metrics.summary(np.asarray(logits)[keep], np.asarray(labels)[keep])

    names = ("train_loss", "valid_loss", "valid_score")
    return Result(
        params=unravel(model, sets.pool, state.best_params),
        batch_stats=state.best_stats,
        test=None if test is None else evaluate(*sets.pack_separately(test)),
        valid=evaluate(sets.layout, sets.pool, sets.valid),
        curves={name: curves[:epochs, i].copy() for i, name in enumerate(names)},
        best_epoch=int(state.best_epoch),
        epochs=epochs,
        seconds=seconds,
        augment_seconds=sets.augment_seconds,
    )


def _check_key_implementation(key: Any) -> None:
    """Refuse keys of another implementation than JAX's default: the state holds their bits only."""
    if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        usual, given = jax.random.key_impl(jax.random.key(0)), jax.random.key_impl(key)
        check(given == usual, f"key: of the kind {given}; pass jax.random.key(0), a {usual}")


def _next_stop(epoch: int, config: Config, refresh: int | None, saving: bool) -> int:
    """The next epoch at which the host has work to do."""
    every = [step.EPOCHS_PER_CALL, *([refresh] if refresh else [])]
    every += [config.checkpoint_every] if saving else []
    return min([config.epochs] + [(epoch // n + 1) * n for n in every])


def _hooks(augment: Augmentation) -> Augmentation:
    """The augmentation as the compiled step sees it.

    All methods without hooks become the same object, so that they share a program.
    """
    own = type(augment)
    if (
        own.on_graphs is Augmentation.on_graphs
        and own.on_representations is Augmentation.on_representations
    ):
        return Augmentation()
    return augment


def _owner(model: Backbone, sets: Any, config: Config, key: Any, augment: Augmentation) -> str:
    """Fingerprint of everything that decides the bits of a run."""
    return checkpoints.fingerprint(
        model,
        dataclasses.replace(config, checkpoint_every=1),
        augment,
        False,  # fingerprints of earlier versions held an option that is gone
        str(float_dtype()),
        np.asarray(jax.random.key_data(key)),
        *(data.fingerprint() for data in sets if data is not None),
    )


class _Silent:
    """A stand-in for a hidden progress bar."""

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
