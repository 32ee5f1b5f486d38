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
    """``count`` processes of one job; ``arguments`` is of the number of a process."""
    address = f"--coordinator_address={free_address()}"
    return [
        subprocess.Popen(
            [
                sys.executable,
                *arguments(i),
                f"--num_processes={count}",
                f"--process_id={i}",
                address,
            ],
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


@pytest.fixture(scope="module")
def augment(tiny_dir, compiled):
    """The command line of 12 new graphs in six parts."""

    def build(out):
        return lambda _: [
            "-m", "experiments.augment", "--dataset=TINY", f"--data_dir={tiny_dir}",
            f"--out={out}", "--augment=fgwmixup_star", "--num_new=12", "--part_size=2",
            f"--compilation_cache={compiled}",
        ]  # fmt: skip

    return build


def parts(out):
    return {path.name: path.read_bytes() for path in (out / "parts").glob("*.npz")}


@pytest.fixture(scope="module")
def one(augment, tmp_path_factory):
    """The parts one process makes."""
    out = tmp_path_factory.mktemp("one")
    (text,) = finish(start(augment(out), 1))
    assert "12 of 12 new graphs to make, about" in text
    assert "programs compiled" in text
    return parts(out)


@pytest.mark.slow
def test_four_processes_leave_the_parts_of_one(augment, one, tmp_path):
    texts = finish(start(augment(tmp_path), 4))
    assert parts(tmp_path) == one  # bit for bit
    assert len(one) == 6
    assert sum(int(text.split(" parts made")[0].split()[-1]) for text in texts) == 6


@pytest.mark.slow
def test_killed_processes_leave_parts_from_which_one_finishes(augment, one, tmp_path):
    processes = start(augment(tmp_path), 2)
    while all(process.poll() is None for process in processes) and not parts(tmp_path):
        time.sleep(0.002)
    for process in reversed(processes):  # one dies; the others are stopped, as launchers do
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    before = parts(tmp_path)
    (text,) = finish(start(augment(tmp_path), 1))
    assert before.items() <= parts(tmp_path).items()
    assert parts(tmp_path) == one
    assert f"{12 - 2 * len(before)} of 12 new graphs to make" in text


@pytest.mark.slow
def test_processes_with_disks_of_their_own_show_the_table_of_one(tiny_dir, compiled, tmp_path):
    def command(number, folder="disk"):
        return [
            "-m", "experiments.run", "--dataset=TINY", f"--data_dir={tiny_dir}",
            f"--out={tmp_path / folder}{number}", "--augment=vanilla", "--folds=3",
            "--num_layers=1", "--hidden=4", "--epochs=2", "--batch_size=16",
            f"--compilation_cache={compiled}",
        ]  # fmt: skip

    def scores(text):
        return [line for line in text.splitlines() if line.startswith("|") and " of " in line]

    (alone,) = finish(start(lambda i: command(i, "one"), 1))
    first, second = finish(start(command, 2))
    assert scores(first) == scores(alone) != []
    assert scores(second) == []
    for i in range(2):  # each process ends with the lines of all
        assert (tmp_path / f"disk{i}" / "results.jsonl").read_text().count("\n") == 3


@pytest.mark.slow
def test_wrong_numbers_of_processes_end_at_once(python):
    result = python("-m", "experiments.run", "--num_processes=2", "--process_id=5")
    assert result.returncode == 2
    assert "--process_id: 5 is not from 0 to 1" in result.stderr
