"""Random test graphs with unusual sizes, edges, features and weights, reproducible by a seed.

Everything a batch holds follows from one seed and one kind of features, so that a case that fails
is made again from the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from fgw_jax import Graph
from fgw_jax.graphs import Batch

#: Maximum number of nodes, and the padded size of all graphs.
SIZE = 40
#: ... for slow algorithms: ott-jax's solver, the paper's outer loop, augmentations.
SMALL = 8
#: Number of features.
WIDTH = 2

Draw = Callable[[np.random.Generator, int], np.ndarray]


def _symmetric(upper: np.ndarray) -> np.ndarray:
    upper = np.triu(upper, 1)
    return upper + upper.T


def _edges(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    return (rng.random((n, n)) < share).astype(float)


def _two_parts(rng: np.random.Generator, n: int) -> np.ndarray:
    part = np.arange(n) < n // 2
    return _edges(rng, n, 0.6) * (part[:, None] == part[None, :])


#: Upper triangles of the adjacency.
ADJACENCIES: dict[str, Draw] = {
    "none": lambda rng, n: np.zeros((n, n)),
    "sparse": lambda rng, n: _edges(rng, n, 1.5 / n),
    "dense": lambda rng, n: _edges(rng, n, 0.5),
    "complete": lambda rng, n: np.ones((n, n)),
    "two parts": _two_parts,
    "weighted": lambda rng, n: _edges(rng, n, 0.5) * rng.random((n, n)),
    "wide weights": lambda rng, n: _edges(rng, n, 0.5) * 10.0 ** rng.uniform(-6, 2, (n, n)),
}

#: Node features; "generic" ones are distinct and of the size of the structure.
FEATURES: dict[str, Draw] = {
    "generic": lambda rng, n: rng.normal(size=(n, WIDTH)),
    "labels": lambda rng, n: np.eye(WIDTH)[rng.integers(WIDTH, size=n)],
    "constant": lambda rng, n: np.full((n, WIDTH), rng.normal()),
    "tiny": lambda rng, n: 1e-20 * rng.normal(size=(n, WIDTH)),
    "huge": lambda rng, n: 1e6 * rng.normal(size=(n, WIDTH)),
    "offset": lambda rng, n: 1e6 + rng.normal(size=(n, WIDTH)),
    "wide": lambda rng, n: rng.normal(size=(n, WIDTH)) * 10.0 ** rng.uniform(-20, 6, (n, 1)),
}


def _one_of(rng: np.random.Generator, n: int, own: float, others: float) -> np.ndarray:
    weights = np.full(n, others)
    weights[rng.integers(n)] = own
    return weights


#: Node weights, up to their sum.
WEIGHTS: dict[str, Draw] = {
    "uniform": lambda rng, n: np.ones(n),
    "generic": lambda rng, n: rng.uniform(0.2, 1.0, n),
    "one near zero": lambda rng, n: _one_of(rng, n, 1e-7, 1.0),
    "one dominates": lambda rng, n: _one_of(rng, n, 1.0, 1e-6),
    "some zero": lambda rng, n: _one_of(rng, n, 1.0, 0.0) + (rng.random(n) < 0.7),
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """Kind of a random graph: names of the tables above, and whether nodes are duplicated."""

    adjacency: str
    features: str
    weights: str
    doubled: bool


def random_kind(rng: np.random.Generator, features: str = "any") -> Kind:
    """Names drawn uniformly, and ``features`` unless they are given."""
    pick = lambda table: str(rng.choice(list(table)))  # noqa: E731
    kept = pick(FEATURES) if features == "any" else features
    return Kind(pick(ADJACENCIES), kept, pick(WEIGHTS), bool(rng.random() < 0.2))


def random_graph(rng: np.random.Generator, kind: Kind, most: int = SIZE) -> Graph:
    """A graph of 1 to ``most`` nodes; the smallest and largest size are more frequent."""
    n = int(rng.choice([1, 2, most, *rng.integers(1, most + 1, 9)]))
    adjacency = _symmetric(ADJACENCIES[kind.adjacency](rng, n))
    features = FEATURES[kind.features](rng, n)
    if kind.doubled:
        original = rng.integers(n, size=n)
        adjacency = _symmetric(adjacency[np.ix_(original, original)])
        features = features[original]
    return Graph.from_adjacency(adjacency, features, measure=WEIGHTS[kind.weights](rng, n))


@dataclasses.dataclass(frozen=True)
class Cases:
    """A batch of ``B`` tuples of graphs and a trade-off for each.

    Attributes:
        kinds: the kind of each tuple's graphs.
        graphs: one list of ``B`` graphs for each place of a tuple.
        alpha: ``[B]`` structure against features.
    """

    kinds: tuple[Kind, ...]
    graphs: tuple[list[Graph], ...]
    alpha: np.ndarray

    def batches(self, size: int = SIZE) -> list[Batch]:
        """The graphs of each place, padded and stacked."""
        return [Batch.stack(graphs, size) for graphs in self.graphs]


def draw(seed: int, count: int, features: str = "any", places: int = 2, most: int = SIZE) -> Cases:
    """``count`` tuples of ``places`` graphs of one kind, and alphas with 0 and 1 among them."""
    rng = np.random.default_rng(seed)
    kinds = tuple(random_kind(rng, features) for _ in range(count))
    graphs = tuple([random_graph(rng, kind, most) for kind in kinds] for _ in range(places))
    choices = [0.0, 1.0, 0.95, 0.5, 1e-3, *rng.random(5)]
    return Cases(kinds, graphs, rng.choice(choices, count).astype(graphs[0][0].weights.dtype))


def permuted(graph: Graph, order: np.ndarray) -> Graph:
    """The same graph with its nodes in another order ``[n]``."""
    return Graph.from_adjacency(
        graph.adjacency[np.ix_(order, order)], graph.features[order], measure=graph.weights[order]
    )
