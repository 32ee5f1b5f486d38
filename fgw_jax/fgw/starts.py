"""Starting plans: warm, product with ties broken, and a portfolio of several.

Equal labels and equal degrees make many nodes interchangeable; started from the plain product
coupling, descent then sits on a symmetric saddle (7 % above the conditional gradient on PROTEINS,
1 % with ties broken). The noise that breaks ties depends on the rank of a node among its graph's
nodes, never on its position in memory, so that padding, batch order and (where features are
generic) node order do not change the result.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fgw_jax.fgw import iteration
from fgw_jax.fgw.iteration import Output
from fgw_jax.fgw.problem import Problem
from fgw_jax.fgw.projections import safe_log

#: Share of the product coupling mixed into a warm start: zeros would never come back.
WARM_MIX = 1e-3


#: Hops of the node signatures, and how sharply the signature start prefers equal signatures.
NUM_HOPS = 6
SHARPNESS = 2.0


def portfolio(problem: Problem, count: int, noise: ArrayLike) -> jax.Array:
    """Logarithms of ``count`` starts ``[count, n, m]``, the default start first.

    By turns the product coupling and the signature start, each with ties broken by its own seed.
    """
    product = safe_log(problem.weights1)[:, None] + safe_log(problem.weights2)[None, :]
    numbers = jnp.arange(count)
    by_signature = (numbers % 2 == 1).astype(product.dtype)
    ties = jax.vmap(lambda seed: tie_breaker(problem, seed))(numbers // 2)
    prior = SHARPNESS * signature_cost(problem)
    return product + noise * ties - by_signature[:, None, None] * prior


def best_of(solver: Any, problem: Problem, plan: jax.Array | None) -> Output:
    """The output of least value over ``solver.starts`` starts, and ``plan`` if there is one."""
    if solver.starts == 1:
        return iteration.run(solver, problem, plan)

    def one(log_plan):
        return iteration.iterate(solver, problem, solver.init(problem, log_plan=log_plan))

    logs = portfolio(problem, solver.starts, solver.noise)
    # Side by side is no faster on a CPU, and several times slower where graphs are large: what is
    # compiled for one lane does not expect two.
    outs = jax.lax.map(one, logs) if jax.default_backend() == "cpu" else jax.vmap(one)(logs)
    best = jnp.argmin(outs.value)
    out = jax.tree.map(lambda x: x[best], outs)
    if plan is None:
        return out
    given = iteration.run(solver, problem, plan)
    return jax.tree.map(lambda a, b: jnp.where(given.value <= out.value, a, b), given, out)


def signature_cost(problem: Problem, num_hops: int = NUM_HOPS) -> jax.Array:
    r"""Squared differences ``[n, m]`` of node signatures: features and degrees, propagated.

    A node's signature holds :math:`(A/s)^t \mu` and :math:`(A/s)^t (\mu \odot r)` for every hop t,
    where r is the mean feature cost of a node to the other graph. Nodes that an isomorphism maps
    on each other agree in all of it.
    """
    rows, columns = problem.cost @ problem.weights2, problem.weights1 @ problem.cost
    first = jnp.stack([problem.weights1, problem.weights1 * rows], 1)
    second = jnp.stack([problem.weights2, problem.weights2 * columns], 1)
    tiny = jnp.finfo(problem.cost.dtype).tiny
    total = _scaled(problem, problem.cost)
    for _ in range(num_hops):
        first, second = problem.structure1 @ first, problem.structure2 @ second
        spread = jnp.maximum(jnp.abs(first).max(0), jnp.abs(second).max(0))
        first, second = first / jnp.maximum(spread, tiny), second / jnp.maximum(spread, tiny)
        for a, b in zip(first.T, second.T, strict=True):
            total = total + _scaled(problem, (a[:, None] - b[None, :]) ** 2)
    return total


def _scaled(problem: Problem, cost: jax.Array) -> jax.Array:
    """``cost`` in units of its mean over pairs of nodes; zero stays zero."""
    mean = problem.weights1 @ cost @ problem.weights2
    return cost / jnp.where(mean > 0, mean, 1.0)


def log_start(problem: Problem, plan: jax.Array | None, noise: ArrayLike, seed: int = 0):
    """Logarithm of the start ``[n, m]``: a warm plan, or the product with ties broken."""
    if plan is not None:
        return safe_log((1.0 - WARM_MIX) * plan + WARM_MIX * problem.product)
    product = safe_log(problem.weights1)[:, None] + safe_log(problem.weights2)[None, :]
    if isinstance(noise, float) and noise == 0.0:
        return product
    return product + noise * tie_breaker(problem, seed)


def scaled(problem: Problem, plan: ArrayLike) -> jax.Array:
    """A given plan ``[n, m]``, of any type and mass: a permutation is a plan too."""
    plan = jnp.asarray(plan, problem.cost.dtype)
    return plan * (problem.weights1.sum() / plan.sum())


def tie_breaker(problem: Problem, seed: ArrayLike = 0) -> jax.Array:
    """Noise ``[n, m]`` of unit variance that is a function of the ranks of the two nodes."""
    rows = _ranks(problem.structure1, problem.cost @ problem.weights2, problem.weights1)
    columns = _ranks(problem.structure2, problem.weights1 @ problem.cost, problem.weights2)
    salt = jnp.asarray(seed, jnp.uint32) + jnp.uint32(1)
    first = _mix(rows.astype(jnp.uint32) + jnp.uint32(0x9E3779B9) * salt)
    second = _mix(columns.astype(jnp.uint32) + jnp.uint32(0x9E3779B9) * salt)
    # A symmetric combination: exchanging the two graphs transposes the noise.
    code = _mix(first[:, None] * second[None, :] + first[:, None] + second[None, :])
    # The sum of four uniform bytes is close to normal, and far cheaper than a logarithm and a
    # cosine; mean 4 * 127.5, variance 4 * (256^2 - 1) / 12.
    bytes_ = (code & 0xFF) + (code >> 8 & 0xFF) + (code >> 16 & 0xFF) + (code >> 24)
    return (bytes_.astype(problem.cost.dtype) - 510.0) / 147.80


def _ranks(structure: jax.Array, cost: jax.Array, weights: jax.Array) -> jax.Array:
    """Rank of a node by mean feature cost, its own and its neighbours'; weightless nodes last."""
    # Each term in units of its own: ranks do not depend on the scale of costs and structures.
    carries = weights > 0
    terms = cost, structure @ (weights * cost), structure @ weights
    own, near, degree = (_in_units(jnp.where(carries, term, 0.0)) for term in terms)
    signature = own + near + 0.5 * degree
    # Signatures that agree up to rounding are ties and keep their order, so that the rounding of
    # another padded shape cannot exchange them. Counting n^2 comparisons costs less than one step
    # of a solver, and compiles faster than a sort.
    tolerance = 1e-5 * jnp.where(weights > 0, jnp.abs(signature), 0.0).max()
    signature = jnp.where(weights > 0, signature, jnp.finfo(signature.dtype).max)
    ahead = signature[None, :] - signature[:, None]
    place = jnp.arange(len(signature))
    tied = ~(jnp.abs(ahead) > tolerance) & (place[None, :] < place[:, None])
    return ((ahead < -tolerance) | tied).sum(1)


def _in_units(x: jax.Array) -> jax.Array:
    """``x`` divided by a power of two of its own size, which rounds nothing."""
    return jnp.ldexp(x, -jnp.frexp(jnp.abs(x).max())[1])


def _mix(h: jax.Array) -> jax.Array:
    """Avalanche of 32 bits (the finaliser of MurmurHash3)."""
    h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
    return h ^ (h >> 16)
