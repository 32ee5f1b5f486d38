"""Many midpoints as a job of the batching engine (:mod:`fgw_jax.runtime.batching`).

From a geodesic start all pairs take the same number of rounds, and run chunk by chunk. The paper's
loop ends after two outer steps or two hundred: its lanes refill.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fgw_jax.graphs import Batch, Graph
from fgw_jax.midpoint import barycenter, paper
from fgw_jax.midpoint.barycenter import Midpoint
from fgw_jax.midpoint.objective import problem_of
from fgw_jax.midpoint.roles import Roles
from fgw_jax.runtime import batching, parallel


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs of graphs by position in a pool, and what they are mixed with.

    Attributes:
        pool: distinct graphs.
        first: ``[N]`` position of the first graph of each pair.
        second: ``[N]`` position of the second.
        lams: ``[N]`` weights of the first graphs.
        nodes: ``[N]`` nodes of the midpoints.
        turned: ``[N]`` whether the two graphs were given the other way round.
        alpha: structure against features.
        roles: the solvers of the midpoint.
        keys: one key per pair, for a random start.
        plans: plan from the first graph to the second of each pair, for a geodesic start.
    """

    pool: Sequence[Graph]
    first: np.ndarray
    second: np.ndarray
    lams: np.ndarray
    nodes: np.ndarray
    turned: np.ndarray
    alpha: Any
    roles: Roles
    keys: Any
    plans: Sequence[np.ndarray] | None

    @property
    def sides(self) -> np.ndarray:
        """``[N, 2]`` nodes of both sources."""
        sizes = np.array([g.mask.shape[-1] for g in self.pool])
        return np.stack([sizes[self.first], sizes[self.second]], 1)

    def sources(self, items: np.ndarray, size: int) -> Batch:
        """Both sources of the pairs ``items``, padded and stacked, ``[L, 2, ...]``."""
        both = np.stack([self.first[items], self.second[items]], 1).ravel()
        stacked = batching.stack(self.pool, both, size)
        return jax.tree.map(lambda x: x.reshape(len(items), 2, *x.shape[1:]), stacked)

    def alignments(self, items: np.ndarray, size: int) -> np.ndarray:
        """The plans of the pairs ``items``, padded and stacked, ``[L, m, m]``."""
        assert self.plans is not None  # noqa: S101 - given for a geodesic start
        out = np.zeros((len(items), size, size), self.lams.dtype)
        for lane, item in enumerate(items):
            plan = self.plans[item]
            out[lane, : plan.shape[0], : plan.shape[1]] = plan
        return out


def solve(pairs: Pairs, groups: Sequence[batching.Group]) -> Iterator[list[tuple[int, Midpoint]]]:
    """Solve the groups; yields lists of positions and their midpoints, unpadded, as they come."""
    sides = pairs.sides

    def at_once(items, shape):
        sources, plans = pairs.sources(items, shape[1]), pairs.alignments(items, shape[1])
        lams, nodes = pairs.lams[items], pairs.nodes[items]
        return _solve(
            sources, lams, nodes, pairs.alpha, pairs.roles.descent, plans, padded=shape[0]
        )

    def enter(items, shape):
        sources, keys = pairs.sources(items, shape[1]), pairs.keys[items]
        lams, nodes = pairs.lams[items], pairs.nodes[items]
        problem, state = _enter(sources, lams, nodes, pairs.alpha, keys, padded=shape[0])
        return (problem, sources), state

    def crop(items, host):
        return [
            (item, _crop(host, lane, pairs.nodes[item], sides[item], pairs.turned[item]))
            for lane, item in enumerate(items)
        ]

    if pairs.plans is not None:
        return batching.run(batching.Job(at_once, crop), groups)
    advance = functools.partial(_advance, pairs.roles.aligner)
    return batching.run(batching.Job(enter, crop, advance, _leave), groups)


def of_pair(
    sources: Graph,
    lam: jax.Array,
    nodes: Any,
    padded: int,
    alpha: Any,
    solver: Any = None,
    descent: Any = None,
    start: str = "geodesic",
    key: Any = None,
    plan: jax.Array | None = None,
) -> Midpoint:
    """Midpoint of two stacked sources; ``plan`` ``[m, m]`` aligns the first with the second."""
    ratios = jnp.stack([lam, 1.0 - lam])
    alignments = None
    if plan is not None:
        weights = jnp.asarray(sources.weights, plan.dtype)
        onward = jnp.stack([jnp.diag(weights[0]), plan])
        back = jnp.stack([plan.T, jnp.diag(weights[1])])
        alignments = jnp.where(jnp.argmax(ratios) == 0, onward, back)
    return barycenter.solve(
        sources, ratios, nodes, padded, alpha, solver, start, key, alignments, descent=descent
    )


@functools.partial(
    parallel.compiled, shared=("alpha", "descent"), static_argnames="padded", keep=True
)
def _solve(sources, lams, nodes, alpha, descent, plans, *, padded):
    def one(s, lam, n, plan):
        return of_pair(s, lam, n, padded, alpha, descent=descent, plan=plan)

    return jax.vmap(one)(sources, lams, nodes, plans)


@functools.partial(parallel.compiled, shared=("alpha",), static_argnames="padded")
def _enter(sources, lams, nodes, alpha, keys, *, padded):
    def one(s, lam, n, key):
        ratios = jnp.stack([lam, 1.0 - lam])
        problem = problem_of(s, ratios, barycenter.uniform(n, padded), alpha)
        return problem, paper.paper_start(problem, key)

    return jax.vmap(one)(sources, lams, nodes, keys)


@functools.partial(parallel.compiled, shared=("solver", "leaving"))
def _advance(solver, problem_and_sources, start, state, fresh, empty, leaving):
    """Outer steps until enough lanes are done."""
    return batching.until_some_leave(
        lambda problem, state: paper.paper_step(problem, solver, state),
        paper.paper_done,
    )(problem_and_sources[0], start, state, fresh, empty, leaving)


@functools.partial(parallel.compiled, shared=())
def _leave(problem_and_sources, state):
    problem, sources = problem_and_sources
    return jax.vmap(barycenter.paper_finish)(problem, sources, state)


def _crop(host: Midpoint, lane: int, nodes: int, sides: np.ndarray, turned: bool) -> Midpoint:
    """One lane without padding, its sources in the order they were given."""
    g = host.graph
    both = (lane, slice(nodes), slice(nodes))
    graph = Graph(
        g.structure[both].copy(),
        g.features[lane, :nodes].copy(),
        g.weights[lane, :nodes].copy(),
        g.adjacency[both].copy(),
        g.mask[lane, :nodes].copy(),
    )
    plans = tuple(host.plans[lane, i, :nodes, :m].copy() for i, m in enumerate(sides))
    order = slice(None, None, -1 if turned else 1)
    rest = ("objective", "bound", "estimate", "num_outer", "converged", "status")
    rest_of_lane: list[Any] = [getattr(host, name)[lane] for name in rest]
    rest_of_lane.append(host.history[lane, : host.num_outer[lane] + 1].copy())
    return Midpoint(graph, plans[order], host.values[lane][order], *rest_of_lane)
