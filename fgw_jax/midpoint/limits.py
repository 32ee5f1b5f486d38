"""What a midpoint's objective cannot be below, and what it could be."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.fgw import bounds
from fgw_jax.midpoint.objective import MidpointProblem, reciprocal

#: Pairs of sources whose lower bounds are computed at once.
PAIRS_AT_ONCE = 32


def limits(
    problem: MidpointProblem, plans: jax.Array, alignments: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    r"""What the objective cannot be below, and about what it could be.

    .. math::

        \sum_{i<j} w_i w_j\, L(G_i, G_j), \qquad
        \sum_{i<j} w_i w_j\, \min_{\pi\ \text{known}} \mathrm{FGW}(G_i, G_j; \pi)

    Proof of the bound. Let :math:`\pi_i` be any plans of a midpoint with structure A and features
    X. Glue them over the new nodes: :math:`\pi_{ij} = \pi_i^\top \mathrm{diag}(1/\tilde\mu)\,
    \pi_j` has the marginals of a plan between sources i and j, and all of them are the pair
    marginals of one joint law. For numbers, :math:`\sum_i w_i |a_i - x|^2 \ge \sum_{i<j} w_i w_j
    |a_i - a_j|^2` with equality at the mean, and the same holds for vectors. Take it at x = A_kl
    and the joint law of the entries of the A_i glued there, and at x = X_k likewise, and sum:
    :math:`\sum_i w_i \mathrm{FGW}(\tilde G, G_i; \pi_i) \ge \sum_{i<j} w_i w_j
    \mathrm{FGW}(G_i, G_j; \pi_{ij})`, which is at least the same sum of minima, and each minimum is
    at least L. The plans known are the alignment and the glued plan.

    Args:
        problem: the sources, ``S`` of them.
        plans: ``[S, n, m]`` plans of a midpoint.
        alignments: ``[S, m, m]`` plans from the main source to every source, if there are any.

    Returns:
        The bound and the estimate, two scalars.
    """
    first, second = np.triu_indices(problem.num_sources, 1)
    spread = plans * reciprocal(problem.new_weights)[:, None]

    def between_two(pair):
        i, j = pair
        one, other = problem.source(i), problem.source(j)
        between = problem.between(one, other)
        norms = one.weights @ (one.features**2).sum(1) + other.weights @ (other.features**2).sum(1)
        # Features are compared by one product here, which rounds.
        rounding = 8.0 * jnp.finfo(norms.dtype).eps * (1.0 - problem.alpha) * norms
        below = bounds.lower_bound(between, max_pivots=sum(between.shape)) - rounding
        below = jnp.maximum(below, 0.0)
        glued = plans[i].T @ spread[j]
        value = between.value(glued)
        if alignments is None:
            return below, value
        # Between two sources of which neither is the main one no alignment is known.
        known = jnp.where(i == problem.main, alignments[j], alignments[i].T)
        known = jnp.where((i == problem.main) | (j == problem.main), known, glued)
        return below, jnp.minimum(value, between.value(known))

    # The pairs of many sources some at a time: memory does not grow with their square.
    both = jax.lax.map(between_two, (first, second), batch_size=PAIRS_AT_ONCE)
    products = problem.ratios[first] * problem.ratios[second]
    return products @ both[0], products @ both[1]
