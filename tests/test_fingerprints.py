"""What a fingerprint depends on: every value, and every source file of the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import fgw_jax
from fgw_jax import Relaxed, Strict
from fgw_jax.augment import FGWMixup
from fgw_jax.fingerprints import code_fingerprint, fingerprint

PACKAGE = Path(fgw_jax.__file__).parent


@pytest.fixture
def copy(tmp_path):
    """A copy of the package's sources."""
    return Path(
        shutil.copytree(PACKAGE, tmp_path / "fgw_jax", ignore=shutil.ignore_patterns("__py*"))
    )


def test_equal_values_have_equal_fingerprints_and_others_do_not():
    values = [
        1, 1.5, "1", None, [1, 2], [2, 1], {"a": 1}, {"a": 2}, {"b": 1}, np.arange(3.0),
        Strict(), Strict(starts=2), Relaxed(), FGWMixup(), FGWMixup(ratio=0.5),
        FGWMixup(solver=Relaxed()),
    ]  # fmt: skip
    assert len({fingerprint(value) for value in values}) == len(values)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(np.float32(0.5)) == fingerprint(0.5)
    # Where made graphs are kept decides nothing.
    assert fingerprint(FGWMixup(cache="here")) == fingerprint(FGWMixup())


def test_precision_counts(x64):
    double = fingerprint(1)
    jax.config.update("jax_enable_x64", False)
    assert fingerprint(1) != double


def test_every_source_file_counts(copy):
    assert code_fingerprint(copy) == code_fingerprint()
    before = fingerprint(1, root=copy)
    assert before == fingerprint(1)
    seen = {before}
    for path in ("fgw/strict.py", "midpoint/decode.py", "__init__.py"):
        with open(copy / path, "a") as file:
            file.write("\n# changed\n")
        seen.add(fingerprint(1, root=copy))
    (copy / "fgw" / "new.py").write_text("")
    seen.add(fingerprint(1, root=copy))
    (copy / "fgw" / "new.py").rename(copy / "fgw" / "newer.py")
    seen.add(fingerprint(1, root=copy))
    assert len(seen) == 6


def test_a_changed_solver_never_reuses_kept_graphs(copy):
    """The name of a cache file, as processes with the sources before and after a change see it."""
    code = (
        "import jax; from fgw_jax import datasets; from fgw_jax.augment import FGWMixup, cache; "
        "data = datasets.synthetic(num_graphs=4, size=6); "
        "print(cache.digest(FGWMixup(), jax.random.key(0), data))"
    )

    def name():
        environment = os.environ | {"PYTHONPATH": str(copy.parent)}
        command = [sys.executable, "-c", code]
        return subprocess.check_output(command, env=environment, cwd=copy.parent, text=True)

    first = name()
    assert first == name()
    solver = copy / "fgw" / "conditional_gradient.py"
    solver.write_text(solver.read_text() + "\nSTEPS = 1\n")
    assert name() != first
