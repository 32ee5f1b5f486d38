"""The entropic peer: what ott-jax is asked to solve is our problem.

Covers fgw_jax.fgw.reference.
"""

import numpy as np
import ot

from fgw_jax import Graph, Reference, distance


def test_it_ends_where_sinkhorn_on_the_gradient_of_our_objective_stays(rng):
    alpha, epsilon = 0.7, 0.2
    upper = [np.triu(rng.random((n, n)), 1) for n in (5, 4)]
    first, second = (Graph.from_adjacency(u + u.T, rng.normal(size=(len(u), 2))) for u in upper)
    out = distance(first, second, alpha, solver=Reference(epsilon=epsilon))
    plan = np.asarray(out.plan, np.float64)
    p, q = np.full(5, 1 / 5), np.full(4, 1 / 4)
    a, b = (np.asarray(g.structure, np.float64) for g in (first, second))
    costs = ((first.features[:, None] - second.features[None]) ** 2).sum(-1)
    quadratic = (a**2 @ p)[:, None] + (b**2 @ q)[None] - 2 * a @ plan @ b
    gradient = 2 * alpha * quadratic + (1 - alpha) * costs
    np.testing.assert_allclose(plan, ot.sinkhorn(p, q, gradient, epsilon), atol=1e-3)
