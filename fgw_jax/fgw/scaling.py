"""Features and structures of one size: alpha weighs them only while their costs compare."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgw_jax.errors import check
from fgw_jax.graphs import Graph, check_list

#: The warning looks at this many graphs; a list from one dataset has one scale.
_SAMPLE = 64


def scale_features(graphs: Sequence[Graph], target: float = 1.0) -> list[Graph]:
    """The graphs with features divided by one number, so that the mean |x - y|^2 is ``target``.

    alpha weighs structure against features only while their costs are of one size; adjacency
    differences are at most 1, so a mean squared feature distance of 1 is a natural choice.

    >>> from fgw_jax import Graph
    >>> far = [Graph.from_edges([(0, 1)], 2, [0.0, 1e4]), Graph.from_edges([(0, 1)], 2, [0.0, 2e4])]
    >>> near = scale_features(far)
    >>> round(float(near[1].features[1, 0] / near[0].features[1, 0]), 3)
    2.0
    """
    graphs = list(graphs)
    check_list("graphs", graphs)
    check(target > 0, f"target: must be positive, got {target}")
    spread = mean_feature_cost(graphs)
    factor = np.sqrt(target / spread) if spread > 0 else 1.0
    return [
        dataclasses.replace(g, features=(g.features * factor).astype(g.features.dtype))
        for g in graphs
    ]


def mean_feature_cost(graphs: Sequence[Graph]) -> float:
    """Mean |x - y|^2 over nodes of all graphs: twice the total variance of the features."""
    rows = np.concatenate([np.asarray(g.features, np.float64)[np.asarray(g.mask)] for g in graphs])
    return float(2.0 * rows.var(0).sum())


def warn_if_dwarfed(graphs: Sequence[Graph], alpha: Any) -> None:
    """Warn when the feature cost is so large beside the structure that alpha means nothing."""
    sample = list(graphs[:_SAMPLE])
    structure = np.mean([np.square(np.asarray(g.structure, np.float64)).max() for g in sample])
    features = mean_feature_cost(sample)
    weight = float(np.asarray(alpha))
    # Without any edge there is no structure to be dwarfed.
    if 0 < weight < 1 and 0 < 1e3 * weight * structure < (1 - weight) * features:
        warnings.warn(
            f"the mean feature cost ({features:.3g}) dwarfs the structure (largest squared entry "
            f"{structure:.3g}) at alpha={weight}: structure hardly counts. "
            "fgw_jax.fgw.scale_features brings features to one scale.",
            UserWarning,
            stacklevel=3,
        )
