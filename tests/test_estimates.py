"""Estimates grow as the work does, and name what they cannot estimate."""

import numpy as np
import pytest

import fgw_jax
from fgw_jax import Reference, Relaxed, Strict, estimates
from fgw_jax.errors import InputError
from fgw_jax.protocol import cost
from fgw_jax.protocol.settings import Settings


def test_time_is_linear_in_the_pairs_and_memory_does_not_grow():
    sizes = np.array([20, 30, 60, 120] * 500)
    few = fgw_jax.estimate("mixups", sizes[:400], sizes[:400][::-1])
    many = fgw_jax.estimate("mixups", sizes, sizes[::-1])
    assert many.seconds == pytest.approx(5 * few.seconds, rel=0.1)
    assert many.results == pytest.approx(5 * few.results)
    assert many.memory <= 2 * few.memory
    assert many.compilation == few.compilation


def test_larger_graphs_and_harder_solvers_take_longer():
    by_size = [fgw_jax.estimate("distances", [n] * 64, [n] * 64).seconds for n in (30, 60, 120)]
    assert by_size == sorted(by_size)
    by_solver = [
        fgw_jax.estimate("distances", [60] * 64, [60] * 64, solver=solver).seconds
        for solver in (
            Relaxed(), Strict(method="mirror"), Strict(), Strict(starts=8), Reference()
        )
    ]  # fmt: skip
    assert by_solver == sorted(by_solver)
    assert by_solver[3] == pytest.approx(8 * by_solver[2])


def test_processes_share_the_time():
    alone, shared = (
        fgw_jax.estimate("distances", [30] * 64, [30] * 64, num_processes=n).seconds for n in (1, 2)
    )
    assert shared == pytest.approx(alone / 2)


def test_a_training_run_is_estimated_with_its_augmentation():
    plain, mixed = (
        fgw_jax.estimate(Settings(augment=name, epochs=5)) for name in ("vanilla", "fgwmixup")
    )
    assert mixed.seconds > plain.seconds > 0
    assert plain.memory > 0
    assert "compilation" in str(mixed) and "MB" in str(mixed)


def test_midpoints_cost_as_often_as_they_are_drawn():
    once, often, random = (
        cost.of_run(Settings(augment="fgwmixup", epochs=40, **more), None).seconds
        for more in ({}, {"refresh_every": 2}, {"start": "random"})
    )
    plain = cost.of_run(Settings(epochs=40), None).seconds
    assert often - plain == pytest.approx(20 * (once - plain))
    assert random > 5 * (once - plain)


def test_many_random_pairs_are_scaled_from_a_sample():
    one, ten = (estimates.random_pairs([20, 40], count).seconds for count in (10**6, 10**7))
    assert ten == pytest.approx(10 * one)


@pytest.mark.parametrize(
    ("job", "options", "said"),
    [
        ("kernels", {}, "job: unknown name 'kernels'"),
        ("distances", {"num_processes": 0}, "num_processes: must be at least 1"),
        ("distances", {}, "sizes1, sizes2: empty lists"),
        ("mixups", {"sizes1": [10, 20], "sizes2": [10]}, "sizes1, sizes2: expected two lists"),
    ],
)
def test_what_cannot_be_estimated_is_named(job, options, said):
    with pytest.raises(InputError, match=said):
        fgw_jax.estimate(job, **options)
