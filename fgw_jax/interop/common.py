"""What the conversions share."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from fgw_jax.errors import InputError, check
from fgw_jax.graphs import Graph


def library(module: str, package: str | None = None) -> Any:
    """A library that is imported when used; an :class:`InputError` if it cannot be."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: installed, but not for this torch
        name = package or module
        raise InputError(
            f"{name}: this conversion needs it ({error}); pip install {name}"
        ) from error


def host_arrays(graph: Graph) -> Graph:
    """The graph with numpy fields; refuses a batch."""
    arrays = Graph(
        *(
            np.asarray(field)
            for field in (
                graph.structure,
                graph.features,
                graph.weights,
                graph.adjacency,
                graph.mask,
            )
        )
    )
    check(arrays.mask.ndim == 1, "graph: this is a batch; convert the graphs of Batch.unstack()")
    return arrays


def from_adjacency(
    adjacency: Any,
    features: Any,
    measure: str | ArrayLike | None,
    structure: str | ArrayLike | None,
) -> Graph:
    """:meth:`Graph.from_adjacency`, with its defaults for what is ``None``."""
    return Graph.from_adjacency(
        adjacency,
        features,
        measure="uniform" if measure is None else measure,
        structure="adjacency" if structure is None else structure,
    )


def spread(graph: Graph, mask: np.ndarray) -> Graph:
    """Put the nodes of ``graph`` where ``mask`` is true, padding elsewhere."""
    if mask.all():
        return graph
    real = np.flatnonzero(mask)
    n, both = len(mask), np.ix_(real, real)
    structure, adjacency = np.zeros((2, n, n), graph.structure.dtype)
    structure[both], adjacency[both] = graph.structure, graph.adjacency
    features = np.zeros((n, graph.features.shape[1]), graph.features.dtype)
    weights = np.zeros(n, graph.weights.dtype)
    features[real], weights[real] = graph.features, graph.weights
    return Graph(structure, features, weights, adjacency, mask.astype(bool))


def tensor(array: np.ndarray) -> Any:
    """A torch tensor of a copy."""
    return library("torch").as_tensor(np.array(array))
