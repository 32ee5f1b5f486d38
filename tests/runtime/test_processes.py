"""Processes on loopback: what they share out comes back whole; wrong numbers are named."""

import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from fgw_jax import Relaxed, datasets
from fgw_jax.augment import FGWMixup
from fgw_jax.errors import InputError
from fgw_jax.runtime import processes

PROCESS = """
import sys
import jax, numpy as np
from fgw_jax import Relaxed, datasets, distributed
from fgw_jax.augment import FGWMixup

address, count, number, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
distributed.initialize(address, count, number)
assert jax.process_count() == count
items = list(range(7))
mine = distributed.share(items)
ragged = distributed.gather([(np.full(i, i), i) for i in mine])
assert [len(a) for a, _ in ragged] == items and [int(i) for _, i in ragged] == items
# More processes than items: some have nothing to give.
assert len(distributed.gather([(1.0,)] if number == 0 else [])) == 1
if count == 2:
    data = datasets.synthetic(num_graphs=12, size=6, seed=3)
    method = FGWMixup(ratio=0.75, solver=Relaxed(), across_processes=True)
    method(jax.random.key(0), data).save(f"{path}-{number}.npz")
distributed.wait("the end")
"""


def free_address():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return f"localhost:{one.getsockname()[1]}"


def run(count, path):
    """Start the processes, each with assertions of its own, and wait for all; their exit codes."""
    address = free_address()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, address, str(count), str(i), str(path)],
            env=os.environ,
            stderr=subprocess.PIPE,
        )
        for i in range(count)
    ]
    errors = [process.communicate(timeout=300)[1].decode() for process in processes]
    codes = [process.returncode for process in processes]
    assert codes == [0] * count, errors
    return codes


@pytest.mark.slow
def test_four_processes_share_and_gather(tmp_path):
    assert run(4, tmp_path / "none") == [0] * 4


@pytest.mark.slow
def test_two_processes_make_the_dataset_of_one(tmp_path):
    run(2, tmp_path / "made")
    data = datasets.synthetic(num_graphs=12, size=6, seed=3)
    one = FGWMixup(ratio=0.75, solver=Relaxed())(jax.random.key(0), data)
    many = [datasets.Dataset.load(tmp_path / f"made-{i}.npz") for i in range(2)]
    assert many[0].fingerprint() == many[1].fingerprint()  # bit for bit, among themselves
    assert many[0].origins == one.origins
    for made, alone in zip(many[0].graphs, one.graphs, strict=True):
        np.testing.assert_array_equal(made.adjacency, alone.adjacency)
        np.testing.assert_allclose(made.features, alone.features, atol=1e-6)
    np.testing.assert_array_equal(many[0].labels, one.labels)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("localhost:1", None, 0), "num_processes: None"),
        (("localhost:1", 2, None), "process_id: None is not from 0 to 1"),
        (("localhost:1", 2, 2), "process_id: 2 is not from 0 to 1"),
        ((None, 2, 0), "coordinator_address: missing"),
    ],
)
def test_wrong_numbers_of_processes_are_named(given, said):
    with pytest.raises(InputError, match=said):
        processes.initialize(*given)


def test_a_process_alone_shares_with_nobody():
    processes.initialize(None, 1, 0)
    assert processes.is_first()
    assert processes.share("abc") == ["a", "b", "c"]
    processes.wait("nobody")


def test_what_goes_between_processes_comes_back_as_it_was():
    """Arrays of any types and shapes, empty ones and empty items among them."""
    items = [
        (np.arange(6.0).reshape(2, 3), np.int32(4), np.zeros((0, 2), np.float32)),
        (),
        (np.array([True, False]), np.arange(3, dtype=np.float32), np.full((1, 1, 2), 2**40)),
    ]
    (data,) = processes._all_bytes(processes._pack(items))
    back = processes._unpack(data)
    assert [len(item) for item in back] == [3, 0, 3]
    for item, given in zip(back, items, strict=True):
        for array, expected in zip(item, given, strict=True):
            np.testing.assert_array_equal(array, expected)
            assert array.dtype == np.asarray(expected).dtype
    assert processes._unpack(processes._pack([])) == []


def test_a_cache_and_sharing_exclude_each_other():
    with pytest.raises(InputError, match="cache: .* use fgw_jax.augment.parts"):
        FGWMixup(cache="folder", across_processes=True)
