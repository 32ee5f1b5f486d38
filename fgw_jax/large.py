"""FGW between two graphs of thousands of nodes, their edges held as a list.

A structure is a sparse matrix here, so that A1 pi A2 (Eq. 6) costs O(edges n), not O(n^3), and
nothing larger than a dozen plans ``[n, m]`` is held: two graphs of 5,000 nodes take 1.5 GB in
float32, half a minute on one core. The solvers are those of small graphs, on the same problem.

>>> import fgw_jax
>>> ring = SparseGraph.from_edges([(i, (i + 1) % 50) for i in range(50)], 50)
>>> path = SparseGraph.from_edges([(i, i + 1) for i in range(49)], 50)
>>> round(float(distance(ring, path).value), 3) < 0.1
True
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.typing import ArrayLike

from fgw_jax.errors import InputError, check
from fgw_jax.fgw.checks import check_plan, check_problem, check_solver
from fgw_jax.fgw.iteration import Output, Solver
from fgw_jax.fgw.problem import Problem
from fgw_jax.fgw.strict import Strict
from fgw_jax.inputs import edge_pairs, float_dtype, floats, node_weights

#: Edges whose rows are gathered at a time: bounds the memory of a product beside its result.
BLOCK = 1024
#: Rows of the feature cost computed at a time.
ROWS = 64


@dataclasses.dataclass(frozen=True, eq=False)
class SparseGraph:
    """An undirected graph with a sparse adjacency, which is its structure as well.

    Attributes:
        adjacency: ``[n, n]`` symmetric scipy matrix (csr) with zero diagonal.
        features: ``[n, d]`` node features.
        weights: ``[n]`` node weights, a probability vector.
    """

    adjacency: Any
    features: np.ndarray
    weights: np.ndarray

    @classmethod
    def from_adjacency(
        cls,
        adjacency: Any,
        features: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> SparseGraph:
        """From a symmetric matrix ``[n, n]``, scipy sparse or dense; self-loops are dropped.

        Without features every node gets the constant 1; without weights nodes weigh the same.

        >>> SparseGraph.from_adjacency([[0, 1], [1, 0]]).num_nodes
        2
        """
        matrix = scipy.sparse.csr_matrix(adjacency, dtype=float_dtype())
        n = matrix.shape[0]
        check(
            matrix.shape == (n, n) and n > 0,
            f"adjacency: expected a square matrix with at least one node, got {matrix.shape}",
        )
        check(
            bool(np.isfinite(matrix.data).all()),
            "adjacency: has entries that are not finite; remove or replace them",
        )
        check(
            abs(matrix - matrix.T).max() <= 1e-6 * abs(matrix).max(),
            "adjacency: is not symmetric; pass (adjacency + adjacency.T) / 2",
        )
        matrix = matrix - scipy.sparse.diags_array(matrix.diagonal(), dtype=matrix.dtype)
        matrix = scipy.sparse.csr_matrix(matrix)
        matrix.eliminate_zeros()
        rows = np.ones((n, 1), float_dtype()) if features is None else floats("features", features)
        rows = rows[:, None] if rows.ndim == 1 else rows
        check(
            rows.ndim == 2 and len(rows) == n,
            f"features: expected one row for each of the {n} nodes, got shape {rows.shape}",
        )
        measure = np.full(n, 1.0 / n) if weights is None else node_weights(weights, n)
        return cls(matrix, rows, np.asarray(measure, float_dtype()))

    @classmethod
    def from_edges(cls, edges: ArrayLike, num_nodes: int, **options: Any) -> SparseGraph:
        """From undirected edges ``[m, 2]``, each listed once or more; ``options`` as above."""
        pairs = edge_pairs(edges, num_nodes)
        both = np.concatenate([pairs, pairs[:, ::-1]])
        ones = np.ones(len(both), float_dtype())
        matrix = scipy.sparse.csr_matrix((ones, both.T), shape=(num_nodes, num_nodes))
        matrix.data[:] = 1.0
        return cls.from_adjacency(matrix, **options)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.adjacency.shape[0]


def distance(
    graph1: SparseGraph,
    graph2: SparseGraph,
    alpha: ArrayLike = 0.95,
    solver: Solver | None = None,
    init: ArrayLike | None = None,
) -> Output:
    """FGW (q = 2, squared Euclidean features) between two sparse graphs, as the dense function's.

    Args:
        graph1: first graph, ``n`` nodes.
        graph2: second graph, ``m`` nodes, of the same feature width.
        alpha: structure against features, in [0, 1].
        solver: ``Strict(method="mirror")`` (default) or ``Relaxed()``; the conditional gradient
            pivots on all cells one by one, which is for small graphs.
        init: plan ``[n, m]`` to start from.
    """
    solver = Strict(method="mirror") if solver is None else solver
    check_solver(solver)
    check(solver.sparse, "solver: use Strict(method='mirror') or Relaxed() on large graphs")
    check_problem(alpha, 2, "sqeuclidean")
    for name, graph in (("graph1", graph1), ("graph2", graph2)):
        if not isinstance(graph, SparseGraph):
            raise InputError(
                f"{name}: expected a SparseGraph, got {type(graph).__name__}; build one with "
                "fgw_jax.large.SparseGraph.from_adjacency"
            )
    widths = graph1.features.shape[1], graph2.features.shape[1]
    check(
        widths[0] == widths[1],
        f"graph1, graph2: feature widths differ ({widths[0]} and {widths[1]}); "
        "give both graphs the same features",
    )
    check_plan(init, (graph1.num_nodes, graph2.num_nodes))
    sides = [
        (SparseMatrix.of(graph.adjacency), graph.features, graph.weights)
        for graph in (graph1, graph2)
    ]
    number = jnp.asarray(alpha, graph1.features.dtype)
    return _solve(solver, *sides, number, None if init is None else jnp.asarray(init))


@jax.jit
def _solve(
    solver: Solver, side1: Any, side2: Any, alpha: jax.Array, init: jax.Array | None
) -> Output:
    (structure1, features1, weights1), (structure2, features2, weights2) = side1, side2

    def costs(x):  # differences, not the expansion of the square, which loses digits
        return ((x[None, :] - features2) ** 2).sum(-1)

    cost = jax.lax.map(costs, features1, batch_size=ROWS)
    problem = SparseProblem(structure1, structure2, cost, weights1, weights2, alpha)
    return solver.solve(problem, init)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A symmetric matrix ``[n, n]`` by its entries, in blocks; takes part in ``@`` and ``**``.

    Attributes:
        rows: ``[B, E]`` row of each entry; filler entries are zeros.
        columns: ``[B, E]`` column of each entry.
        values: ``[B, E]`` entries.
    """

    rows: Any
    columns: Any
    values: Any

    @classmethod
    def of(cls, matrix: Any) -> SparseMatrix:
        """From a scipy matrix."""
        entries = scipy.sparse.coo_matrix(scipy.sparse.csr_matrix(matrix))
        blocks = max(1, -(-entries.nnz // BLOCK))
        filler = (0, blocks * BLOCK - entries.nnz)
        fields = (entries.row, entries.col, entries.data)
        return cls(*(np.pad(field, filler).reshape(blocks, BLOCK) for field in fields))

    def __matmul__(self, x: jax.Array) -> jax.Array:
        """``A x`` for ``x`` ``[n]`` or ``[n, m]``."""
        tall = (slice(None),) + (None,) * (x.ndim - 1)

        def block(total, entries):
            rows, columns, values = entries
            return total.at[rows].add(values[tall] * x[columns]), None

        entries = (self.rows, self.columns, self.values)
        return jax.lax.scan(block, jnp.zeros_like(x), entries)[0]

    def __rmatmul__(self, x: jax.Array) -> jax.Array:
        """``x A``: the matrix is symmetric."""
        return (self @ x.T).T

    def __pow__(self, power: int) -> SparseMatrix:
        """Entry by entry."""
        return dataclasses.replace(self, values=self.values**power)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class SparseProblem(Problem):
    """The problem between two sparse structures (q = 2)."""

    def parts(self, plan: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Linear and quadratic part of Eq. 1 at ``plan``; zeros stay zeros, nothing is centred."""
        rows, columns = plan.sum(1), plan.sum(0)
        squares = rows @ (self.structure1**2 @ rows) + columns @ (self.structure2**2 @ columns)
        quadratic = squares - 2.0 * jnp.vdot(self.structure_product(plan), plan)
        linear = (1.0 - self.alpha) * jnp.vdot(self.cost, plan) * plan.sum()
        return linear, self.alpha * jnp.maximum(quadratic, 0.0)
