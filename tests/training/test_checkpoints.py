"""A run killed at any moment goes on where it was, to the same bits."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from fgw_jax.errors import DataError, InputError
from fgw_jax.training import checkpoints

ROOT = Path(__file__).resolve().parents[2]

RUN = """
import sys
import jax, numpy as np
from fgw_jax import backbones, datasets, training

data = datasets.synthetic(num_graphs=24)
model = backbones.make("vgcn", 2, hidden=4, num_layers=1)
config = training.Config(epochs=400, batch_size=8, checkpoint_every=1)
result = training.fit(
    model, data[:16], data[16:20], data[20:],
    config=config, key=jax.random.key(5), checkpoint=sys.argv[1],
)
leaves = jax.tree.leaves((result.params, result.batch_stats))
np.savez(sys.argv[2], *leaves, **result.curves, best=result.best_epoch)
"""


def start(folder, name):
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder / f"{name}.ckpt"), str(folder / f"{name}.npz")],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    error = process.communicate(timeout=600)[1]
    assert process.returncode == 0, error


@pytest.mark.slow
def test_killed_three_times_it_ends_with_the_same_bits(tmp_path, rng):
    finish(start(tmp_path, "calm"))
    checkpoint = tmp_path / "killed.ckpt"
    kills = 0
    for _ in range(3):
        process = start(tmp_path, "killed")
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None:
            # A random moment once the run goes on, in the middle of an epoch or of a write.
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                time.sleep(rng.random() * 0.1)
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills == 3, "the run ended before it could be killed"
    finish(start(tmp_path, "killed"))
    with np.load(tmp_path / "calm.npz") as calm, np.load(tmp_path / "killed.npz") as killed:
        assert set(calm.files) == set(killed.files)
        for name in calm.files:
            np.testing.assert_array_equal(calm[name], killed[name], err_msg=name)


def test_what_is_saved_is_loaded(tmp_path):
    tree = {"a": np.arange(3.0), "b": (np.int32(4), np.array(True))}
    path = tmp_path / "folder" / "state"
    assert checkpoints.load(path, "me", tree) is None
    checkpoints.save(path, "me", tree)
    found = checkpoints.load(path, "me", jax.tree.map(np.zeros_like, tree))
    for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
    assert list(path.parent.iterdir()) == [path]


def test_foreign_and_damaged_files_are_told(tmp_path):
    path = tmp_path / "state"
    checkpoints.save(path, "me", {"a": np.ones(2)})
    with pytest.raises(InputError, match="belongs to a run with another model"):
        checkpoints.load(path, "you", {"a": np.ones(2)})
    whole = path.read_bytes()
    for damaged in (whole[:-3], b"", b"not a checkpoint"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="not a checkpoint, or damaged"):
            checkpoints.load(path, "me", {"a": np.ones(2)})
