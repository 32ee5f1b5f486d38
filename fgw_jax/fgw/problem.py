r"""The FGW problem between two graphs: cost, objective, gradient.

Eq. 1 of the paper, over plans :math:`\pi` with marginals :math:`\mu_1, \mu_2`:

.. math::

    \mathrm{FGW}_q = \min_\pi \sum_{ijkl} \left((1-\alpha)\, d(x_i, y_j)^q
        + \alpha\, |A_1(i,k) - A_2(j,l)|^q\right) \pi_{ij} \pi_{kl}

For q = 2 the fourfold sum factors through :math:`A_1 \pi A_2` (appendix A.1), so that nothing
larger than the inputs is ever built. For q = 1 it is contracted directly, a row at a time.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fgw_jax.errors import InputError, check
from fgw_jax.graphs import Graph

FEATURE_COSTS = ("sqeuclidean", "euclidean")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Two padded graphs seen by a solver: structures, feature cost, weights, trade-off.

    Attributes:
        structure1: ``[n, n]`` structure A1.
        structure2: ``[m, m]`` structure A2.
        cost: ``[n, m]`` feature cost D, zero on padding.
        weights1: ``[n]`` weights mu1, zero on padding.
        weights2: ``[m]`` weights mu2, zero on padding.
        alpha: weight of structure against features, in [0, 1].
        q: exponent of Eq. 1, 1 or 2 (static).
    """

    structure1: Any
    structure2: Any
    cost: Any
    weights1: Any
    weights2: Any
    alpha: Any
    q: int = dataclasses.field(default=2, metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Padded shape of a plan."""
        return self.cost.shape

    @property
    def product(self) -> jax.Array:
        """The product coupling mu1 mu2^T, ``[n, m]``: feasible, and the classical start."""
        return self.weights1[:, None] * self.weights2[None, :]

    def structure_product(self, plan: jax.Array) -> jax.Array:
        """A1 pi A2, ``[n, m]``: the only cubic operation of the package."""
        return self.structure1 @ plan @ self.structure2

    def gradient(self, plan: jax.Array) -> jax.Array:
        """Gradient of Eq. 1 on feasible plans, up to terms constant along rows or columns.

        q = 2: ``(1 - alpha) D - 4 alpha A1 pi A2`` (Eq. 6); q = 1:
        ``(1 - alpha) D + 2 alpha L(A1, A2) (x) pi``.
        """
        if self.q == 2:
            quadratic = -4.0 * self.structure_product(plan)
        else:
            quadratic = 2.0 * _absolute_product(self.structure1, self.structure2, plan)
        return (1.0 - self.alpha) * self.cost + self.alpha * quadratic

    def scale(self) -> jax.Array:
        """Size of the structure terms of Eq. 1, added up without their cancellation.

        What rounding leaves of the value of two equal graphs is small beside it. Feature costs do
        not enter: those a plan pays are part of its value, and those it avoids may be huge.
        """
        size = (lambda a: a**2) if self.q == 2 else jnp.abs
        first = self.weights1 @ (size(self.structure1) @ self.weights1)
        second = self.weights2 @ (size(self.structure2) @ self.weights2)
        return self.alpha * (first + second)

    def parts(self, plan: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Linear and quadratic part of Eq. 1 at ``plan``; they add up to the value.

        All four sums run over the plan itself, marginals included, so that the figure is Eq. 1
        for plans that miss their marginals as well.
        """
        linear = (1.0 - self.alpha) * jnp.vdot(self.cost, plan) * plan.sum()
        if self.q == 2:
            rows, columns = plan.sum(1), plan.sum(0)
            # Each structure is centred by the mean of both: differences stay, cancellation shrinks.
            shift = 0.5 * (
                self.weights1 @ self.structure1 @ self.weights1
                + self.weights2 @ self.structure2 @ self.weights2
            )
            a, b = self.structure1 - shift, self.structure2 - shift
            squares = rows @ (a**2 @ rows) + columns @ (b**2 @ columns)
            quadratic = jnp.maximum(squares - 2.0 * jnp.vdot(a @ plan @ b, plan), 0.0)
        else:
            product = _absolute_product(self.structure1, self.structure2, plan)
            quadratic = jnp.vdot(product, plan)
        return linear, self.alpha * quadratic

    def value(self, plan: jax.Array) -> jax.Array:
        """Eq. 1 at ``plan``, constants included."""
        linear, quadratic = self.parts(plan)
        return linear + quadratic

    def objective(self, plan: jax.Array) -> jax.Array:
        """Eq. 1 at ``plan``, in as few operations as possible: for stopping tests.

        Without the centring of :meth:`parts` it keeps fewer digits when structures are nearly
        constant and large.
        """
        if self.q != 2:
            return self.value(plan)
        rows, columns = plan.sum(1), plan.sum(0)
        squares = rows @ (self.structure1**2 @ rows) + columns @ (self.structure2**2 @ columns)
        inner = (1.0 - self.alpha) * rows.sum() * self.cost
        inner = inner - 2.0 * self.alpha * self.structure_product(plan)
        return self.alpha * squares + jnp.vdot(inner, plan)

    def marginal_error(self, plan: jax.Array) -> jax.Array:
        """L1 error of the plan's marginals, the larger of the two sides."""
        rows = jnp.abs(plan.sum(1) - self.weights1).sum()
        columns = jnp.abs(plan.sum(0) - self.weights2).sum()
        return jnp.maximum(rows, columns)


def from_graphs(
    graph1: Graph,
    graph2: Graph,
    alpha: ArrayLike,
    q: int = 2,
    feature_cost: str | ArrayLike = "sqeuclidean",
) -> Problem:
    """The problem between two (possibly padded) graphs.

    What does not count is not allowed to overflow: at ``alpha = 1`` feature costs that are not
    finite, and at ``alpha = 0`` structures whose squares are not, are left out (0 times infinity
    is NaN).
    """
    cost = feature_costs(graph1, graph2, feature_cost)
    dtype = cost.dtype
    alpha = jnp.asarray(alpha, dtype)
    cost = jnp.where((alpha == 1) & ~jnp.isfinite(cost), 0, cost)
    structures = [jnp.asarray(graph.structure, dtype) for graph in (graph1, graph2)]
    largest = jnp.maximum(*(jnp.abs(a).max() for a in structures))
    huge = (alpha == 0) & (largest > 0.25 * jnp.finfo(dtype).max ** 0.5)
    first, second = (jnp.where(huge, 0, a) for a in structures)
    weights1, weights2 = (jnp.asarray(graph.weights, dtype) for graph in (graph1, graph2))
    return Problem(first, second, cost, weights1, weights2, alpha, q)


def feature_costs(
    graph1: Graph, graph2: Graph, feature_cost: str | ArrayLike = "sqeuclidean"
) -> jax.Array:
    """D ``[n, m]``: ``"sqeuclidean"`` |x - y|^2, ``"euclidean"`` |x - y|, or a given matrix.

    Squared differences are summed one by one; the expansion |x|^2 + |y|^2 - 2xy would lose every
    digit in float32 once features are large.
    """
    if isinstance(feature_cost, str):
        check_feature_cost(feature_cost)
        x, y = jnp.asarray(graph1.features), jnp.asarray(graph2.features)
        cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
        if feature_cost == "euclidean":
            # The gradient of sqrt at 0 is infinite; equal features must not poison it.
            positive = cost > 0
            cost = jnp.where(positive, jnp.sqrt(jnp.where(positive, cost, 1.0)), 0.0)
    else:
        cost = jnp.asarray(feature_cost, jnp.result_type(float))
        shape = (graph1.mask.shape[-1], graph2.mask.shape[-1])
        check(
            cost.shape == shape,
            f"feature_cost: expected a matrix of shape {shape}, got {cost.shape}; "
            "give one row a node of the first graph, one column a node of the second",
        )
    both = jnp.asarray(graph1.mask)[:, None] & jnp.asarray(graph2.mask)[None, :]
    return jnp.where(both, cost, 0.0)


def check_feature_cost(feature_cost: str) -> None:
    """Refuse an unknown name of a feature cost."""
    if feature_cost not in FEATURE_COSTS:
        raise InputError(
            f"feature_cost: unknown name {feature_cost!r}; use one of {FEATURE_COSTS}, "
            "or pass an [n, m] matrix to distance()"
        )


def _absolute_product(a: jax.Array, b: jax.Array, plan: jax.Array) -> jax.Array:
    """Sum over k, l of |a_ik - b_jl| pi_kl, ``[n, m]``; n^2 m^2 work, n m^2 memory."""

    def row(a_i):
        # [n, m, m]: |a_ik - b_jl| for one i, contracted with the plan over k and l.
        return jnp.einsum("kjl,kl->j", jnp.abs(a_i[:, None, None] - b[None, :, :]), plan)

    return jax.lax.map(row, a)
