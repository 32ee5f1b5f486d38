"""Graphs from and to other libraries (networkx, jraph, PyTorch Geometric, DGL), and plots.

What another library has no place for (node weights, a structure that is not the adjacency, the
mask of a padded graph) travels as attributes of the same names as the fields, so that a round
trip through networkx or jraph gives every field back. A graph that carries none of them is read
as :meth:`fgw_jax.Graph.from_adjacency` reads an adjacency. Libraries are imported when used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from fgw_jax.interop import plot as plot
    from fgw_jax.interop.dgl import to_dgl as to_dgl
    from fgw_jax.interop.jraph import from_jraph as from_jraph
    from fgw_jax.interop.jraph import to_jraph as to_jraph
    from fgw_jax.interop.networkx import from_networkx as from_networkx
    from fgw_jax.interop.networkx import to_networkx as to_networkx
    from fgw_jax.interop.pyg import from_pyg as from_pyg
    from fgw_jax.interop.pyg import to_pyg as to_pyg

#: function -> its module
_NAMES = {
    "from_jraph": "jraph",
    "from_networkx": "networkx",
    "from_pyg": "pyg",
    "to_dgl": "dgl",
    "to_jraph": "jraph",
    "to_networkx": "networkx",
    "to_pyg": "pyg",
}

__all__ = ["plot", *_NAMES]


def __getattr__(name: str) -> Any:
    if name == "plot":
        return importlib.import_module(f"{__name__}.plot")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
