r"""The midpoint problem, Eq. 2 of the paper, for any number of source graphs.

.. math::

    \min_{\tilde A, \tilde X, \pi_1, \dots, \pi_S} \sum_i w_i\,
        \mathrm{FGW}(\tilde G, G_i; \pi_i), \qquad \pi_i \in \Pi(\tilde\mu, \mu_i)

For given plans the best :math:`\tilde A` and :math:`\tilde X` are averages (Alg. 1, lines 7 and 8),
so the objective is a function of the plans alone; its gradient is the gradient of each FGW at the
averages (envelope theorem).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fgw_jax.fgw.problem import Problem
from fgw_jax.graphs import Graph


class Source(NamedTuple):
    """A graph as the problem sees it.

    Attributes:
        structure: ``[m, m]``.
        features: ``[m, d]``, less the centre.
        weights: ``[m]``.
    """

    structure: Any
    features: Any
    weights: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class MidpointProblem:
    """Source graphs padded to ``m`` nodes and stacked, and the midpoint's weights on ``n`` nodes.

    Attributes:
        structures: ``[S, m, m]`` structures of the sources.
        features: ``[S, m, d]`` their features, less ``centre``.
        weights: ``[S, m]`` their node weights.
        ratios: ``[S]`` mixing weights on the simplex.
        new_weights: ``[n]`` weights of the new nodes, zero on padding.
        centre: ``[d]`` mean feature, taken off so that squared distances keep their digits.
        alpha: structure against features.
        fixed_structure: ``[n, n]``, when the structure is given and kept.
        fixed_features: ``[n, d]``, less ``centre``, when the features are given and kept.
    """

    structures: Any
    features: Any
    weights: Any
    ratios: Any
    new_weights: Any
    centre: Any
    alpha: Any
    fixed_structure: Any = None
    fixed_features: Any = None

    @property
    def num_sources(self) -> int:
        """Number of source graphs."""
        return self.structures.shape[0]

    @property
    def main(self) -> jax.Array:
        """Position of the source of largest weight."""
        return jnp.argmax(self.ratios)

    @property
    def sources(self) -> Source:
        """All sources, stacked: to be mapped over, which compiles to less than an index does."""
        return Source(self.structures, self.features, self.weights)

    def source(self, i: Any) -> Source:
        """Source ``i``, or those of several positions."""
        return jax.tree.map(lambda x: x[i], self.sources)

    def transport(self, structure: jax.Array, features: jax.Array, source: Source) -> Problem:
        """FGW between a midpoint of this structure and features and a source."""
        return self.between(Source(structure, features, self.new_weights), source)

    def between(self, first: Source, second: Source) -> Problem:
        """FGW between two graphs."""
        alive = (first.weights > 0)[:, None] & (second.weights > 0)[None, :]
        cost = jnp.where(alive, squared_distances(first.features, second.features), 0.0)
        return Problem(
            first.structure, second.structure, cost, first.weights, second.weights, self.alpha
        )

    def update(self, plans: jax.Array) -> tuple[jax.Array, jax.Array]:
        r"""Structure and features that minimise the objective for plans ``[S, n, m]``.

        Lines 7 and 8 of Alg. 1, symmetric to the last bit:

        .. math::

            \tilde A = \tfrac{1}{\tilde\mu \tilde\mu^\top} \odot \sum_i w_i \pi_i A_i \pi_i^\top,
            \qquad \tilde X = \sum_i w_i\, \mathrm{diag}(1/\tilde\mu)\, \pi_i X_i
        """
        inverse = reciprocal(self.new_weights)
        structure, features = self.fixed_structure, self.fixed_features
        if structure is None:
            structure = self.average_structure(self.structures, plans)
        if features is None:
            features = jnp.einsum("s,snm,smd->nd", self.ratios, plans, self.features)
            features = inverse[:, None] * features
        return structure, features

    def drift(self, plans: jax.Array) -> jax.Array:
        """What line 8 adds to the centred features ``[n, d]`` when row sums miss the weights."""
        rows = jnp.einsum("s,snm->n", self.ratios, plans) * reciprocal(self.new_weights)
        real = self.new_weights > 0
        return jnp.where(real, rows - 1.0, 0.0)[:, None] * self.centre[None, :]

    def average_structure(self, matrices: jax.Array, plans: jax.Array) -> jax.Array:
        """Line 7 for matrices ``[S, m, m]`` on the sources' nodes."""
        inverse = reciprocal(self.new_weights)
        halves = self.ratios[:, None, None] * (plans @ matrices)
        total = jnp.einsum("snm,skm->nk", halves, plans) * (inverse[:, None] * inverse[None, :])
        # One triangle copied to the other: a mean of both may round differently on either side.
        rows, columns = jnp.indices(total.shape, sparse=True)
        return jnp.where(rows <= columns, total, total.T)

    def values(self, structure: jax.Array, features: jax.Array, plans: jax.Array) -> jax.Array:
        """FGW to each source, ``[S]``, as in Eq. 1 at its own plan."""
        value = lambda s, plan: self.transport(structure, features, s).value(plan)  # noqa: E731
        return jax.vmap(value)(self.sources, plans)


def problem_of(
    sources: Graph,
    ratios: ArrayLike,
    new_weights: ArrayLike,
    alpha: ArrayLike,
    fixed_structure: ArrayLike | None = None,
    fixed_features: ArrayLike | None = None,
) -> MidpointProblem:
    """The problem of stacked sources (every field with a leading axis ``S``)."""
    dtype = jnp.result_type(sources.features, float)
    ratios, new_weights = jnp.asarray(ratios, dtype), jnp.asarray(new_weights, dtype)
    mask = jnp.asarray(sources.mask)[:, :, None]
    features = jnp.where(mask, jnp.asarray(sources.features, dtype), 0.0)
    means = features.sum(1) / jnp.maximum(mask.sum(1), 1).astype(dtype)
    centre = ratios @ means
    if fixed_features is not None:
        real = new_weights[:, None] > 0
        fixed_features = jnp.where(real, jnp.asarray(fixed_features, dtype) - centre, 0.0)
    return MidpointProblem(
        jnp.asarray(sources.structure, dtype),
        jnp.where(mask, features - centre, 0.0),
        jnp.asarray(sources.weights, dtype),
        ratios,
        new_weights,
        centre,
        jnp.asarray(alpha, dtype),
        None if fixed_structure is None else jnp.asarray(fixed_structure, dtype),
        fixed_features,
    )


def squared_distances(x: jax.Array, y: jax.Array) -> jax.Array:
    """|x_i - y_j|^2 ``[n, m]`` by one product; ``x`` and ``y`` are centred beforehand."""
    norms = (x**2).sum(1)[:, None] + (y**2).sum(1)[None, :]
    return jnp.maximum(norms - 2.0 * x @ y.T, 0.0)


def reciprocal(weights: jax.Array) -> jax.Array:
    """1 / weights, zero where the weight is zero."""
    positive = weights > 0
    return jnp.where(positive, 1.0 / jnp.where(positive, weights, 1.0), 0.0)
