"""A dataset small enough for whole runs in seconds, in TU's layout."""

import json
import os
import random
import signal
import subprocess
import sys
import time
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


@pytest.fixture
def kill_three_times():
    """Start ``python ...`` and SIGKILL it after a few new lines, three times; the keys left."""

    def run(arguments, lines):
        draw, seen = random.Random(0), set()
        for kill in range(3):
            process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            goal = len(seen) + 1 + kill
            while process.poll() is None and (
                not lines.exists() or lines.read_bytes().count(b"\n") < goal
            ):
                time.sleep(0.002)
            time.sleep(draw.random() * 0.02)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            found = lines.read_bytes().split(b"\n")[:-1]
            now = {json.loads(line)["key"] for line in found}
            assert len(now) == len(found), "a line is doubled"
            assert seen <= now, "a line is lost"
            seen = now
        return seen

    return run
