"""Binaries started several times over loopback: the files and the table of one process."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def free_address():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return f"localhost:{one.getsockname()[1]}"


def start(arguments, count):
    """``count`` processes of one job."""
    address = f"--coordinator_address={free_address()}"
    return [
        subprocess.Popen(
            [sys.executable, *arguments, f"--num_processes={count}", f"--process_id={i}", address],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(count)
    ]


def finish(processes):
    """What they printed, once all have ended well."""
    texts = [process.communicate(timeout=400) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), texts
    return [out for out, _ in texts]


@pytest.fixture
def augment(tiny_dir, compiled):
    """The command line of 12 new graphs in six parts."""

    def build(out):
        return [
            "-m", "experiments.augment", "--dataset=TINY", f"--data_dir={tiny_dir}",
            f"--out={out}", "--augment=fgwmixup_star", "--num_new=12", "--part_size=2",
            f"--compilation_cache={compiled}",
        ]  # fmt: skip

    return build


def parts(out):
    return {path.name: path.read_bytes() for path in (out / "parts").glob("*.npz")}


def test_any_number_of_processes_leave_the_same_parts(augment, tmp_path):
    (text,) = finish(start(augment(tmp_path / "1"), 1))
    assert "12 of 12 new graphs to make, about" in text
    assert "programs compiled" in text
    one = parts(tmp_path / "1")
    assert len(one) == 6
    for count in (2, 4):
        texts = finish(start(augment(tmp_path / str(count)), count))
        assert parts(tmp_path / str(count)) == one  # bit for bit
        assert sum(int(text.split(" parts made")[0].split()[-1]) for text in texts) == 6


def test_killed_processes_leave_parts_from_which_one_finishes(augment, tmp_path):
    finish(start(augment(tmp_path / "whole"), 1))
    out = tmp_path / "killed"
    processes = start(augment(out), 2)
    while all(process.poll() is None for process in processes) and not list(
        (out / "parts").glob("*.npz")
    ):
        time.sleep(0.002)
    for process in reversed(processes):  # one dies; the others are stopped, as launchers do
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    before = parts(out)
    (text,) = finish(start(augment(out), 1))
    assert before.items() <= parts(out).items()
    assert parts(out) == parts(tmp_path / "whole")
    assert f"{12 - 2 * len(before)} of 12 new graphs to make" in text


def test_processes_share_folds_and_show_one_table(tiny_dir, compiled, tmp_path):
    def command(out):
        return [
            "-m", "experiments.run", "--dataset=TINY", f"--data_dir={tiny_dir}", f"--out={out}",
            "--augment=vanilla,mmixup", "--folds=3", "--num_layers=1", "--hidden=4", "--epochs=2",
            "--batch_size=16", f"--compilation_cache={compiled}",
        ]  # fmt: skip

    def scores(text):
        return [line for line in text.splitlines() if line.startswith("|") and " of " in line]

    (alone,) = finish(start(command(tmp_path / "1"), 1))
    first, *others = finish(start(command(tmp_path / "2"), 2))
    assert scores(first) == scores(alone) != []
    assert all(scores(other) == [] for other in others)
    # Disks of their own: each process still ends with the lines of all.
    address = f"--coordinator_address={free_address()}"
    apart = [
        subprocess.Popen(
            [
                sys.executable, *command(tmp_path / f"disk{i}"), "--num_processes=2",
                f"--process_id={i}", address,
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]  # fmt: skip
    assert scores(finish(apart)[0]) == scores(alone)
    for i in range(2):
        assert (tmp_path / f"disk{i}" / "results.jsonl").read_text().count("\n") == 6


def test_wrong_numbers_of_processes_end_at_once(python):
    result = python("-m", "experiments.run", "--num_processes=2", "--process_id=5")
    assert result.returncode == 2
    assert "--process_id: 5 is not from 0 to 1" in result.stderr
