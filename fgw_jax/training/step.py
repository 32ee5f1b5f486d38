"""The compiled part of training: steps, epochs, evaluation."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from fgw_jax.augment.base import Augmentation
from fgw_jax.backbones.model import Backbone
from fgw_jax.training import metrics
from fgw_jax.training.config import TracedHyperparameters
from fgw_jax.training.packing import Layout
from fgw_jax.training.pool import Blocks, Members, slot_labels, take
from fgw_jax.training.state import State, optimizer, unravel

#: maximum number of epochs per compiled call, and length of the curves it returns
EPOCHS_PER_CALL = 20


@dataclasses.dataclass(frozen=True)
class Program:
    """The static part of the compiled functions; everything else is data."""

    model: Backbone
    layout: Layout
    augment: Augmentation
    select: str


@functools.partial(jax.jit, static_argnames="program")
def run(
    program: Program,
    state: State,
    pool: tuple[Blocks, ...],
    train: Members,
    valid: Members,
    hyper: TracedHyperparameters,
    until: Any,
) -> tuple[State, jax.Array]:
    """Train until early stopping or epoch ``until``, for at most 20 epochs.

    Args:
        program: model, layout, augmentation and metric; static.
        state: where to start.
        pool: all blocks.
        train: blocks to train on.
        valid: blocks to validate on.
        hyper: hyperparameters.
        until: epoch to stop before.

    Returns:
        The state, and curves ``[20, 3]``: training loss, validation loss, validation score.
    """
    first = state.epoch
    curves = jnp.zeros((EPOCHS_PER_CALL, 3), state.params.dtype)

    def unfinished(carry: tuple[State, jax.Array]) -> jax.Array:
        now = carry[0]
        return (now.epoch < jnp.minimum(until, first + EPOCHS_PER_CALL)) & ~now.stopped

    def body(carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        now, seen = carry
        after, line = _epoch(program, now, pool, train, valid, hyper)
        return after, seen.at[now.epoch - first].set(line)

    return jax.lax.while_loop(unfinished, body, (state, curves))


@functools.partial(jax.jit, static_argnames=("model", "layout"))
def predict(
    model: Backbone,
    layout: Layout,
    params: jax.Array,
    stats: Any,
    pool: tuple[Blocks, ...],
    members: Members,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Evaluate the members of a set, block size after block size.

    Returns:
        Logits ``[R, C]``, labels ``[R, C]``, and ``[R]`` whether a row holds a graph.
    """
    variables = {"params": unravel(model, pool, params), "batch_stats": stats}
    num_steps, slots = members.num_steps(layout), layout.slots
    lengths = [
        len(rows) + share for rows, share in zip(members.positions, layout.shares, strict=True)
    ]
    shape = (slots, model.num_classes)
    start = tuple(jnp.zeros((length, *shape), params.dtype) for length in lengths)

    def body(step: Any, found: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        rows, starts = take(pool, members, layout, step, num_steps)
        inputs, extras = [r.batch for r in rows], [r.extras for r in rows]
        logits: Any = model.apply(variables, inputs, extras)
        # Empty blocks write past the end of their step; the next step overwrites them.
        parts = jnp.split(logits.reshape(-1, *shape), np.cumsum(layout.shares)[:-1])
        return tuple(
            jax.lax.dynamic_update_slice_in_dim(f, part, at, 0)
            for f, part, at in zip(found, parts, starts, strict=True)
        )

    found = jax.lax.fori_loop(0, num_steps, body, start)
    logits = [
        f[: len(rows)].reshape(-1, model.num_classes)
        for f, rows in zip(found, members.positions, strict=True)
    ]
    whole = [
        jax.tree.map(lambda x, at=at: x[at], rows)
        for rows, at in zip(pool, members.positions, strict=True)
    ]
    labels, real = slot_labels(whole)
    return jnp.concatenate(logits), labels, real


def _epoch(
    program: Program,
    state: State,
    pool: tuple[Blocks, ...],
    train: Members,
    valid: Members,
    hyper: TracedHyperparameters,
) -> tuple[State, jax.Array]:
    """One epoch: train, validate, and keep the best model."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.epoch)
    order_key, step_key = jax.random.split(key)
    members, num_steps = train.shuffled(order_key), train.num_steps(program.layout)
    rate = hyper.learning_rate * hyper.decay_factor ** (state.epoch // hyper.decay_every)
    update = optimizer(hyper, rate).update

    def body(step: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        params, stats, opt, total = carry
        rows, _ = take(pool, members, program.layout, step, num_steps)
        # Differentiated by the tree: the gradient of slicing the vector would be a sum of vectors
        # of full length, one per parameter.
        weights = unravel(program.model, rows, params)
        gradient, (stats, loss) = jax.grad(_loss, argnums=1, has_aux=True)(
            program, weights, stats, rows, jax.random.fold_in(step_key, step)
        )
        change, opt = update(ravel_pytree(gradient)[0], opt, params)
        return optax.apply_updates(params, change), stats, opt, total + loss

    start = (state.params, state.stats, state.optimizer, jnp.zeros((), state.params.dtype))
    params, stats, opt, total = jax.lax.fori_loop(0, num_steps, body, start)

    logits, labels, real = predict(program.model, program.layout, params, stats, pool, valid)
    metric, larger = metrics.METRICS[program.select]
    loss = metrics.cross_entropy(logits, labels, real).astype(params.dtype)
    score = metric(logits, labels, real).astype(params.dtype)
    signed = score if larger else -score
    better = (signed > state.best_score) | ((signed == state.best_score) & (loss < state.best_loss))
    # The argmax of NaN logits is 0, so a diverged model may have a good score.
    better &= jnp.isfinite(loss) & jnp.isfinite(total)
    epoch = state.epoch + 1
    keep = lambda new, old: jax.tree.map(lambda a, b: jnp.where(better, a, b), new, old)  # noqa: E731
    best_epoch = keep(epoch, state.best_epoch)
    waited = (epoch >= hyper.patience_from) & (epoch - best_epoch >= hyper.patience)
    # A diverged run cannot recover.
    diverged = ~jnp.isfinite(total)
    after = State(
        params=params,
        stats=stats,
        optimizer=opt,
        key=state.key,
        epoch=epoch,
        stopped=waited | diverged,
        best_params=keep(params, state.best_params),
        best_stats=keep(stats, state.best_stats),
        best_score=keep(signed, state.best_score),
        best_loss=keep(loss, state.best_loss),
        best_epoch=best_epoch,
    )
    return after, jnp.stack([total / num_steps, loss, score])


def _loss(
    program: Program,
    weights: Any,
    stats: Any,
    rows: tuple[Blocks, ...],
    key: jax.Array,
) -> tuple[jax.Array, tuple[Any, jax.Array]]:
    """Soft-label cross entropy of one step, with the hooks of the augmentation."""
    model, augment = program.model, program.augment
    graph_key, mix_key, encode_key, head_key = jax.random.split(key, 4)
    inputs = [
        augment.on_graphs(jax.random.fold_in(graph_key, i), r.batch) for i, r in enumerate(rows)
    ]
    extras = [
        model.prepare(batch) if augment.per_step else r.extras
        for batch, r in zip(inputs, rows, strict=True)
    ]
    variables = {"params": weights, "batch_stats": stats}
    representations, changed = model.apply(
        variables,
        inputs,
        extras,
        train=True,
        method=model.encode,
        mutable=["batch_stats"],
        rngs={"dropout": encode_key},
    )
    labels, real = slot_labels(rows)
    representations, labels = augment.on_representations(mix_key, representations, labels, real)
    logits = model.apply(
        variables, representations, train=True, method=model.classify, rngs={"dropout": head_key}
    )
    loss = metrics.cross_entropy(logits, labels, real)
    return loss, (changed.get("batch_stats", {}), loss)
