"""Both propositions of the paper measured: fitted slopes beside the proven rates.

    python -m experiments.convergence

Proposition 1 (Sinkhorn iterations on the kernel exp(-gamma grad f)): the symmetrized KL of the
marginals falls as t^-2, that of the plan as t^-1, or faster. On finite graphs both fall
geometrically in the end, so a slope over t (log-log) and a rate (semi-log) are fitted, each over a
window that is printed (the bounds hold from some t on, so an early slope may be flatter).

Proposition 2 (fixed points pi*, omega* of the relaxed solver): the distance of their mean to the
critical points of the strict problem is at most tau / rho = tau gamma; its proof bounds
|pi* - omega*| alike. Every solver runs to a fixed point; the strict one starts at the mean.

Pairs are SYNTHETIC graphs of two different sizes (with equal sizes a permutation is feasible and
both distances vanish), with jittered features so that all nodes differ. In double precision.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags as absl_flags

from experiments import flags
from fgw_jax import Graph, Relaxed, Strict, datasets
from fgw_jax.errors import InputError
from fgw_jax.fgw import Problem, from_graphs, projections

FLOOR = 1e-20  #: symmetrized KL below which rounding rules in double precision
SINKHORN_STEP_SIZES = (30.0, 100.0, 300.0)
RELAXED_STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
EARLY = 20  #: last t of the early window of Proposition 1
FIT_UP_TO = 0.2  #: largest step size in the fit of Proposition 2


def random_pairs(count: int, size: int, seed: int) -> list[tuple[Graph, Graph]]:
    """Pairs of SYNTHETIC graphs of different sizes with jittered features."""
    rng = np.random.default_rng(seed)
    pairs: list[tuple[Graph, Graph]] = []
    while len(pairs) < count:
        data = datasets.synthetic(num_graphs=2, size=size, seed=int(rng.integers(2**31)))
        first, second = (
            dataclasses.replace(g, features=g.features + 0.3 * rng.normal(size=g.features.shape))
            for g in data.graphs
        )
        if first.num_nodes != second.num_nodes:
            pairs.append((first, second))
    return pairs


def symmetrized_kl(p: jax.Array, q: jax.Array) -> jax.Array:
    """H(p|q) + H(q|p) = sum (p - q) log(p / q); entries that are zero in both contribute 0."""
    return jnp.sum((p - q) * (projections.safe_log(p) - projections.safe_log(q)))


@functools.partial(jax.jit, static_argnames="num_steps")
def sinkhorn_divergences(
    problem: Problem, step_size: jax.Array, *, num_steps: int
) -> tuple[jax.Array, jax.Array]:
    """Symmetrized KL of marginals and of plans to their limits, after t = 1 .. ``num_steps``."""
    product, marginals = problem.product, (problem.weights1, problem.weights2)
    kernel = projections.safe_log(product) - step_size * problem.gradient(product)

    def step(log_plan, _):
        log_rows, rows = projections.project_rows(log_plan, *marginals)
        log_plan, plan = projections.project_columns(log_rows, *marginals)
        return log_plan, (rows, plan)

    _, (rows, plans) = jax.lax.scan(step, kernel, None, length=num_steps)
    limit = jax.lax.fori_loop(0, 100 * num_steps, lambda _, log: step(log, None)[0], kernel)
    marginals = jax.vmap(
        lambda pi, omega: (
            symmetrized_kl(omega.sum(1), problem.weights1)
            + symmetrized_kl(pi.sum(0), problem.weights2)
        )
    )(rows, plans)
    return marginals, jax.vmap(lambda plan: symmetrized_kl(plan, jnp.exp(limit)))(plans)


@jax.jit
def fixed_point(solver: Any, problem: Problem, plan: jax.Array, tol: float, limit: int):
    """Iterate until no entry changes by more than ``tol``: state, last change, number of steps."""
    start = solver.init(problem, None)
    log_plan = projections.safe_log(plan)
    state = dataclasses.replace(start, log_plan=log_plan, plan=plan, other=plan)

    def advance(carry):
        state, _, count = carry
        new = solver.step(problem, state)
        return new, jnp.abs(new.plan - state.plan).max(), count + 1

    unsettled = lambda carry: (carry[1] > tol) & (carry[2] < limit)  # noqa: E731
    return jax.lax.while_loop(unsettled, advance, (state, jnp.inf, 0))


@dataclasses.dataclass(frozen=True)
class Fit:
    """Least squares line through ``(x, y)`` and the window it was fitted on."""

    slope: float
    window: tuple[float, float]

    @classmethod
    def through(cls, x: np.ndarray, y: np.ndarray, window: tuple[float, float]) -> Fit:
        """Slope of ``y`` over ``x``."""
        return cls(float(np.polyfit(x, y, 1)[0]), window)


def fit_rates(divergences: np.ndarray) -> tuple[Fit, Fit, Fit]:
    """Log-log slopes over t from 2 to :data:`EARLY` and to the end; late semi-log rate.

    The end is the last t at which the divergence is above :data:`FLOOR`.
    """
    above = np.flatnonzero(divergences > FLOOR)
    end = int(above[-1]) + 1 if len(above) else 1
    if end < 6:
        raise InputError(f"step_size: it took {end} steps to the rounding floor; raise it")
    t = np.arange(1, len(divergences) + 1)
    log = np.log(np.maximum(divergences, FLOOR))
    early, whole, late = slice(1, min(EARLY, end)), slice(1, end), slice(end // 2, end)
    return (
        Fit.through(np.log(t[early]), log[early], (2, min(EARLY, end))),
        Fit.through(np.log(t[whole]), log[whole], (2, end)),
        Fit.through(t[late], log[late], (end // 2 + 1, end)),
    )


@dataclasses.dataclass(frozen=True)
class Gaps:
    """Proposition 2 on one pair, one entry per step size.

    Attributes:
      relaxed: ``|pi* - omega*|``.
      strict: distance of their mean to the strict solution started there.
      steps: steps to the relaxed and the strict fixed point.
      settled: whether both fixed points were reached.
    """

    relaxed: np.ndarray
    strict: np.ndarray
    steps: np.ndarray
    settled: np.ndarray


def gaps(
    problem: Problem, step_sizes: Sequence[float], tol: float = 1e-12, limit: int = 1_000_000
) -> Gaps:
    """Fixed points over step sizes, in Frobenius norm."""
    rows = []
    for step_size in step_sizes:
        solver = Relaxed(step_size=step_size, schedule=None)
        state, moved, count = fixed_point(solver, problem, problem.product, tol, limit)
        mean = 0.5 * (state.plan + state.other)
        strict, left, more = fixed_point(
            Strict(step_size=1.0, noise=0.0, sweeps=50, method="mirror"), problem, mean, tol, limit
        )
        rows.append(
            (
                jnp.linalg.norm(state.plan - state.other),
                jnp.linalg.norm(mean - strict.plan),
                (int(count), int(more)),
                bool((moved <= tol) & (left <= tol)),
            )
        )
    relaxed, distance, steps, settled = zip(*rows, strict=True)
    return Gaps(np.array(relaxed), np.array(distance), np.array(steps), np.array(settled))


def gap_fit(step_sizes: Sequence[float], values: np.ndarray) -> Fit:
    """Log-log slope over step sizes up to :data:`FIT_UP_TO`."""
    x = np.asarray(step_sizes)
    kept = (x <= FIT_UP_TO) & (values > 0)
    return Fit.through(np.log(x[kept]), np.log(values[kept]), (float(x[kept].min()), FIT_UP_TO))


def first_table(curves: dict[float, tuple[np.ndarray, np.ndarray]]) -> str:
    """Proposition 1 in Markdown."""
    lines = [
        "| gamma | divergence | promised slope | early slope, t | whole slope, t | late rate, t |",
        "|---|---|---|---|---|---|",
    ]
    for step_size, pair in curves.items():
        for name, promised, values in zip(("marginals", "plan"), (-2, -1), pair, strict=True):
            early, whole, late = fit_rates(values)
            cells = [
                f"{shown:.2f}, {fit.window[0]} to {fit.window[1]}"
                for shown, fit in (
                    (early.slope, early),
                    (whole.slope, whole),
                    (np.exp(late.slope), late),
                )
            ]
            lines.append(f"| {step_size:g} | {name} | {promised} or below | {' | '.join(cells)} |")
    return "\n".join(lines)


def second_table(step_sizes: Sequence[float], found: Sequence[Gaps]) -> str:
    """Proposition 2 in Markdown: medians over the pairs, then the fitted slopes."""
    relaxed = np.array([g.relaxed for g in found])
    strict = np.array([g.strict for g in found])
    lines = [
        "| gamma = 1/rho | median pi* - omega* | median distance to strict | reached |",
        "|---|---|---|---|",
    ]
    for i, step_size in enumerate(step_sizes):
        settled = sum(bool(g.settled[i]) for g in found)
        lines.append(
            f"| {step_size:g} | {np.median(relaxed[:, i]):.2e} | {np.median(strict[:, i]):.2e} "
            f"| {settled} of {len(found)} |"
        )
    window = f"gamma from {min(step_sizes):g} to {FIT_UP_TO:g}"
    for name, rows in (("pi* - omega*", relaxed), ("distance to strict", strict)):
        slopes = [gap_fit(step_sizes, row).slope for row in rows]
        low, middle, high = np.quantile(slopes, [0.25, 0.5, 0.75])
        lines.append(
            f"\nSlope of {name} over gamma, {window}: median {middle:.2f} "
            f"(quartiles {low:.2f}, {high:.2f}); promised: 1 or above."
        )
    return "\n".join(lines)


def draw(
    curves: dict[float, tuple[np.ndarray, np.ndarray]],
    step_sizes: Sequence[float],
    found: Sequence[Gaps],
    path: Path,
) -> None:
    """Four panels: both divergences log-log and semi-log, both distances over gamma."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(18, 4), layout="constrained")
    for axis, logarithmic in zip(axes, (True, False), strict=False):
        for step_size, pair in curves.items():
            for values, style, name in zip(pair, ("-", "--"), ("marginals", "plan"), strict=True):
                t = np.arange(1, len(values) + 1)
                shown = values > FLOOR
                axis.plot(t[shown], values[shown], style, label=f"{name}, gamma {step_size:g}")
        axis.set(xlabel="t", ylabel="symmetrized KL", yscale="log")
        axis.set_xscale("log" if logarithmic else "linear")
    t = np.array([2.0, 200.0])
    axes[0].plot(t, t**-1.0, "k:", label="t^-1")
    axes[0].plot(t, t**-2.0, "k-.", label="t^-2")
    axes[0].legend(fontsize=7)
    for axis, field, name in zip(
        axes[2:], ("relaxed", "strict"), ("|pi* - omega*|", "distance to strict"), strict=True
    ):
        for gap in found:
            axis.loglog(step_sizes, getattr(gap, field), "o-", alpha=0.4)
        axis.loglog(step_sizes, 0.1 * np.asarray(step_sizes), "k:", label="slope 1")
        axis.set(xlabel="gamma = 1/rho", ylabel=name)
        axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(values: absl_flags.FlagValues) -> None:
    """Measure, print both tables, and plot."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
    jax.config.update("jax_enable_x64", True)
    pairs = random_pairs(values.num_pairs, values.num_nodes, values.seed)
    problems = [from_graphs(*pair, values.alpha) for pair in pairs]
    curves = {}
    for step_size in SINKHORN_STEP_SIZES:
        pair = sinkhorn_divergences(problems[0], step_size, num_steps=values.num_steps)
        curves[step_size] = (np.asarray(pair[0]), np.asarray(pair[1]))
    print(
        "Proposition 1: Sinkhorn iterations, one pair. Slopes are log-log over t; the rate is the"
    )
    print("factor by which a step shrinks the divergence at the end. Fit windows beside them.\n")
    print(first_table(curves))
    found = [gaps(problem, RELAXED_STEP_SIZES) for problem in problems]
    print(f"\nProposition 2: fixed points on {len(found)} pairs (reached: moves below 1e-12).\n")
    print(second_table(RELAXED_STEP_SIZES, found))
    draw(curves, RELAXED_STEP_SIZES, found, out / "convergence.png")
    print(f"\nplots: {out / 'convergence.png'}")


def own_flags(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer("num_pairs", 8, "Pairs of Proposition 2.", 1, flag_values=values)
    absl_flags.DEFINE_integer("num_nodes", 10, "Mean number of nodes.", 5, flag_values=values)
    absl_flags.DEFINE_integer("num_steps", 1000, "Sinkhorn steps.", 20, flag_values=values)


if __name__ == "__main__":
    flags.launch(main, ["alpha", "seed", "out"], own_flags, alpha=0.95)
