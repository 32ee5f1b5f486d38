"""Kills, crowds, full disks and folders one may not write to: nothing lost, nothing torn, told.

FGW_JAX_KILLS sets the number of kills of the slow tests (12 by default). A full disk is a file
size limit of the process (EFBIG), and a tmpfs of one megabyte (ENOSPC) where one may be mounted.

Covers fgw_jax.runtime.files.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from experiments import faults
from experiments.robustness import crash_workers
from fgw_jax.errors import DataError
from fgw_jax.runtime import files

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("FGW_JAX_KILLS", "12"))
NOBODY = 65534


@pytest.mark.slow
@pytest.mark.parametrize("kind", crash_workers.KINDS)
def test_a_killed_process_loses_and_tears_nothing(tmp_path, kind):
    share = max(1, KILLS // len(crash_workers.KINDS))
    outcome = faults.kill(kind, share, 0, tmp_path)
    assert outcome.kills == share
    assert (outcome.lost, outcome.torn, outcome.left) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("kind", crash_workers.KINDS)
def test_processes_at_once_lose_and_tear_nothing(tmp_path, kind, count):
    outcome = faults.crowd(kind, count, tmp_path)
    assert outcome.done == count * crash_workers.SHARED
    assert (outcome.lost, outcome.torn, outcome.left) == (0, 0, 0)


def test_the_eye_for_damage_sees(tmp_path):
    """A checkpoint written in place would be found torn; a result that is not there, lost."""
    found = crash_workers.Outcome()
    whole = tmp_path / "state"
    crash_workers.checkpoints.save(whole, "owner", crash_workers.state(3))
    whole.write_bytes(whole.read_bytes()[:1000])
    crash_workers.look("checkpoint", tmp_path, [3], found)
    crash_workers.look("append", tmp_path, [1, 2], found)
    crash_workers.look("download", tmp_path, [0], found)
    (tmp_path / "TINY.zip").write_bytes(crash_workers.archive()[:-1])
    crash_workers.look("download", tmp_path, [0], found)
    crash_workers.look("augment", tmp_path, [5], found)
    assert (found.torn, found.lost) == (2, 4)


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    dead = tmp_path / f"{files.PREFIX}dead"
    dead.mkdir()
    (dead / "half").write_text("half")
    with files.scratch(tmp_path) as mine:
        assert [p.name for p in tmp_path.iterdir()] == [mine.name]
        with files.whole_file(tmp_path / "other") as file:
            file.write(b"whole")
        assert mine.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["other"]


def test_what_was_there_stays_when_writing_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), files.whole_file(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


FULL = """
import sys
from pathlib import Path
from experiments import faults
from experiments.robustness import crash_workers
from fgw_jax.datasets import Dataset, load
from fgw_jax.errors import DataError
from fgw_jax.protocol import results
from fgw_jax.training import checkpoints
folder, filler = Path(sys.argv[1]), Path(sys.argv[1]) / "filler"

def until_refused(act):
    for i in range(100):
        try:
            act(i)
        except DataError as error:
            print(error)
            assert "full" in str(error) or "make room" in str(error), error
            return i
    raise SystemExit("the disk never filled")

state = crash_workers.state
count = until_refused(lambda i: checkpoints.save(folder / "c" / "state", "me", state(i)))
found = checkpoints.load(folder / "c" / "state", "me", crash_workers.state(0))
assert (found is None) == (count == 0), count
assert found is None or (found["weights"] == count - 1).all()

store = results.Store(folder / "results.jsonl")
count = until_refused(lambda i: store.append({"key": str(i), "x": "x" * 20_000}))
kept = results.Store(folder / "results.jsonl").records()
assert len(kept) == count >= 1 and store.path.read_bytes().endswith(b"\\n")
store.path.unlink()

count = until_refused(lambda i: crash_workers.made(i).save(folder / f"{i}.npz"))
for i in range(count):
    assert Dataset.load(folder / f"{i}.npz").fingerprint() == crash_workers.made(i).fingerprint()
assert not (folder / f"{count}.npz").exists()

with faults.published() as server:
    until_refused(lambda i: load("TINY", folder, urls=[server.url]))
assert not (folder / "TINY.zip").exists()
print(sorted(p.name for p in folder.rglob(".fgw_jax-part-*")))
"""


#: sets a limit and becomes the command: a fork of this process with its threads could hang
LIMITED = """
import os, resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
os.execv(sys.argv[2], sys.argv[2:])
"""


def python(*arguments, prefix=(), limit=None, **environment):
    if limit is not None:
        prefix = (sys.executable, "-c", LIMITED, limit)
    return subprocess.run(
        [*map(str, prefix), sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"NO_PROXY": "127.0.0.1"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def small_disk(folder):
    """What to put before a command so that ``folder`` is a disk of one megabyte for it."""
    script = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, folder]


def can_mount():
    if shutil.which("unshare") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([*small_disk(folder), "true"], capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("disk", ["limit", *(["tmpfs"] if can_mount() else [])])
def test_a_full_disk_is_told_and_what_was_written_is_whole(tmp_path, disk):
    how = {"limit": 40_000} if disk == "limit" else {"prefix": small_disk(tmp_path)}
    done = python("-c", FULL, tmp_path, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    *told, left = done.stdout.splitlines()
    assert len(told) == 4 and all(str(tmp_path) in line for line in told)
    assert left == "[]"


@pytest.mark.slow
def test_a_binary_on_a_full_disk_ends_in_words(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    results = f"--results={tmp_path / 'empty.jsonl'}"
    done = python("-m", "experiments.tables", results, f"--out={tmp_path / 'out'}", limit=100)
    assert done.returncode == 1
    assert "failed: " in done.stderr and "make room" in done.stderr
    assert "Traceback" not in done.stderr
    few = ["--datasets=SYNTHETIC", "--starts=", "--methods=dropedge", "--epochs=0"]
    done = python("-m", "experiments.efficiency", *few, f"--out={tmp_path / 'out'}", limit=100)
    assert done.returncode == 1
    place = tmp_path / "out" / "measurements.jsonl"
    assert f"failed: {place}: the disk is full" in done.stderr and "free some space" in done.stderr
    assert "Traceback" not in done.stderr
    assert place.read_bytes() == b""


#: Everything is done once where it is allowed: nobody may not be able to read what it imports.
FORBIDDEN = """
import os, sys, tempfile
from pathlib import Path
from experiments.robustness import crash_workers
from fgw_jax.datasets import load
from fgw_jax.errors import DataError
from fgw_jax.protocol import results
from fgw_jax.training import checkpoints
url, count = sys.argv[2], 0

def make():
    global count
    count += 1
    return crash_workers.made(0)

ACTS = (
    lambda folder: load("TINY", folder, urls=[url]),
    lambda folder: load("TINY", folder / "below", urls=[url]),
    lambda folder: checkpoints.save(folder / "state", "me", crash_workers.state(0)),
    lambda folder: results.Store(folder / "results.jsonl").append({"key": "a"}),
    lambda folder: crash_workers.made(0).save(folder / "made.npz"),
    lambda folder: crash_workers.remember(folder, 0, make),
)
with tempfile.TemporaryDirectory() as allowed:
    for act in ACTS:
        act(Path(allowed))
if os.geteuid() == 0:  # root may write anywhere
    os.setgid(NOBODY)
    os.setuid(NOBODY)
for act in ACTS:
    try:
        act(Path(sys.argv[1]))
        print("nothing was told")
    except DataError as error:
        print(str(error).replace(chr(10), " "))
print("made", count)
""".replace("NOBODY", str(NOBODY))


@pytest.mark.slow
def test_a_folder_one_may_not_write_to_is_told_before_any_work():
    folder = Path(tempfile.mkdtemp())  # tmp_path lies below a folder that only its owner may enter
    try:
        folder.chmod(0o555)
        with faults.published() as server:
            done = python("-c", FORBIDDEN, folder, server.url)
        assert done.returncode == 0, done.stderr
        *told, made = done.stdout.splitlines()
        assert len(told) == 6
        for line in told:
            assert str(folder) in line and "cannot be written to" in line and "; " in line
        assert made == "made 1"  # where it was allowed
        assert list(folder.iterdir()) == []
    finally:
        folder.chmod(0o755)
        folder.rmdir()


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written to"):
        crash_workers.made(0).save(tmp_path / "file" / "made.npz")
    with pytest.raises(DataError, match="cannot be written to"):
        crash_workers.results.Store(tmp_path / "file" / "results.jsonl").append({"key": "a"})
    assert crash_workers.results.Store(tmp_path / "file" / "results.jsonl").records() == []
