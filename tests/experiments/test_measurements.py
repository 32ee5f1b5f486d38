"""The measuring commands: propositions, infeasibility, baselines."""

import numpy as np
import pytest

from experiments import baselines, convergence, infeasibility, paper
from fgw_jax import Strict, datasets
from fgw_jax.fgw import from_graphs


@pytest.fixture(scope="module")
def problem():
    import jax

    with jax.enable_x64(True):
        pair = convergence.random_pairs(1, 7, seed=1)[0]
        return from_graphs(*pair, 0.95)


def test_pairs_differ_in_size_and_no_two_nodes_are_alike():
    for first, second in convergence.random_pairs(3, 8, seed=0):
        assert first.num_nodes != second.num_nodes
        rows = np.concatenate([first.features, second.features])
        assert len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.usefixtures("x64")
def test_marginals_and_plan_fall_at_least_as_fast_as_proposition_1_promises(problem):
    marginals, plan = convergence.sinkhorn_divergences(problem, 100.0, num_steps=200)
    for values, promised in ((np.asarray(marginals), -2), (np.asarray(plan), -1)):
        _, whole, late = convergence.fit_rates(values)
        assert whole.slope <= promised
        assert late.slope < 0
        assert whole.window[0] == 2
    table = convergence.first_table({100.0: (np.asarray(marginals), np.asarray(plan))})
    assert table.count("| 100 |") == 2


@pytest.mark.usefixtures("x64")
def test_the_gap_of_the_relaxed_fixed_points_shrinks_with_the_step_size(problem):
    step_sizes = (0.05, 0.1, 0.2)
    found = convergence.gaps(problem, step_sizes, tol=1e-10, limit=200_000)
    assert found.settled.all()
    assert convergence.gap_fit(step_sizes, found.relaxed).slope == pytest.approx(1, abs=0.15)
    text = convergence.second_table(step_sizes, [found])
    assert "1 of 1" in text
    assert text.count("promised: 1 or above") == 2


def test_fits_are_least_squares_lines():
    x = np.log(np.arange(1.0, 30))
    fit = convergence.Fit.through(x, 3 - 2 * x, (1, 30))
    assert fit.slope == pytest.approx(-2)
    assert convergence.fit_rates(np.arange(1.0, 50) ** -2.0)[1].slope == pytest.approx(-2)


def test_comparison_has_the_columns_of_the_paper():
    strict = infeasibility.Solved(np.array([1.0, 2.0, 0.0]), [np.eye(2)] * 3, 1.0)
    other = infeasibility.Solved(
        np.array([1.1, 1.8, 0.0]), [np.eye(2), np.eye(2) + 1, np.eye(2)], 1
    )
    scores = infeasibility.compare(strict, other)
    assert tuple(scores) == tuple(paper.INFEASIBILITY)
    assert scores["MAE"][0] == pytest.approx(0.1)
    assert scores["MAPE"][0] == pytest.approx(0.1)  # the pair at distance 0 has no share
    assert scores["T-diff"][0] == pytest.approx(0.5 / 3)
    assert "0.1000" in infeasibility.row("ours", scores)


def test_strict_and_pot_agree_on_small_pairs():
    data = datasets.synthetic(num_graphs=8, size=6, seed=2)
    left, right = infeasibility.random_pairs(data, 6, seed=0)
    assert all(a is not b for a, b in zip(left, right, strict=True))
    ours = infeasibility.solve(left, right, 0.95, Strict())
    peer = infeasibility.solve_by_pot(left, right, 0.95)
    assert ours.value.mean() <= 1.1 * peer.value.mean()
    assert [p.shape for p in ours.plans] == [p.shape for p in peer.plans]


@pytest.mark.slow
def test_the_infeasibility_command_prints_its_table_and_writes_lines(tiny_dir, python, tmp_path):
    done = python(
        "-m", "experiments.infeasibility", "--dataset=TINY", f"--data_dir={tiny_dir}",
        "--num_pairs=6", f"--out={tmp_path}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| paper (PROTEINS, 1000 pairs) | 0.0126(0.0170)" in done.stdout
    assert "| Alg. 2, step_size 1 |" in done.stdout
    assert (tmp_path / "measurements.jsonl").read_text().count("\n") == 4


def test_parts_keep_one_side_of_a_graph_each():
    data = datasets.synthetic(num_graphs=4, seed=0)
    whole, structure, signal = baselines.parts(data)
    assert whole is data
    assert np.array_equal(structure.graphs[0].adjacency, data.graphs[0].adjacency)
    assert np.all(structure.graphs[0].features == 1)
    assert not signal.graphs[0].adjacency.any()
    assert np.array_equal(signal.graphs[0].features, data.graphs[0].features)
    assert [part.name for part in (structure, signal)] == [
        "SYNTHETIC, structure only",
        "SYNTHETIC, signal only",
    ]
