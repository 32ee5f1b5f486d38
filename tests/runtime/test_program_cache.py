"""Programs kept on disk."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from fgw_jax import Relaxed, distances, keep_programs, mixups
from fgw_jax.datasets import synthetic
from fgw_jax.errors import InputError
from fgw_jax.runtime import program_cache

QUICK = Relaxed()  # to compile


@pytest.fixture
def folder(tmp_path):
    keep_programs(tmp_path)
    yield tmp_path
    keep_programs(None)


def traced(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith("fgw_jax-"))


def test_kept_programs_give_the_same_bits(folder):
    graphs = synthetic(num_graphs=8).graphs
    kept = distances(graphs[:4], graphs[4:], solver=QUICK).value
    files = traced(folder)
    assert files, "nothing was kept"
    program_cache._ready.clear()
    again = distances(graphs[:4], graphs[4:], solver=QUICK).value
    assert traced(folder) == files, "a second program for the same call"
    keep_programs(None)
    plain = distances(graphs[:4], graphs[4:], solver=QUICK).value
    np.testing.assert_array_equal(kept, again)
    np.testing.assert_allclose(kept, plain, rtol=1e-6)


def test_new_values_meet_the_program_and_new_types_do_not(folder):
    graphs = synthetic(num_graphs=8).graphs
    first = distances(graphs[:4], graphs[4:], alpha=0.5, solver=QUICK).value
    files = traced(folder)
    second = distances(graphs[:4], graphs[4:], alpha=0.9, solver=QUICK).value
    assert traced(folder) == files and np.abs(first - second).max() > 1e-3
    with jax.enable_x64(True):
        graphs = synthetic(num_graphs=8).graphs
        double = distances(graphs[:4], graphs[4:], alpha=0.5, solver=QUICK).value
    assert len(traced(folder)) > len(files)
    assert double.dtype == np.result_type(graphs[0].features)


@pytest.mark.parametrize("content", [b"", b"no program", bytes(200)])
def test_damaged_files_are_written_again(folder, content):
    graphs = synthetic(num_graphs=4).graphs
    expected = distances(graphs[:2], graphs[2:], solver=QUICK).value
    for path in traced(folder):
        path.write_bytes(content)
    program_cache._ready.clear()
    np.testing.assert_array_equal(distances(graphs[:2], graphs[2:], solver=QUICK).value, expected)
    assert all(path.stat().st_size > 1000 for path in traced(folder))


def test_another_folder_is_complete_and_none_ends_it(tmp_path):
    settings = lambda: (  # noqa: E731
        jax.config.jax_compilation_cache_dir,
        jax.config.jax_persistent_cache_min_compile_time_secs,
    )
    before = settings()
    graphs = synthetic(num_graphs=4).graphs
    kept = lambda name: {p.name.split("-")[0] for p in (tmp_path / name).iterdir()}  # noqa: E731
    for name, size in (("first", 2), ("second", 1)):
        keep_programs(tmp_path / name)
        distances(graphs[:size], graphs[-size:], solver=QUICK)
        assert kept(name) == {"fgw_jax", "jit_call"}
    seen = sorted((tmp_path / "second").iterdir())
    keep_programs(None)
    assert settings() == before
    distances(graphs[:1], graphs[:1], solver=Relaxed(schedule=None, max_steps=9))
    assert sorted((tmp_path / "second").iterdir()) == seen


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="folder: .* is a file; name a folder"):
        keep_programs(tmp_path / "file")


@pytest.mark.slow
def test_a_new_process_traces_nothing(folder):
    """The solvers' Python is not entered again: what they would raise does not happen."""
    graphs = synthetic(num_graphs=4).graphs
    expected = [mid.objective for mid in mixups(graphs[:2], graphs[2:], [0.3, 0.6])]
    code = (
        "import sys, fgw_jax\n"
        "from fgw_jax.datasets import synthetic\n"
        "from fgw_jax.fgw import mirror_descent\n"
        "from fgw_jax.midpoint import barycenter\n"
        "def no(*args, **options): raise RuntimeError('traced')\n"
        "mirror_descent.MirrorDescent.solve = no\n"
        "barycenter.solve = no\n"
        "graphs = synthetic(num_graphs=4).graphs\n"
        "fgw_jax.keep_programs(sys.argv[1])\n"
        "mids = fgw_jax.mixups(graphs[:2], graphs[2:], [0.3, 0.6])\n"
        "print([float(mid.objective) for mid in mids])\n"
    )
    run = lambda where: subprocess.run(  # noqa: E731
        [sys.executable, "-c", code, os.fspath(where)], capture_output=True, text=True, check=False
    )
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([float(x) for x in expected])
    assert "traced" in run(folder / "other").stderr


def test_programs_are_dropped_when_they_are_too_many():
    """Hundreds of compiled programs would end the process: Linux limits its memory maps."""
    count = lambda: program_cache._MAPS.read_bytes().count(b"\n")  # noqa: E731
    if not program_cache._MAPS.exists():
        assert not program_cache.drop_compiled_programs(0)
        return
    square = jax.jit(lambda x: (x @ x.T).sum())
    for n in range(1, 30):
        square(np.ones((n, 3), np.float32))
    before = count()
    assert not program_cache.drop_compiled_programs() and count() == before
    assert program_cache.drop_compiled_programs(before - 1)
    assert count() < before - 29
    assert square(np.ones((2, 3), np.float32)) == 12.0
