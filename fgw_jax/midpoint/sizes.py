"""Number of nodes of a midpoint: adaptive, fixed, or a multiple of the training set's median."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fgw_jax.errors import check
from fgw_jax.graphs import Graph


def adaptive(n1: Any, n2: Any, lam: Any) -> Any:
    """round(lam n1 + (1 - lam) n2), at least 1; numbers, numpy arrays or traced values.

    >>> int(adaptive(10, 20, 0.25)), int(adaptive(1, 1, 0.5))
    (18, 1)
    """
    xp = (
        np
        if all(isinstance(x, int | float | np.ndarray | np.generic) for x in (n1, n2, lam))
        else jnp
    )
    lam = xp.asarray(lam) * 1.0
    n1, n2 = (xp.asarray(n).astype(lam.dtype) for n in (n1, n2))
    return xp.maximum(xp.round(lam * n1 + (1 - lam) * n2), 1).astype(int)


@dataclasses.dataclass(frozen=True)
class Median:
    """The median size of the training graphs times ``factor`` (the paper's ablation of sizes).

    Attributes:
        factor: multiple of the median; the result is rounded, at least 1.

    >>> Median(0.5).of([Graph.from_edges([(0, 1)], n) for n in (4, 8, 20)])
    4
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        check(self.factor > 0, f"factor: must be positive, got {self.factor}")

    def of(self, graphs: Sequence[Graph]) -> int:
        """Size of every midpoint of these training graphs."""
        median = np.median([graph.num_nodes for graph in graphs])
        return max(1, int(np.round(self.factor * median)))
