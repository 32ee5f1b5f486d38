"""Datasets by name: from a folder, from a zip in a folder, or from the network."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fgw_jax.datasets import download, ogb, registry, tu
from fgw_jax.datasets.dataset import Dataset
from fgw_jax.datasets.raw import Raw, build
from fgw_jax.datasets.registry import Entry
from fgw_jax.datasets.synthetic import synthetic
from fgw_jax.errors import DataError, InputError, check
from fgw_jax.structure import MEASURES, STRUCTURES


def load(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    structure: str = "adjacency",
    measure: str = "uniform",
    attributes: bool = False,
    encoding: str = "scaled",
    max_degree: int = 500,
    verify: bool = True,
    urls: str | Sequence[str] | None = None,
    timeout: float = 30.0,
) -> Dataset:
    """Load a dataset by its published name.

    ``"SYNTHETIC"`` is made on the spot (:func:`fgw_jax.datasets.synthetic`). Any other name is
    looked for in ``data_dir``, as a folder ``NAME/`` or as ``NAME.zip``, and downloaded to
    ``NAME.zip`` in there if it is neither; later calls then find it.

    - **TU** (PROTEINS, NCI1, IMDB-BINARY, REDDIT-BINARY, DD, ...): as in the paper's appendix,
      isolated nodes are removed (a graph without any edge keeps its nodes), an edge listed twice
      or both ways counts once, and features are one-hot node labels or, where there are none,
      one-hot degrees. Classes and node labels are numbered in sorted order of the file's values.
    - **OGB** (ogbg-molhiv, ogbg-molbace, other ogbg-mol* whose labels are all known, with ``_``
      too): every atom is kept, the scaffold split is in ``split``, and features are brought to the
      scale of one-hot labels, mean squared distance 1, so that alpha keeps its meaning
      (:func:`fgw_jax.datasets.ogb.scaled`).

    What was parsed is compared with the registry's fingerprint, whatever the line ends of the
    copy; a name that the registry does not list (``fgw_jax.datasets.registry.names()`` are) has
    none and is taken as it is. Adjacencies are dense: a dataset takes about 4 sum(n^2) bytes
    (8 with another structure) and 4 d sum(n) for its features.

    Args:
      name: name as published, such as ``"PROTEINS"``.
      data_dir: folder of datasets; by default the folder in the environment variable
        ``FGW_JAX_DATA``, if it has the dataset, else the download cache (``FGW_JAX_CACHE`` or the
        platform's cache folder).
      structure: a name of :data:`fgw_jax.structure.STRUCTURES`.
      measure: a name of :data:`fgw_jax.structure.MEASURES`.
      attributes: append the numeric node attributes of a TU dataset, as they are in the file.
      encoding: features of an OGB dataset, ``"scaled"`` (9 columns) or ``"one_hot"``.
      max_degree: degrees above share a column of the one-hot degrees.
      verify: compare the fingerprint; ``False`` to read an altered copy on purpose.
      urls: address or addresses of the zip to try instead of the registry's.
      timeout: seconds without a byte after which a download attempt is given up.

    >>> data = load("SYNTHETIC")
    >>> data.name, data.num_classes >= 2
    ('SYNTHETIC', True)
    """
    _check_choice("structure", structure, STRUCTURES)
    _check_choice("measure", measure, MEASURES)
    _check_choice("encoding", encoding, ogb.ENCODINGS)
    check(
        max_degree >= 0,
        f"max_degree: {max_degree} is no degree; use 0 or more, 500 in the authors' code",
    )
    if name == "SYNTHETIC":
        return synthetic(structure=structure, measure=measure)
    entry = registry.find(name)

    def read(path: Path) -> Raw:
        raw = ogb.read(path) if entry.kind == "ogb" else tu.read(path, entry.name, attributes)
        if verify:
            _verify(entry, raw, path)
        return raw

    try:
        path = locate(entry, data_dir)
        if path is not None:
            raw = read(path)
        else:
            folder = download.cache_dir() if data_dir is None else Path(data_dir)
            destination = folder / f"{entry.folders[0]}.zip"
            try:
                addresses = [urls] if isinstance(urls, str) else urls or entry.urls
                raw = download.fetch(addresses, destination, read, timeout=timeout)
            except DataError as error:
                raise DataError(f"{error}{registry.suggest(name)}") from error
        if entry.kind == "ogb":
            kept, features = raw, ogb.ENCODINGS[encoding](raw)
        else:
            kept, features = tu.preprocess(raw, max_degree)
        graphs = build(kept.sizes, kept.edges, features, structure, measure)
        return Dataset(
            graphs,
            raw.labels,
            name=entry.name,
            split=raw.split,
            structure=structure,
            measure=measure,
        )
    except MemoryError as error:
        raise DataError(
            f"{name}: its files ask for more memory than there is ({error}); get the dataset "
            "again, or build a Dataset of a part of it"
        ) from error


def locate(entry: Entry, data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The folder or zip of a dataset in the folders :func:`load` searches, or ``None``."""
    for place in _places(data_dir):
        # os.path answers "no" where Path raises: below a folder one may not enter.
        if os.path.exists(place) and not os.path.isdir(place):
            raise DataError(f"data_dir: {place} is not a folder; pass the folder that holds it")
        if os.path.exists(place) and not os.access(place, os.R_OK | os.X_OK):
            raise DataError(f"data_dir: {place} cannot be read; allow it, or pass another folder")
        for folder in entry.folders:
            for path in (place / folder, place / f"{folder}.zip"):
                if os.path.isdir(path) or (path.suffix == ".zip" and os.path.isfile(path)):
                    return path
    return None


def _places(data_dir: str | os.PathLike[str] | None) -> Iterator[Path]:
    if data_dir is not None:
        yield Path(data_dir)
        return
    if os.environ.get("FGW_JAX_DATA"):
        yield Path(os.environ["FGW_JAX_DATA"])
    yield download.cache_dir()


def _verify(entry: Entry, raw: Raw, path: Path) -> None:
    for part, found in raw.fingerprints().items():
        expected = entry.fingerprints.get(part)
        if expected is None or found == expected:
            continue
        message = (
            f"{path}: the {part} of {entry.name} has the fingerprint {found[:16]}..., "
            f"expected {expected[:16]}...;"
        )
        if part in entry.loose:
            # OGB's atom features come from RDKit, whose versions differ in a few values.
            warnings.warn(f"{message} published copies differ in a few values", stacklevel=4)
        else:
            raise DataError(
                f"{message} the copy is altered or of another version: remove it to download it "
                "again, or pass verify=False to use it as it is"
            )


def _check_choice(argument: str, value: str, table: Mapping[str, object]) -> None:
    if value not in table:
        raise InputError(f"{argument}: no such name {value!r}; choose one of {', '.join(table)}")
