"""The csv layout of OGB's molecule datasets (Hu et al., 2020): ``raw/`` and ``split/scaffold/``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fgw_jax.datasets.dataset import Split
from fgw_jax.datasets.files import Files
from fgw_jax.datasets.raw import Raw, one_hot, ranks, simple_edges
from fgw_jax.errors import DataError, InputError
from fgw_jax.inputs import float_dtype

_SPLIT = "split/scaffold/{}.csv.gz"


def read(path: Path) -> Raw:
    """Read and check an OGB molecule dataset in a folder or zip; isolated atoms are kept.

    The integer atom features become ``attributes``. One column of whole-number labels is read as
    classes, anything else as label rows.
    """
    files = Files(path, "raw/edge.csv.gz")
    sizes = files.table("raw/num-node-list.csv.gz", np.int64, 1)
    sizes.refuse(sizes.column() < 1, "a graph needs at least one node")
    count = len(sizes)
    if count == 0:
        raise DataError(f"{sizes.where}: lists no graph; get the dataset again")
    num_edges = files.table("raw/num-edge-list.csv.gz", np.int64, 1)
    num_edges.expect_rows(count, "graphs")
    num_edges.refuse(num_edges.column() < 0, "a negative number of edges")
    atoms = files.table("raw/node-feat.csv.gz", np.int64)
    # Before any sum of them, which huge numbers would wrap around.
    sizes.refuse(sizes.column() > len(atoms), "more nodes than raw/node-feat.csv.gz has lines")
    num_nodes = int(sizes.column().sum())
    atoms.expect_rows(num_nodes, "nodes in raw/num-node-list.csv.gz")

    table = files.table("raw/edge.csv.gz", np.int64, 2)
    num_edges.refuse(num_edges.column() > len(table), "more edges than raw/edge.csv.gz has lines")
    table.expect_rows(int(num_edges.column().sum()), "edges in raw/num-edge-list.csv.gz")
    owner = np.repeat(np.arange(count), num_edges.column())
    size = sizes.column()[owner][:, None]
    table.refuse(
        ((table.values < 0) | (table.values >= size)).any(1),
        "the node number lies outside the edge's graph",
    )
    starts = np.cumsum(sizes.column()) - sizes.column()
    edges = table.values + starts[owner][:, None]

    labels = files.table("raw/graph-label.csv.gz", np.float64)
    labels.expect_rows(count, "graphs")
    targets = labels.values
    if targets.shape[1] == 1 and (targets == np.round(targets)).all():
        targets = ranks(targets[:, 0])
    return Raw(
        sizes=sizes.column(),
        edges=simple_edges(edges, num_nodes),
        labels=targets,
        attributes=atoms.values,
        split=_split(files, count),
    )


def scaled(raw: Raw) -> np.ndarray:
    """Atom features ``[n, 9]`` on the scale of one-hot labels, so that alpha keeps its meaning.

    Raw features are category numbers up to 119, whose squared distances would dwarf the structure
    term at any alpha. Each column ``k`` is centered and divided by ``max(std_k, 1/2)``, and all are
    divided by one common number,

        ``x_ik = (f_ik - mean_k) / (c max(std_k, 1/2))``,

    with ``c`` such that two atoms drawn at random lie at mean squared distance 1 (with the one-hot
    labels of PROTEINS it is 1.06, of NCI1 0.85). The floor of 1/2, the spread of a fair yes-or-no
    column, keeps columns that are almost constant (charge, radical electrons) from drowning the
    rest where they differ. Means, deviations and ``c`` are those of the atoms of the training
    molecules (of all, if there is no split).
    """
    seen = _training_atoms(raw)
    deviation = seen.std(0)
    scale = np.maximum(deviation, 0.5)
    factor = 1 / (scale * _root_mean_squared_distance(deviation / scale))
    return ((_atoms(raw) - seen.mean(0)) * factor).astype(float_dtype())


def one_hot_scaled(raw: Raw) -> np.ndarray:
    """Atom features as one-hot rows, one block a column, divided by one common number.

    A linear layer on them is OGB's atom encoder. The common number gives two atoms drawn at random
    the mean squared distance 1, as in :func:`scaled`; here no rare atom lies far from the others.
    """
    seen = _training_atoms(raw)
    rows = one_hot(np.stack([ranks(column) for column in _atoms(raw).T], 1))
    shares = [np.unique(column, return_counts=True)[1] / len(seen) for column in seen.T]
    deviation = np.sqrt(np.concatenate([p * (1 - p) for p in shares]))
    rows /= rows.dtype.type(_root_mean_squared_distance(deviation))
    return rows


#: name -> function of :class:`Raw` giving the node features
ENCODINGS = {"scaled": scaled, "one_hot": one_hot_scaled}


def _atoms(raw: Raw) -> np.ndarray:
    if raw.attributes is None:
        raise InputError("raw: holds no atom features; pass what ogb.read returns")
    return raw.attributes


def _training_atoms(raw: Raw) -> np.ndarray:
    if raw.split is None:
        return _atoms(raw)
    training = np.zeros(len(raw.sizes), bool)
    training[raw.split.train] = True
    return _atoms(raw)[np.repeat(training, raw.sizes)]


def _root_mean_squared_distance(deviations: np.ndarray) -> float:
    """Of two independent draws: twice the variance, in the mean; 1 if all are equal."""
    return float(np.sqrt(2 * (deviations**2).sum())) or 1.0


def _split(files: Files, count: int) -> Split | None:
    """OGB's scaffold split, or ``None`` where the folder has none."""
    names = [_SPLIT.format(part) for part in ("train", "valid", "test")]
    parts = [files.optional_table(name, np.int64, 1) for name in names]
    present = [part for part in parts if part is not None]
    if not present:
        return None
    if len(present) < len(parts):
        raise DataError(
            f"{files.path}: of {', '.join(names)} some are missing; get the dataset again"
        )
    for part in present:
        outside = (part.column() < 0) | (part.column() >= count)
        part.refuse(outside, f"the graph number lies outside 0..{count - 1}")
    try:
        return Split(*(part.column() for part in present))
    except InputError as error:
        raise DataError(f"{files.path}: split/scaffold: {error}; get the dataset again") from error
