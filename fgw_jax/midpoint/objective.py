r"""The midpoint problem, Eq. 2 of the paper, for any number of source graphs.

.. math::

    \min_{\tilde A, \tilde X, \pi_1, \dots, \pi_S} \sum_i w_i\,
        \mathrm{FGW}(\tilde G, G_i; \pi_i), \qquad \pi_i \in \Pi(\tilde\mu, \mu_i)

For given plans the best :math:`\tilde A` and :math:`\tilde X` are averages (Alg. 1, lines 7 and 8),
so the objective is a function of the plans alone; its gradient is the gradient of each FGW at the
averages (envelope theorem), which is what :func:`gradients` gives.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from fgw_jax.fgw.problem import Problem
from fgw_jax.graphs import Graph


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class MidpointProblem:
    """Source graphs, their weights, and what is known of the midpoint beforehand.

    Attributes:
        structures: ``[n_i, n_i]`` structure of each source.
        features: ``[n_i, d]`` features of each source, less ``centre``.
        weights: ``[n_i]`` node weights of each source.
        ratios: ``[S]`` mixing weights on the simplex.
        new_weights: ``[n]`` uniform weights of the new nodes, zero on padding.
        centre: ``[d]`` mean feature, taken off so that squared distances keep their digits.
        alpha: structure against features.
        fixed_structure: ``[n, n]``, when the structure is given and kept.
        fixed_features: ``[n, d]``, less ``centre``, when the features are given and kept.
    """

    structures: tuple[Any, ...]
    features: tuple[Any, ...]
    weights: tuple[Any, ...]
    ratios: Any
    new_weights: Any
    centre: Any
    alpha: Any
    fixed_structure: Any = None
    fixed_features: Any = None

    @property
    def num_sources(self) -> int:
        """Number of source graphs."""
        return len(self.structures)

    def source_problem(self, i: int, j: int) -> Problem:
        """FGW between source ``i`` and source ``j``."""
        cost = squared_distances(self.features[i], self.features[j])
        return Problem(
            self.structures[i],
            self.structures[j],
            _alive(cost, self.weights[i], self.weights[j]),
            self.weights[i],
            self.weights[j],
            self.alpha,
        )

    def transport(self, structure: jax.Array, features: jax.Array, i: int) -> Problem:
        """FGW between a midpoint with this structure and features, and source ``i``."""
        cost = squared_distances(features, self.features[i])
        return Problem(
            structure,
            self.structures[i],
            _alive(cost, self.new_weights, self.weights[i]),
            self.new_weights,
            self.weights[i],
            self.alpha,
        )

    def update(self, plans: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        r"""Structure and features that minimise the objective for these plans, lines 7 and 8.

        .. math::

            \tilde A = \tfrac{1}{\tilde\mu \tilde\mu^\top} \odot \sum_i w_i \pi_i A_i \pi_i^\top,
            \qquad \tilde X = \sum_i w_i\, \mathrm{diag}(1/\tilde\mu)\, \pi_i X_i

        Symmetric to the last bit.
        """
        return self.average([p @ a for p, a in zip(plans, self.structures, strict=True)], plans)

    def average(self, halves: Any, plans: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        """:meth:`update` when the products pi_i A_i (``halves``) are there already."""
        inverse = reciprocal(self.new_weights)
        structure, features = self.fixed_structure, self.fixed_features
        if structure is None:
            total = sum(
                w * (half @ plan.T)
                for w, half, plan in zip(self.ratios, halves, plans, strict=True)
            )
            total = total * (inverse[:, None] * inverse[None, :])
            structure = 0.5 * (total + total.T)
        if features is None:
            features = sum(
                w * (inverse[:, None] * (plan @ x))
                for w, plan, x in zip(self.ratios, plans, self.features, strict=True)
            )
        return structure, features

    def values(
        self, structure: jax.Array, features: jax.Array, plans: tuple[jax.Array, ...]
    ) -> jax.Array:
        """FGW to each source, ``[S]``, as in Eq. 1 at its own plan."""
        return jnp.stack(
            [self.transport(structure, features, i).value(p) for i, p in enumerate(plans)]
        )

    def value(
        self, structure: jax.Array, features: jax.Array, plans: tuple[jax.Array, ...]
    ) -> jax.Array:
        """The objective: the values weighted by the ratios."""
        return self.values(structure, features, plans) @ self.ratios

    def gradients(self, plans: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        """Gradient of the objective reduced over structure and features, for each plan (over w_i).

        Each is ``(1 - alpha) D_i - 4 alpha A pi_i A_i`` at the averages; pi_i A_i is computed once
        for the average and the gradient.
        """
        halves = [p @ a for p, a in zip(plans, self.structures, strict=True)]
        structure, features = self.average(halves, plans)
        return tuple(
            (1.0 - self.alpha) * squared_distances(features, x)
            - 4.0 * self.alpha * structure @ half
            for x, half in zip(self.features, halves, strict=True)
        )


def problem_of(
    sources: tuple[Graph, ...],
    ratios: jax.Array,
    size: jax.Array,
    padded_size: int,
    alpha: jax.Array,
    fixed_structure: jax.Array | None = None,
    fixed_features: jax.Array | None = None,
) -> MidpointProblem:
    """The problem of a midpoint of ``size`` nodes (traced), padded to ``padded_size``."""
    dtype = jnp.result_type(*(g.features for g in sources), float)
    ratios = jnp.asarray(ratios, dtype)
    masks = [jnp.asarray(g.mask)[:, None] for g in sources]
    raw = [jnp.where(m, g.features, 0.0).astype(dtype) for m, g in zip(masks, sources, strict=True)]
    means = [x.sum(0) / jnp.maximum(m.sum(), 1) for x, m in zip(raw, masks, strict=True)]
    centre = sum(w * mean for w, mean in zip(ratios, means, strict=True))
    features = tuple(jnp.where(m, x - centre, 0.0) for x, m in zip(raw, masks, strict=True))
    real = jnp.arange(padded_size) < size
    return MidpointProblem(
        tuple(jnp.asarray(g.structure, dtype) for g in sources),
        features,
        tuple(jnp.asarray(g.weights, dtype) for g in sources),
        ratios,
        jnp.where(real, 1.0 / size, 0.0).astype(dtype),
        centre,
        jnp.asarray(alpha, dtype),
        fixed_structure,
        None if fixed_features is None else jnp.where(real[:, None], fixed_features - centre, 0.0),
    )


def squared_distances(x: jax.Array, y: jax.Array) -> jax.Array:
    """|x_i - y_j|^2 ``[n, m]`` by one product; ``x`` and ``y`` are centred beforehand."""
    norms = (x**2).sum(1)[:, None] + (y**2).sum(1)[None, :]
    return jnp.maximum(norms - 2.0 * x @ y.T, 0.0)


def reciprocal(weights: jax.Array) -> jax.Array:
    """1 / weights, zero where the weight is zero."""
    positive = weights > 0
    return jnp.where(positive, 1.0 / jnp.where(positive, weights, 1.0), 0.0)


def _alive(cost: jax.Array, weights1: jax.Array, weights2: jax.Array) -> jax.Array:
    return jnp.where((weights1 > 0)[:, None] & (weights2 > 0)[None, :], cost, 0.0)
