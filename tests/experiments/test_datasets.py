"""The dataset tables as a user sees them, and what they promise."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments import datasets
from fgw_jax import Dataset, Graph
from fgw_jax.datasets import load

ROOT = Path(__file__).resolve().parents[2]


def run(*flags, **environment):
    return subprocess.run(
        [sys.executable, "-m", "experiments.datasets", *flags],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("name", datasets.PAPER)
def test_statistics_agree_with_the_paper_to_the_last_digit(name, datasets_dir):
    assert datasets.statistics(load(name, datasets_dir)) == datasets.PAPER[name]


def test_padding_on_sizes_one_can_check_by_hand():
    sizes = np.array([4, 4, 8])
    grid, fitted, ordered = datasets.padding(sizes, max_shapes=4, num_pairs=50, seed=0)
    assert fitted == ordered == 1
    rows, columns = np.random.default_rng(0).choice(sizes, (2, 50))
    exact = (rows * columns * (rows + columns)).sum()
    assert grid == pytest.approx(50 * 2 * 32**3 / exact)
    _, one_shape, _ = datasets.padding(sizes, max_shapes=1, num_pairs=50, seed=0)
    assert one_shape == pytest.approx(50 * 2 * 8**3 / exact)


def test_rows_are_counted_once_for_nodes_alike():
    star, path = Graph.from_edges([(0, 1), (0, 2), (0, 3)], 4), Graph.from_edges([(0, 1)], 2)
    assert datasets.row_share(Dataset([star, path], [0, 1])) == pytest.approx((2 + 1) / (4 + 2))


@pytest.mark.slow
def test_the_command_prints_both_tables_for_what_it_finds(datasets_dir):
    out = run(f"--data_dir={datasets_dir}", "--names=PROTEINS,IMDB-BINARY,MUTAG,REDDIT-BINARY")
    assert out.returncode == 0, out.stderr
    lines = out.stdout.splitlines()
    assert sum("7 of 7 equal" in line for line in lines) == 2
    assert any(line.startswith("| MUTAG") and "17.93" in line for line in lines)
    assert not any("REDDIT" in line for line in lines)  # neither in the folder nor downloaded
    assert len({len(line) for line in lines if line.startswith("|")}) == 2  # aligned


@pytest.mark.slow
def test_the_command_says_what_to_do_when_it_finds_nothing(tmp_path):
    out = run(f"--data_dir={tmp_path}")
    assert out.returncode != 0
    assert "pass --data_dir=FOLDER" in out.stdout + out.stderr
