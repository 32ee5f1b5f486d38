"""Lanes over several devices give what one device gives; tasks run side by side."""

import itertools
import os
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest

from fgw_jax.errors import InputError
from fgw_jax.runtime import parallel

MANY = """
import sys
import threading
import jax, numpy as np
from fgw_jax import Relaxed, augment, datasets, distances, mixups, pairwise
from fgw_jax.runtime import parallel
from fgw_jax.fgw import lower_bounds

data = datasets.synthetic(num_graphs=20, size=6, seed=3)
some = data.graphs
rng = np.random.default_rng(0)
first, second = rng.integers(20, size=(2, 19))
left, right = [some[i] for i in first], [some[i] for i in second]
lams = rng.random(19)
stops = Relaxed(step_size=1.0, schedule=None, plan="last", max_steps=60)
found = {
    "at once": distances(left, right, solver=Relaxed(round=True)).value,
    "refilled": distances(left, right, solver=stops, chunk_size=8).value,
    "few": distances(left[:3], right[:3], solver=Relaxed(round=True)).value,
    "pairwise": pairwise(some[:7], solver=Relaxed()),
    "bounds": lower_bounds(left, right),
    "midpoints": mixups(left, right, lams, solver=Relaxed()).objective,
    "random": mixups(
        left[:9], right[:9], lams[:9], solver=stops, start="random", key=jax.random.key(0)
    ).objective,
}
made = augment.FGWMixup(ratio=0.9, solver=Relaxed())(jax.random.key(0), data)
found["augmented"] = np.concatenate([graph.features.ravel() for graph in made.graphs])
with jax.default_device(jax.devices()[-1]):
    assert len(parallel.local()) == 1
    alone = parallel.compiled(lambda x: x + 1, shared=())(np.ones(8))
    assert alone.devices() == {jax.devices()[-1]}
print(len(parallel.local()))
np.savez(sys.argv[1], **found)
"""


@pytest.mark.slow
def test_eight_devices_give_what_one_gives(tmp_path):
    found = {}
    for count in (1, 8):
        path = tmp_path / f"{count}.npz"
        flags = f"--xla_force_host_platform_device_count={count}"
        result = subprocess.run(
            [sys.executable, "-c", MANY, str(path)],
            env=os.environ | {"XLA_FLAGS": flags},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.split() == [str(count)]
        with np.load(path) as file:
            found[count] = dict(file)
    for name, values in found[1].items():
        np.testing.assert_allclose(found[8][name], values, atol=1e-6, err_msg=name)


def test_functions_without_lanes_and_with_absent_arguments():
    plain = parallel.compiled(lambda x, *, twice: 2 * x if twice else x, static_argnames="twice")
    assert float(plain(3.0, twice=True)) == 6.0
    lanes = parallel.compiled(lambda scale, x, y: scale * x if y is None else y, shared=("scale",))
    np.testing.assert_array_equal(lanes(2.0, np.ones(3), None), [2.0, 2.0, 2.0])


def test_one_device_leaves_the_number_of_lanes():
    assert [parallel.round_to_devices(n) for n in (1, 7, 30)] == [1, 7, 30]


def test_tasks_return_their_results_and_pass_on_errors():
    tasks = [lambda i=i: i for i in range(5)]
    assert sorted(parallel.in_parallel(tasks)) == list(range(5))

    def fail():
        raise InputError("task: broken")

    with pytest.raises(InputError, match="broken"):
        list(parallel.in_parallel([*tasks, fail]))

    begun, later = [], threading.Event()

    def slow():
        later.wait(10)
        return "slow"

    found = parallel.in_parallel([fail, slow, *(lambda i=i: begun.append(i) for i in range(9))], 2)
    threading.Timer(0.3, later.set).start()
    with pytest.raises(InputError, match="broken"):
        begun.extend(found)
    assert "slow" in begun and len(begun) < 10


@pytest.mark.parametrize("outer", [None, 2])
def test_tasks_in_tasks_use_no_more_threads_than_cores(outer):
    cores, lock = parallel._cores(), threading.Lock()
    running, most = [], []

    def leaf(name):
        with lock:
            running.append(name)
            most.append(len(running))
        time.sleep(0.01)
        with lock:
            running.remove(name)
        return name

    def branch(i):
        return sorted(parallel.in_parallel([lambda k=k: leaf((i, k)) for k in range(6)]))

    found = list(parallel.in_parallel([lambda i=i: branch(i) for i in range(5)], outer))
    assert sorted(itertools.chain(*found)) == [(i, k) for i in range(5) for k in range(6)]
    assert max(most) <= max(cores, outer or 0)
    # Cores that were taken are free again, also after an error, and all of them are used.
    with pytest.raises(ZeroDivisionError):
        list(parallel.in_parallel([lambda: 1 // 0] * 3))
    most.clear()
    list(parallel.in_parallel([lambda k=k: leaf(k) for k in range(4 * cores)]))
    assert max(most) == min(cores, parallel.workers())
    assert parallel._budget._taken == 0


def test_tasks_see_the_precision_of_their_caller():
    def dtype():
        return jax.numpy.ones(()).dtype

    with jax.enable_x64(True):
        assert {str(d) for d in parallel.in_parallel([dtype] * 4)} == {"float64"}
    assert {str(d) for d in parallel.in_parallel([dtype] * 4)} == {"float32"}
