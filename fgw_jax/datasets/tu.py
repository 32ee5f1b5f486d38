"""The text layout of TUDataset (Morris et al., 2020): ``NAME_A.txt`` and its companions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fgw_jax.datasets.files import Files
from fgw_jax.datasets.raw import Raw, one_hot, ranks, simple_edges
from fgw_jax.errors import DataError


def read(path: Path, name: str, attributes: bool = False) -> Raw:
    """Read and check the files of the TU dataset ``name`` in a folder or zip.

    Nodes and graphs are numbered from 1 in the files and from 0 here. Without ``graph_labels``
    the ``graph_attributes`` (regression targets) become label rows. Node attributes are read when
    asked for.
    """
    files = Files(path, f"{name}_A.txt")
    indicator = files.table(f"{name}_graph_indicator.txt", np.int64, 1)
    labels = _labels(files, name)
    count, num_nodes = len(labels), len(indicator)

    graph_of = indicator.column() - 1
    indicator.refuse(
        (graph_of < 0) | (graph_of >= count),
        f"the graph number lies outside 1..{count}, the graphs that have a label",
    )
    sizes = np.bincount(graph_of, minlength=count)
    if num_nodes == 0 or sizes.min() == 0:
        empty = int(np.argmin(sizes)) + 1 if num_nodes else 1
        raise DataError(f"{indicator.where}: graph {empty} has no node; get the dataset again")
    # The files list nodes graph by graph; nothing in the format's description promises it.
    order = np.argsort(graph_of, kind="stable")
    position = np.empty(num_nodes, np.int64)
    position[order] = np.arange(num_nodes)

    table = files.table(f"{name}_A.txt", np.int64, 2)
    edges = table.values - 1
    table.refuse(
        ((edges < 0) | (edges >= num_nodes)).any(1),
        f"the node number lies outside 1..{num_nodes}",
    )
    ends = graph_of[edges]
    table.refuse(ends[:, 0] != ends[:, 1], "the edge joins nodes of two graphs")

    categories = files.optional_table(f"{name}_node_labels.txt", np.int64)
    if categories is not None:
        categories.expect_rows(num_nodes, "nodes")
    numbers = None
    if attributes:
        numbers = files.optional_table(f"{name}_node_attributes.txt", np.float64)
        if numbers is None:
            raise DataError(
                f"{path}: there is no {name}_node_attributes.txt, so {name} has no node "
                "attributes; pass attributes=False"
            )
        numbers.expect_rows(num_nodes, "nodes")
    return Raw(
        sizes=sizes,
        edges=simple_edges(position[edges], num_nodes),
        labels=labels,
        node_labels=None
        if categories is None
        else np.stack([ranks(c) for c in categories.values[order].T], 1),
        attributes=None if numbers is None else numbers.values[order],
    )


def preprocess(raw: Raw, max_degree: int = 500) -> tuple[Raw, np.ndarray]:
    """The paper's preprocessing: the graphs without isolated nodes, and their features ``[n, d]``.

    Features are the one-hot node labels; without labels, the one-hot degree, of which everything
    above ``max_degree`` shares one column. Attributes that were read follow as further columns.
    A graph without any edge keeps its nodes, for it would have none left.
    """
    num_nodes = int(raw.sizes.sum())
    graph_of = np.repeat(np.arange(len(raw.sizes)), raw.sizes)
    degree = np.bincount(raw.edges.ravel(), minlength=num_nodes)
    no_edge = np.bincount(graph_of, degree, minlength=len(raw.sizes)) == 0
    keep = (degree > 0) | no_edge[graph_of]
    new_number = np.cumsum(keep) - 1
    if raw.node_labels is None:
        features = one_hot(np.minimum(degree, max_degree)[:, None])
    else:
        features = one_hot(raw.node_labels)
    if raw.attributes is not None:
        features = np.concatenate([features, raw.attributes], 1)
    kept = Raw(
        sizes=np.bincount(graph_of[keep], minlength=len(raw.sizes)),
        edges=new_number[raw.edges],
        labels=raw.labels,
    )
    return kept, features if keep.all() else features[keep]


def _labels(files: Files, name: str) -> np.ndarray:
    """Classes ``[N]`` numbered in sorted order, or rows ``[N, C]`` of regression targets."""
    labels = files.optional_table(f"{name}_graph_labels.txt", np.int64)
    if labels is None:
        targets = files.optional_table(f"{name}_graph_attributes.txt", np.float64)
        if targets is not None:
            return targets.values
        labels = files.table(f"{name}_graph_labels.txt", np.int64)  # raises: the file is missing
    if labels.values.shape[1] > 1:
        return labels.values.astype(np.float64)
    return ranks(labels.column())
