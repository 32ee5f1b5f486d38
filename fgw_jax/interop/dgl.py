"""Graphs to DGL, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgw_jax.graphs import Graph
from fgw_jax.interop.common import host_arrays, library, tensor


def to_dgl(graph: Graph) -> Any:
    """A ``dgl.DGLGraph`` of the real nodes, every edge in both directions.

    ``ndata`` holds ``feat`` and ``weight`` (and ``structure``, row by row, unless it is the
    adjacency), ``edata`` ``weight``.
    """
    dgl = library("dgl")
    arrays = host_arrays(graph.unpad())
    sources, targets = np.nonzero(arrays.adjacency)
    out = dgl.graph((tensor(sources), tensor(targets)), num_nodes=len(arrays.mask))
    out.ndata["feat"] = tensor(arrays.features)
    out.ndata["weight"] = tensor(arrays.weights)
    out.edata["weight"] = tensor(arrays.adjacency[sources, targets])
    if not np.array_equal(arrays.structure, arrays.adjacency):
        out.ndata["structure"] = tensor(arrays.structure)
    return out
