"""The main job as a user sees it: table, lines, running again, being killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
METHODS = ["vanilla", "mmixup", "ifmixup"]
FOLDS = 4


@pytest.fixture
def command(tiny_dir, compiled):
    """The command line of a small job, given its folder."""

    def build(out, *more):
        return [
            "-m", "experiments.run", "--dataset=TINY", f"--data_dir={tiny_dir}", f"--out={out}",
            f"--augment={','.join(METHODS)}", f"--folds={FOLDS}", "--num_layers=1", "--hidden=4",
            "--epochs=3", "--batch_size=16", f"--compilation_cache={compiled}", *more,
        ]  # fmt: skip

    return build


def scores(text):
    """The rows of the first table, which hold no times."""
    return [line for line in text.splitlines() if line.startswith("|") and " of " in line]


def keys(out):
    return [json.loads(line)["key"] for line in (out / "results.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_killed_three_times_and_run_again_equals_undisturbed(
    command, python, kill_three_times, tmp_path
):
    whole = python(*command(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    assert "12 of 12 folds to do, about" in whole.stdout
    assert [row.split()[1] for row in scores(whole.stdout)] == METHODS
    assert whole.stdout.count(f"{FOLDS} of {FOLDS}") == len(METHODS)
    out = tmp_path / "killed"
    lines = out / "results.jsonl"
    seen = kill_three_times(command(out), lines)
    assert 3 <= len(seen) < FOLDS * len(METHODS)

    last = python(*command(out))
    assert last.returncode == 0, last.stderr
    assert f"{FOLDS * len(METHODS) - len(seen)} of 12 folds to do" in last.stdout
    assert scores(last.stdout) == scores(whole.stdout)
    assert len(keys(out)) == len(set(keys(out)))
    assert set(keys(out)) == set(keys(tmp_path / "whole"))

    before = lines.read_bytes()
    again = python(*command(out))
    assert "0 of 12 folds to do, all folds are finished" in again.stdout
    assert lines.read_bytes() == before
    table = [line for line in last.stdout.splitlines() if line.startswith("|")]
    assert [line for line in again.stdout.splitlines() if line.startswith("|")] == table


@pytest.mark.slow
def test_two_processes_share_a_folder_and_a_midpoint_is_drawn(command, tmp_path):
    more = ["--augment=vanilla,fgwmixup", "--folds=2"]
    processes = [
        subprocess.Popen(
            [sys.executable, *command(tmp_path, *more)], cwd=ROOT, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    texts = [process.communicate()[0].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert scores(texts[0]) == scores(texts[1])
    assert len(keys(tmp_path)) == len(set(keys(tmp_path))) == 4
    assert (tmp_path / "TINY.png").stat().st_size > 1000
    assert all("TINY.png" in text for text in texts)
