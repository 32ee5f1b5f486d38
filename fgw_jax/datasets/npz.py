"""Datasets in npz files, without pickle."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING

import numpy as np

from fgw_jax.errors import DataError
from fgw_jax.fields import FIELDS, with_names
from fgw_jax.graphs import Graph
from fgw_jax.runtime import files

if TYPE_CHECKING:
    from fgw_jax.datasets.dataset import Dataset

FORMAT = "fgw_jax.dataset.1"


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset, whole or not at all."""
    from fgw_jax.datasets.dataset import SPLIT_PARTS

    meta = {
        "format": FORMAT,
        "name": data.name,
        "num_classes": data.num_classes,
        "origins": [None if o is None else dataclasses.asdict(o) for o in data.origins],
        "structure": data.structure,
        "measure": data.measure,
    }
    arrays: dict[str, np.ndarray] = {
        "meta": np.array(json.dumps(meta)),
        "labels": data.labels,
        "sizes": np.array([len(graph.weights) for graph in data.graphs]),
    }
    for field in FIELDS:
        arrays[field] = np.concatenate(
            [np.asarray(getattr(graph, field)).ravel() for graph in data.graphs]
        )
    if data.split is not None:
        arrays |= {f"split_{part}": getattr(data.split, part) for part in SPLIT_PARTS}
    with files.whole_file(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read(path: str | os.PathLike[str]) -> Dataset:
    """Read what :func:`write` wrote; any other file is a :class:`DataError`."""
    from fgw_jax.datasets.dataset import SPLIT_PARTS, Dataset, Origin, Split

    try:
        # opened here: numpy leaves the file of a truncated archive open
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        meta = json.loads(str(arrays["meta"]))
        if meta["format"] != FORMAT:
            raise DataError(f"{path}: format {meta['format']!r}, expected {FORMAT!r}")
        # Files of earlier versions name neither.
        names = meta.get("structure"), meta.get("measure")
        split = None
        if "split_train" in arrays:
            split = Split(*(arrays[f"split_{part}"] for part in SPLIT_PARTS))
        return Dataset(
            _split_graphs(arrays, names),
            arrays["labels"],
            name=meta["name"],
            num_classes=meta["num_classes"],
            origins=[
                None if o is None else Origin(o["method"], tuple(o["parents"]), o["lam"])
                for o in meta["origins"]
            ],
            split=split,
            structure=names[0],
            measure=names[1],
        )
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; write one with Dataset.save") from error
    except DataError:
        raise
    except Exception as error:  # numpy and zipfile raise many kinds on a damaged file
        raise DataError(
            f"{path}: not a file of Dataset.save, or damaged ({error}); save it again"
        ) from error


def _split_graphs(
    arrays: dict[str, np.ndarray], names: tuple[str | None, str | None]
) -> list[Graph]:
    """Cut the concatenated fields of a saved file back into graphs."""
    sizes = arrays["sizes"].astype(np.int64)
    if sizes.ndim != 1 or len(sizes) == 0 or sizes.min() < 1:
        raise ValueError("sizes are not positive counts")
    width, rest = divmod(len(arrays["features"]), int(sizes.sum()))
    per_node = {"structure": sizes, "adjacency": sizes, "features": np.full_like(sizes, width)}
    columns: dict[str, list[np.ndarray]] = {}
    for field in FIELDS:
        counts = sizes * per_node.get(field, np.ones_like(sizes))
        if rest or len(arrays[field]) != counts.sum():
            raise ValueError(f"{field} does not fit the sizes")
        pieces = np.split(arrays[field], np.cumsum(counts)[:-1])
        columns[field] = [
            piece.reshape(size, -1) if field in per_node else piece
            for piece, size in zip(pieces, sizes, strict=True)
        ]
    graphs = []
    for i in range(len(sizes)):
        fields = {field: columns[field][i] for field in FIELDS}
        if np.array_equal(fields["structure"], fields["adjacency"]):
            fields["structure"] = fields["adjacency"]  # held once, as by Graph.from_adjacency
        graphs.append(with_names(Graph(**fields), names))
    return graphs
