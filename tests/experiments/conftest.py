"""A dataset small enough for whole runs in seconds, in TU's layout."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fgw_jax.datasets import synthetic

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory) -> Path:
    """A folder with the TU dataset TINY: 40 graphs of 5 to 9 nodes, two classes."""
    folder = tmp_path_factory.mktemp("data")
    place = folder / "TINY"
    place.mkdir()
    data = synthetic(num_graphs=40, size=7, noise=0.0, seed=1)
    edges, indicator, node_labels, start = [], [], [], 1
    for i, graph in enumerate(data.graphs, start=1):
        rows, columns = np.nonzero(graph.adjacency)
        edges += [f"{a + start}, {b + start}" for a, b in zip(rows, columns, strict=True)]
        indicator += [str(i)] * graph.num_nodes
        node_labels += [str(c) for c in graph.features.argmax(1)]
        start += graph.num_nodes
    for suffix, lines in (
        ("A", edges),
        ("graph_indicator", indicator),
        ("graph_labels", [str(label) for label in data.labels]),
        ("node_labels", node_labels),
    ):
        (place / f"TINY_{suffix}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Path:
    """A folder of compiled programs that the processes of a test run share."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def python():
    """Run ``python ...`` in the clone and hand back the finished process."""

    def run(*arguments, timeout=600, **environment):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
