"""Fixtures shared by all tests, and the folder in which the checkout keeps compiled programs."""

import os
from pathlib import Path

# JAX reads both when it is imported, and the processes that tests start inherit them. Most of the
# time of the tests is compilation, and many tests and all workers compile the same programs.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / ".cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

import jax
import numpy as np
import pytest

from fgw_jax.runtime import program_cache


@pytest.fixture
def rng() -> np.random.Generator:
    """A seeded numpy generator, fresh for every test."""
    return np.random.default_rng(0)


@pytest.fixture
def key() -> jax.Array:
    """A jax key."""
    return jax.random.key(0)


@pytest.fixture(autouse=True, scope="module")
def compiled_code_is_dropped():
    """Compiled code stays mapped into the process, and the number of maps has a limit.

    Programs below half the limit are kept, because the next module often runs the same ones.
    """
    yield
    program_cache.drop_compiled_programs()


@pytest.fixture
def x64():
    """Double precision for one test, and back."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="session")
def datasets_dir() -> Path:
    """Folder of real datasets; the one thing a test may be skipped for."""
    default = Path(__file__).resolve().parents[2] / "shared" / "datasets"
    folder = Path(os.environ.get("FGW_JAX_DATA") or default)
    if not folder.is_dir():
        pytest.skip(f"needs the datasets folder: {folder} does not exist (set FGW_JAX_DATA)")
    return folder
