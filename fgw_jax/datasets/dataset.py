"""A labelled list of graphs: subset, concatenate, save, load, fingerprint."""

from __future__ import annotations

import dataclasses
import hashlib
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from fgw_jax.errors import InputError, check
from fgw_jax.fields import FIELDS
from fgw_jax.graphs import Graph
from fgw_jax.structure import MEASURES, STRUCTURES

SPLIT_PARTS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a made graph comes from.

    Attributes:
      method: name of the augmentation.
      parents: positions of the source graphs in the dataset that was augmented.
      lam: weight of the first parent; 1 for methods of one parent.
    """

    method: str
    parents: tuple[int, ...]
    lam: float = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Positions of the training, validation and test graphs: each non-empty, none in two parts.

    The promise is checked whenever a split is made; a violation is an :class:`InputError`.
    """

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def __post_init__(self) -> None:
        for part in SPLIT_PARTS:
            indices = np.asarray(getattr(self, part))
            check(
                indices.ndim == 1 and indices.size > 0 and indices.dtype.kind in "iu",
                f"{part}: a part of a split is a non-empty vector of integer positions",
            )
            check(indices.min() >= 0, f"{part}: positions are counted from 0, found a negative one")
            object.__setattr__(self, part, indices.astype(np.int64))
        joined = np.concatenate([self.train, self.validation, self.test])
        check(
            len(np.unique(joined)) == len(joined),
            "train, validation, test: a graph stands in two parts (or twice in one); "
            "make the parts disjoint",
        )


@dataclasses.dataclass(frozen=True, init=False, eq=False)
class Dataset:
    """Graphs with labels; never changed in place.

    ``labels`` are class indices ``[N]`` (integers from 0), or rows ``[N, C]`` of floats: soft
    labels or any target vectors. ``data[3]`` is a pair (graph, label); ``data[indices]``,
    a slice or a boolean mask gives a Dataset.

    Attributes:
      graphs: the graphs, all with the same feature width.
      labels: class indices ``[N]`` or rows ``[N, C]``.
      name: what tables and result lines call it.
      num_classes: number of classes, or columns of the rows; counted from ``labels`` unless given.
      origins: per graph ``None`` (an original) or its :class:`Origin`.
      split: the split published with the data (OGB's scaffold split), if there is one.
      structure: name of the graphs' structure in :data:`fgw_jax.structure.STRUCTURES`, from which
        changed and new graphs get theirs; ``None`` where it has none. By default the name by which
        the graphs were built.
      measure: likewise the name of their node weights in :data:`fgw_jax.structure.MEASURES`.

    >>> import numpy as np
    >>> from fgw_jax.graphs import Graph
    >>> edge, triangle = np.ones((2, 2)) - np.eye(2), np.ones((3, 3)) - np.eye(3)
    >>> graphs = [Graph.from_adjacency(a, np.ones((len(a), 1))) for a in (edge, triangle)]
    >>> data = Dataset(graphs, [0, 1])
    >>> len(data), data.num_classes, data[1][1], data.soft_labels().tolist()
    (2, 2, 1, [[1.0, 0.0], [0.0, 1.0]])
    """

    graphs: tuple[Graph, ...]
    labels: np.ndarray
    name: str
    num_classes: int
    origins: tuple[Origin | None, ...]
    split: Split | None
    structure: str | None
    measure: str | None

    def __init__(
        self,
        graphs: Sequence[Graph],
        labels: ArrayLike,
        name: str = "custom",
        num_classes: int | None = None,
        origins: Sequence[Origin | None] | None = None,
        split: Split | None = None,
        structure: str | None = None,
        measure: str | None = None,
    ) -> None:
        graphs = tuple(graphs)
        _check_graphs(graphs)
        labels, num_classes = _as_labels(labels, len(graphs), num_classes)
        origins = (None,) * len(graphs) if origins is None else tuple(origins)
        check(
            len(origins) == len(graphs),
            f"origins: {len(origins)} entries for {len(graphs)} graphs; give one for each graph",
        )
        if split is not None:
            largest = max(int(getattr(split, part).max()) for part in SPLIT_PARTS)
            check(
                largest < len(graphs),
                f"split: names graph {largest} where there are {len(graphs)}; "
                "positions are counted from 0",
            )
        for argument, given, table in (
            ("structure", structure, STRUCTURES),
            ("measure", measure, MEASURES),
        ):
            check(
                given is None or given in table,
                f"{argument}: unknown name {given!r}; use one of {tuple(table)}, or None",
            )
            carried = {graph.names[argument == "measure"] for graph in graphs} - {None}
            check(
                given is None or carried <= {given},
                f"{argument}: {given!r} is not what the graphs carry "
                f"({', '.join(map(str, carried))}); leave it out, or build the graphs with it",
            )
        for field, value in (
            ("graphs", graphs),
            ("labels", labels),
            ("name", name),
            ("num_classes", num_classes),
            ("origins", origins),
            ("split", split),
            ("structure", _structure(graphs) if structure is None else structure),
            ("measure", _common(g.names[1] for g in graphs) if measure is None else measure),
        ):
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.graphs)

    def __iter__(self) -> Iterator[tuple[Graph, Any]]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> tuple[Graph, Any]: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> Dataset: ...

    def __getitem__(self, index: Any) -> tuple[Graph, Any] | Dataset:
        """``(graph, label)`` for an integer; a Dataset for a slice, positions or a mask."""
        if not isinstance(index, slice | list | tuple) and np.ndim(index) == 0:
            i = operator.index(index)
            label = self.labels[i]
            return self.graphs[i], (int(label) if self.labels.ndim == 1 else label)
        if not isinstance(index, slice):
            index = np.asarray(index)
            index = index.astype(int) if index.size == 0 else index
        positions = np.arange(len(self))[index]
        check(positions.size > 0, "index: selects no graph; a Dataset holds at least one")
        return Dataset(
            [self.graphs[i] for i in positions],
            self.labels[positions],
            name=self.name,
            num_classes=self.num_classes,
            origins=[self.origins[i] for i in positions],
            structure=self.structure,
            measure=self.measure,
        )

    def __repr__(self) -> str:
        kind = "class indices" if self.labels.ndim == 1 else "label rows"
        return (
            f"Dataset({self.name!r}, {len(self)} graphs, {self.num_classes} classes, "
            f"{self.num_features} features, {self.graphs[0].features.dtype}, {kind}, "
            f"structure={self.structure!r}, measure={self.measure!r})"
        )

    @property
    def num_features(self) -> int:
        """Width ``d`` of the node features."""
        return int(self.graphs[0].features.shape[-1])

    def soft_labels(self) -> np.ndarray:
        """Labels as rows ``[N, C]`` float32: one-hot for class indices, rows as they are."""
        if self.labels.ndim == 2:
            return self.labels.astype(np.float32)
        return np.eye(self.num_classes, dtype=np.float32)[self.labels]

    def replace(self, **changes: Any) -> Dataset:
        """Copy with some fields changed, checked again as a whole.

        Other graphs bring the names of their own structure and measure.
        """
        if "graphs" in changes:
            changes = {"structure": None, "measure": None, **changes}
        return dataclasses.replace(self, **changes)

    def concatenate(self, *others: Dataset) -> Dataset:
        """This dataset, then the others. Class indices become one-hot rows if any part has rows.

        Name and origins are kept as they are, so parents named by a made graph stay true as long
        as the dataset it was made from comes first. A published split is dropped.
        """
        parts = (self, *others)
        for part in others:
            check(
                part.num_classes == self.num_classes,
                f"others: {part.num_classes} classes beside {self.num_classes}; "
                "give both Datasets the same num_classes",
            )
        hard = all(part.labels.ndim == 1 for part in parts)
        return Dataset(
            [graph for part in parts for graph in part.graphs],
            np.concatenate([part.labels if hard else part.soft_labels() for part in parts]),
            name=self.name,
            num_classes=self.num_classes,
            origins=[origin for part in parts for origin in part.origins],
            structure=_common(part.structure for part in parts),
            measure=_common(part.measure for part in parts),
        )

    def fingerprint(self) -> str:
        """SHA-256 of graphs, labels and number of classes; padding, dtype and name do not count."""
        digest = hashlib.sha256(f"{len(self)} {self.num_classes}".encode())
        for array in (self.labels, *_content(self.graphs)):
            digest.update(repr(array.shape).encode())
            # + 0.0: minus zero equals zero, so it must not change the fingerprint
            digest.update((np.asarray(array, "<f8") + 0.0).tobytes())
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one npz file (no pickle), whole or not at all.

        Raises:
          DataError: if the disk is full or read-only.
        """
        from fgw_jax.datasets import npz

        npz.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Dataset:
        """Read what :meth:`save` wrote, in this or an earlier version.

        Raises:
          DataError: if the file is missing, damaged, or of another kind.
        """
        from fgw_jax.datasets import npz

        return npz.read(path)


def _check_graphs(graphs: tuple[Graph, ...]) -> None:
    check(len(graphs) > 0, "graphs: an empty list; give at least one graph")
    for i, graph in enumerate(graphs):
        if not isinstance(graph, Graph) or np.ndim(graph.features) != 2:
            raise InputError(
                f"graphs: entry {i} is a {type(graph).__name__}, not a single Graph; "
                "build one with Graph.from_adjacency, or unstack a Batch"
            )
    widths = {graph.features.shape[1] for graph in graphs}
    check(
        len(widths) == 1,
        f"graphs: feature widths {sorted(widths)} differ; give every graph the same width",
    )


def _common(names: Iterable[str | None]) -> str | None:
    """The one name that all have; ``None`` if they differ."""
    found = set(names)
    return found.pop() if len(found) == 1 else None


def _structure(graphs: tuple[Graph, ...]) -> str | None:
    """The name by which the graphs were built, or the adjacency where it is their structure."""
    name = _common(graph.names[0] for graph in graphs)
    if name is None and all(
        g.structure is g.adjacency
        or np.array_equal(np.asarray(g.structure), np.asarray(g.adjacency))
        for g in graphs
    ):
        return "adjacency"
    return name


def _as_labels(labels: ArrayLike, count: int, num_classes: int | None) -> tuple[np.ndarray, int]:
    """Labels as int32 ``[N]`` or float ``[N, C]``, and the number of classes."""
    array = np.asarray(labels)
    check(
        array.ndim in (1, 2) and len(array) == count,
        f"labels: shape {array.shape} for {count} graphs; give [N] class indices or [N, C] rows",
    )
    if array.ndim == 2:
        check(
            array.dtype.kind in "biuf" and bool(np.isfinite(array).all()),
            "labels: rows must be finite numbers",
        )
        check(
            array.shape[1] == (num_classes or array.shape[1]) > 0,
            f"labels: rows of {array.shape[1]} columns for num_classes={num_classes}",
        )
        return array.astype(np.promote_types(array.dtype, np.float32)), array.shape[1]
    check(
        array.dtype.kind in "biu",
        f"labels: class indices are integers, found {array.dtype}; use labels.astype(int), "
        "or give target vectors as rows [N, C]",
    )
    check(int(array.min()) >= 0, "labels: class indices are counted from 0, found a negative one")
    found = int(array.max()) + 1
    check(
        num_classes is None or num_classes >= found,
        f"labels: class {found - 1} does not fit num_classes={num_classes}; "
        f"number classes from 0 or give num_classes >= {found}",
    )
    return array.astype(np.int32), found if num_classes is None else int(num_classes)


def _content(graphs: tuple[Graph, ...]) -> Iterator[np.ndarray]:
    """Every field of every graph, cropped to its real nodes."""
    for graph in graphs:
        real = np.flatnonzero(np.asarray(graph.mask))
        for field in FIELDS[:-1]:
            array = np.asarray(getattr(graph, field))[real]
            yield array[:, real] if field in ("structure", "adjacency") else array
