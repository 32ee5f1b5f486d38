"""Fixtures shared by all tests."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest


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
    """Compiled code stays mapped into the process, and the number of maps has a limit."""
    yield
    jax.clear_caches()


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
