"""The state of a training run, its optimizer and its initialization."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from fgw_jax.backbones.model import Backbone
from fgw_jax.training.config import TracedHyperparameters
from fgw_jax.training.pool import Blocks


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Everything the next epoch depends on, and the best model so far.

    Parameters are one vector, so that the optimizer is a few operations in all instead of a few
    per parameter. Random numbers of an epoch follow from ``key`` and the epoch's number.
    """

    params: jax.Array
    stats: Any
    optimizer: Any
    key: jax.Array
    epoch: jax.Array
    stopped: jax.Array
    best_params: jax.Array
    best_stats: Any
    best_score: jax.Array
    best_loss: jax.Array
    best_epoch: jax.Array


def optimizer(hyper: TracedHyperparameters, learning_rate: Any) -> optax.GradientTransformation:
    """Gradient clipping, then AdamW."""
    return optax.chain(
        optax.clip_by_global_norm(hyper.clip_norm),
        optax.adamw(learning_rate, weight_decay=hyper.weight_decay),
    )


def sample(pool: tuple[Blocks, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Inputs and extras of one block of each size, enough to initialize parameters."""
    one = jax.tree.map(lambda x: x[:1], pool)
    return tuple(rows.batch for rows in one), tuple(rows.extras for rows in one)


def initial(
    model: Backbone, pool: tuple[Blocks, ...], hyper: TracedHyperparameters, key: jax.Array
) -> State:
    """The state before the first epoch."""
    weights_key, run_key = jax.random.split(key)
    params, stats = _variables(model, weights_key, *sample(pool))
    worst = jnp.asarray(jnp.inf, params.dtype)
    return State(
        params=params,
        stats=stats,
        optimizer=optimizer(hyper, hyper.learning_rate).init(params),
        key=jax.random.key_data(run_key),
        epoch=jnp.zeros((), jnp.int32),
        stopped=jnp.zeros((), bool),
        best_params=params,
        best_stats=stats,
        best_score=-worst,
        best_loss=worst,
        best_epoch=jnp.zeros((), jnp.int32),
    )


@functools.partial(jax.jit, static_argnames="model")
def _variables(model: Backbone, key: jax.Array, inputs: Any, extras: Any) -> tuple[jax.Array, Any]:
    """Parameters as a vector, and batch moments; one compiled call instead of one per operation."""
    variables = model.init(key, inputs, extras)
    return ravel_pytree(variables["params"])[0], variables.get("batch_stats", {})


def unravel(model: Backbone, pool: tuple[Blocks, ...], vector: jax.Array) -> Any:
    """The parameter tree of a vector."""
    shapes = jax.eval_shape(model.init, jax.random.key(0), *sample(pool))["params"]
    leaves, tree = jax.tree.flatten(shapes)
    out, start = [], 0
    for leaf in leaves:
        out.append(vector[start : start + leaf.size].reshape(leaf.shape))
        start += leaf.size
    return jax.tree.unflatten(tree, out)
