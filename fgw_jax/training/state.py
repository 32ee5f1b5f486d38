"""What a training run carries from epoch to epoch."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from fgw_jax.backbones.model import Backbone
from fgw_jax.training.config import Numbers
from fgw_jax.training.packing import Rows


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Everything the next epoch depends on, and the best model so far.

    Parameters lie in one vector: the optimiser is then a handful of operations instead of a
    handful for each parameter. Random numbers of an epoch are drawn from ``key`` and its number.
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


def optimizer(numbers: Numbers, learning_rate: Any) -> optax.GradientTransformation:
    """AdamW, after clipping."""
    return optax.chain(
        optax.clip_by_global_norm(numbers.clip_norm),
        optax.adamw(learning_rate, weight_decay=numbers.weight_decay),
    )


def sample(pool: tuple[Rows, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Inputs and extras of one row of each size: enough to make parameters from."""
    one = jax.tree.map(lambda x: x[:1], pool)
    return tuple(rows.batch for rows in one), tuple(rows.extras for rows in one)


def initial(model: Backbone, pool: tuple[Rows, ...], numbers: Numbers, key: jax.Array) -> State:
    """The state before the first epoch."""
    weights_key, run_key = jax.random.split(key)
    params, stats = _variables(model, weights_key, *sample(pool))
    worst = jnp.asarray(jnp.inf, params.dtype)
    return State(
        params=params,
        stats=stats,
        optimizer=optimizer(numbers, numbers.learning_rate).init(params),
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
    """Parameters as a vector, and batch moments; compiled, or each operation would be by itself."""
    variables = model.init(key, inputs, extras)
    return ravel_pytree(variables["params"])[0], variables.get("batch_stats", {})


def unravel(model: Backbone, pool: tuple[Rows, ...], vector: jax.Array) -> Any:
    """The parameter tree of a vector."""
    shapes = jax.eval_shape(model.init, jax.random.key(0), *sample(pool))["params"]
    leaves, tree = jax.tree.flatten(shapes)
    out, start = [], 0
    for leaf in leaves:
        out.append(vector[start : start + leaf.size].reshape(leaf.shape))
        start += leaf.size
    return jax.tree.unflatten(tree, out)
