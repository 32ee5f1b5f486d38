r"""Properties of distances that hold for every pair of graphs, as checks over batches of cases.

A check is a function of a seed, a number of cases and a kind of features; it returns a
:class:`Verdict` that names what was broken and where. What a nonconvex, local solver cannot promise
is counted by :func:`experiments.robustness.rates.rates`, and no violation.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from experiments.robustness.random_graphs import SIZE, SMALL, draw
from fgw_jax import Reference, Relaxed, Strict, distance
from fgw_jax.fgw import Output, Status, from_graphs, lower_bound
from fgw_jax.graphs import Batch
from fgw_jax.runtime import parallel

#: name -> solver, and which sides of its plans have their marginals.
SOLVERS: dict[str, tuple[Any, str]] = {
    "cg": (Strict(), "both"),
    "cg, 3 starts": (Strict(starts=3), "both"),
    "mirror": (Strict(method="mirror"), "both"),
    "relaxed": (Relaxed(), "mass"),
    "relaxed, rounded": (Relaxed(round=True), "both"),
    "literal": (Relaxed(step_size=1.0, schedule=None, plan="last"), "columns"),
    "reference": (Reference(), "both"),
}
#: ott-jax's solver is slow, hence tried on small graphs; its absolute epsilon underflows where the
#: features are huge, which its status reports.
REFERENCE_FEATURES = ("generic", "labels", "constant", "tiny", "offset")
#: L1 error of the marginals of a plan that is called feasible.
MARGINALS = 1e-5
#: Rounding of a value in float32: relative to itself, and to the largest squared structure, whose
#: terms cancel in the quadratic part.
ROUNDING = 2e-5, 4e-6


@dataclasses.dataclass
class Verdict:
    """Result of a check.

    Attributes:
        label: what was checked, and the seed that makes the cases again.
        count: cases tried.
        not_finite: cases with a NaN or an infinity anywhere.
        broken: property -> positions of the cases that break it.
    """

    label: str
    count: int
    not_finite: int = 0
    broken: dict[str, list[int]] = dataclasses.field(default_factory=dict)

    def require(self, name: str, holds: Any) -> None:
        """Record the cases where ``holds`` ``[B]`` is false."""
        where = np.flatnonzero(~np.broadcast_to(np.asarray(holds, bool), self.count))
        if len(where):
            self.broken[name] = where.tolist()

    def require_finite(self, *trees: Any) -> None:
        """Record the cases with an entry that is not finite; leaves have a leading axis ``[B]``."""
        leaves = [np.asarray(x, float).reshape(self.count, -1) for x in jax.tree.leaves(trees)]
        finite = np.all([np.isfinite(x).all(1) for x in leaves], axis=0)
        self.not_finite += int((~finite).sum())
        self.require("finite", finite)

    def __str__(self) -> str:
        """One line per violated property."""
        lines = [f"{name}: cases {where}" for name, where in self.broken.items()]
        return "\n".join([f"{self.label}, {self.count} cases", *lines])


Check = Callable[[int, int, str], Verdict]


@functools.cache
def solve_batch(name: str) -> Callable[..., Output]:
    """Compiled ``(batch1, batch2, alpha[, init]) -> Output`` of a solver."""
    solver = SOLVERS[name][0]

    def one(graph1, graph2, alpha, init=None):
        return distance(graph1, graph2, alpha, solver, init)

    return parallel.compiled(jax.vmap(one))


def solve(name: str, *arguments: Any) -> Output:
    """Output of a batch on the host."""
    return jax.tree.map(np.asarray, solve_batch(name)(*arguments))


@parallel.compiled
def lower_bounds(batch1: Any, batch2: Any, alpha: Any) -> jax.Array:
    """Lower bounds ``[B]`` of the pairs."""
    return jax.vmap(lower_bound)(batch1, batch2, alpha)


def exact_parts(batch1: Batch, batch2: Batch, plans: Any) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 1 at alpha 0 and at alpha 1 ``[B]``, from the graphs and the plans, in float64."""
    a, b, x, y, plan = (
        np.asarray(v, np.float64)
        for v in (batch1.structure, batch2.structure, batch1.features, batch2.features, plans)
    )
    cost = ((x[:, :, None] - y[:, None]) ** 2).sum(-1)
    linear = (cost * plan).sum((1, 2)) * plan.sum((1, 2))
    rows, columns = plan.sum(2), plan.sum(1)
    squares = np.einsum("bi,bij,bj->b", rows, a**2, rows)
    squares += np.einsum("bi,bij,bj->b", columns, b**2, columns)
    quadratic = squares - 2 * ((a @ plan @ b) * plan).sum((1, 2))
    return linear, np.maximum(quadratic, 0.0)


def exact_value(batch1: Batch, batch2: Batch, plans: Any, alpha: np.ndarray) -> np.ndarray:
    """Eq. 1 ``[B]`` in float64."""
    linear, quadratic = exact_parts(batch1, batch2, plans)
    weight = alpha.astype(np.float64)
    return (1 - weight) * linear + weight * quadratic


def scales(batch1: Batch, batch2: Batch, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest feature cost and largest squared structure of each pair ``[B]``, by their weights."""
    x, y = (np.asarray(b.features, np.float64) for b in (batch1, batch2))
    both = np.asarray(batch1.mask)[:, :, None] & np.asarray(batch2.mask)[:, None, :]
    cost = np.where(both, ((x[:, :, None] - y[:, None]) ** 2).sum(-1), 0).max((1, 2))
    square = [np.square(np.asarray(b.structure, np.float64)).max((1, 2)) for b in (batch1, batch2)]
    return (1 - alpha) * cost, alpha * np.maximum(*square)


def rounding(value: np.ndarray, square: np.ndarray) -> np.ndarray:
    """Tolerance of a float32 value against the one in float64."""
    return ROUNDING[0] * np.abs(value) + ROUNDING[1] * square + 1e-30


def check_outputs(
    verdict: Verdict, out: Output, batches: list[Batch], alpha: np.ndarray, sides: str
) -> None:
    """Properties of the output of every solver, including the lower bound."""
    first, second = batches
    cost, square = scales(first, second, alpha)
    verdict.require_finite(dataclasses.replace(out, history=None))
    verdict.require("status", out.status != Status.NON_FINITE)
    verdict.require("not negative", (out.plan >= 0).all((1, 2)))
    weights1, weights2 = (np.asarray(b.weights, np.float64) for b in batches)
    carries = (weights1 > 0)[:, :, None] & (weights2 > 0)[:, None, :]
    verdict.require("no mass outside", ~np.where(carries, 0, out.plan).any((1, 2)))
    plan = out.plan.astype(np.float64)
    errors = (
        np.abs(plan.sum(2) - weights1).sum(1),
        np.abs(plan.sum(1) - weights2).sum(1),
    )
    verdict.require("marginal error", np.abs(np.maximum(*errors) - out.marginal_error) <= 1e-5)
    verdict.require("mass", np.abs(plan.sum((1, 2)) - 1) <= MARGINALS)
    value = exact_value(first, second, plan, alpha)
    verdict.require("value", np.abs(out.value - value) <= rounding(value, square))
    verdict.require("parts", np.abs(out.linear + out.quadratic - out.value) <= 1e-6 * out.value)
    verdict.require("gap", out.gap >= -1e-5 * (cost + square) - 1e-6)
    if sides == "columns":
        verdict.require("columns", errors[1] <= MARGINALS)
    if sides == "both":
        verdict.require("feasible", np.maximum(*errors) <= MARGINALS)
        bound = np.asarray(lower_bounds(*batches, alpha), np.float64)
        verdict.require("bound", value >= bound - 1e-6 * np.maximum(1, cost + square))


def solver_check(name: str, seed: int, count: int, features: str = "any") -> Verdict:
    """A solver from its default start."""
    size = SIZE
    if name == "reference":
        size, features = SMALL, REFERENCE_FEATURES[seed % len(REFERENCE_FEATURES)]
    cases = draw(seed, count, features, most=size)
    batches = cases.batches(size)
    verdict = Verdict(f"{name}, seed {seed}, features {features}", count)
    out = solve(name, *batches, cases.alpha)
    check_outputs(verdict, out, batches, cases.alpha, SOLVERS[name][1])
    return verdict


def start_check(name: str, seed: int, count: int, features: str = "any") -> Verdict:
    """A solver from a given plan: the product, a sparse one, or any positive matrix."""
    cases = draw(seed, count, features)
    first, second = batches = cases.batches()
    rng = np.random.default_rng(seed + 1)
    product = first.weights[:, :, None] * second.weights[:, None, :]
    shape = (count, 1, 1)
    noise = rng.random(product.shape) ** rng.choice([0, 1, 30], shape)
    init = (product * noise + 1e-30 * product).astype(product.dtype)
    verdict = Verdict(f"{name} from a plan, seed {seed}, features {features}", count)
    out = solve(name, *batches, cases.alpha, init)
    check_outputs(verdict, out, batches, cases.alpha, SOLVERS[name][1])
    return verdict


def padding_check(name: str, seed: int, count: int, features: str = "any") -> Verdict:
    """Padding is never read: garbage there changes no bit."""
    cases = draw(seed, count, features)
    batches = cases.batches()
    poisoned = [
        dataclasses.replace(
            b, features=np.where(b.mask[:, :, None], b.features, b.features.dtype.type(1e9))
        )
        for b in batches
    ]
    verdict = Verdict(f"padding of {name}, seed {seed}, features {features}", count)
    clean, dirty = (solve(name, *b, cases.alpha) for b in (batches, poisoned))
    verdict.require("same bits", (clean.plan == dirty.plan).all((1, 2)))
    verdict.require("same value", clean.value == dirty.value)
    return verdict


def alpha_check(seed: int, count: int, features: str = "any") -> Verdict:
    """At one plan the value is affine in alpha and of degree two in features and structures.

    The least value is a minimum of affine functions, hence concave: no plan at the middle of two
    alphas is below the mean of the lower bounds at the two.
    """
    cases = draw(seed, count, features)
    first, second = batches = cases.batches()
    verdict = Verdict(f"scaling, seed {seed}, features {features}", count)
    out = solve("cg", *batches, cases.alpha)
    rng = np.random.default_rng(seed + 1)
    reach = np.minimum(cases.alpha, 1 - cases.alpha) * rng.random(count).astype(np.float32)
    ends = cases.alpha - reach, cases.alpha + reach
    low, high = (np.asarray(_values(*batches, out.plan, a), np.float64) for a in ends)
    cost, square = scales(first, second, cases.alpha)
    slack = rounding(out.value, square) + 1e-6 * (low + high)
    verdict.require("affine in alpha", np.abs(0.5 * (low + high) - out.value) <= slack)
    bound = sum(np.asarray(lower_bounds(*batches, a), np.float64) for a in ends)
    slack = slack + 1e-6 * np.maximum(1, cost + square)
    verdict.require("concave bound", out.value >= 0.5 * bound - slack)
    # A power of two scales every float exactly; only underflow may tell the two values apart.
    twice = [dataclasses.replace(b, structure=2 * b.structure, features=2 * b.features)
             for b in batches]  # fmt: skip
    four = np.asarray(_values(*twice, out.plan, cases.alpha), np.float64)
    verdict.require("degree two", np.abs(four - 4 * out.value) <= 4 * rounding(out.value, square))
    return verdict


def triangle_check(seed: int, count: int, features: str = "any") -> Verdict:
    r"""The triangle inequality of the square root, through plans glued over the second graph.

    Eq. 1 with q = 2 is the squared norm of (sqrt(1 - alpha) (x_i - y_j), sqrt(alpha) (A_ik - B_jl))
    under the law of two independent draws from the plan; under the law that glues two plans,
    :math:`\pi_{12} \mathrm{diag}(1/\mu_2)\, \pi_{23}`, Minkowski's inequality holds.
    """
    cases = draw(seed, count, features, places=3)
    first, second, third = cases.batches()
    verdict = Verdict(f"triangle, seed {seed}, features {features}", count)
    plans = [
        solve("cg", *pair, cases.alpha).plan.astype(np.float64)
        for pair in ((first, second), (second, third))
    ]
    weights = np.asarray(second.weights, np.float64)
    inverse = np.where(weights > 0, 1 / np.where(weights > 0, weights, 1), 0)
    glued = (plans[0] * inverse[:, None, :]) @ plans[1]
    sides = [
        exact_value(a, b, plan, cases.alpha)
        for a, b, plan in (
            (first, second, plans[0]),
            (second, third, plans[1]),
            (first, third, glued),
        )
    ]
    # Plans have their marginals up to MARGINALS of the mass, which moves at most the largest cost.
    scale = sum(sum(scales(a, b, cases.alpha)) for a, b in ((first, second), (second, third)))
    slack = MARGINALS * scale
    verdict.require("factor two", sides[2] <= 2 * (sides[0] + sides[1]) + slack)
    total = (np.sqrt(sides[0] + slack) + np.sqrt(sides[1] + slack)) ** 2
    verdict.require("square root", sides[2] <= total + slack)
    return verdict


@parallel.compiled
def _values(batch1: Batch, batch2: Batch, plans: Any, alpha: Any) -> jax.Array:
    one = lambda a, b, plan, weight: from_graphs(a, b, weight).value(plan)  # noqa: E731
    return jax.vmap(one)(batch1, batch2, plans, alpha)
