"""Benchmarks and the gallery on a handful of small graphs: their tables are whole and true."""

import numpy as np
import pytest

from experiments import benchmark
from experiments.benchmarks import distance, fresh, midpoint, midpoint_peers, training
from fgw_jax import Strict, datasets
from fgw_jax.errors import InputError


@pytest.fixture(scope="module")
def data():
    return datasets.synthetic(num_graphs=12, size=8)


@pytest.mark.slow
def test_distance_tables_put_all_solvers_beside_pot(data, tmp_path):
    options = {"num_pairs": 4, "max_shapes": 1, "sizes": (8,), "batches": (1, 2), "budget": 1e4}
    options["solvers"] = ("Strict()", "Relaxed()", "Alg. 2 to the letter")
    tables = distance.run(data.graphs, ("pairs", "sizes"), **options)
    first, *others, bound = tables["pairs"]
    assert bound["solver"] == "lower bound" and 0 < bound["to CG"] <= 1.0
    assert first["solver"] == "POT CG" and first["to CG"] == 1.0
    assert {"Strict()", "Relaxed()", "Alg. 2 to the letter", "POT BAPG"} <= {
        row["solver"] for row in others
    }
    strict = next(row for row in others if row["solver"] == "Strict()")
    assert strict["marginal error"] < 1e-5 and strict["to CG"] < 1.5
    assert [row["batch"] for row in tables["sizes"]] == [1, 2]
    distance.plot(tables, tmp_path / "distance.png")
    assert (tmp_path / "distance.png").stat().st_size > 1000


@pytest.mark.slow
def test_permuted_copies_are_counted(data):
    one, two = distance.copies_table(data.graphs, 4, 0, starts=(1, 2))
    assert (one["starts"], two["starts"]) == (1, 2)
    found = [int(row["found"].removesuffix(" of 4")) for row in (one, two)]
    assert found[0] <= found[1] and found[1] >= 3
    assert (two["mean value"] < 1e-5) == (found[1] == 4)


@pytest.mark.slow
def test_a_fresh_process_is_faster_with_kept_programs(tmp_path):
    first, second = fresh.measure("SYNTHETIC", None, "Relaxed", 1)
    assert (first["programs"], second["programs"]) == ("none", "kept")
    assert first["midpoints"] == second["midpoints"] > 0
    assert 0 < second["s"] < first["s"]


@pytest.mark.slow
def test_midpoint_table_judges_all_by_the_same_objective(data):
    rows = midpoint.table(midpoint.draw(data, 3, 0), 0, slow=False, restarts=2)
    ways = {row["way"]: row for row in rows}
    peer, ours = ways["POT CG, our start"], ways["ours, geodesic, Strict()"]
    assert ours["marginal error"] < 1e-5
    assert ours["objective"] < 1.2 * peer["objective"]
    assert rows[-1]["way"].startswith("ours, best of 2")
    assert 0 < rows[-1]["objective"] < 1.1 * ours["objective"]


def test_checks_of_midpoints_find_nothing_broken(data):
    row = midpoint.checks(midpoint.draw(data, 3, 0), Strict())
    assert row["pairs"] == 3 and row["marginal error"] < 1e-5
    assert row["below the bound"] == row["above the start"] == row["not simple"] == 0
    assert row["density difference"] < 0.5 and 0 < row["decode %"] < 100


def test_authors_loop_lowers_the_objective_of_its_start(data):
    pair = midpoint.draw(data, 1, 1)[0]
    begun = midpoint_peers.random_midpoint(pair, np.random.default_rng(0))
    reached, count = midpoint_peers.authors_loop(pair, np.random.default_rng(0))
    assert count >= 1 and reached < pair.objective(pair.solve(begun), begun)


@pytest.mark.slow
def test_training_puts_its_epoch_beside_its_products(capsys):
    (row,) = training.run(["SYNTHETIC"], ["vgcn"], epochs=1, peer=False)
    assert row.products > 0 and row.epoch > 0 and row.ratio is None
    header, rule, line = capsys.readouterr().out.splitlines()
    assert len(header.split("|")) == len(rule.split("|")) == len(line.split("|"))
    assert "SYNTHETIC | vgcn" in line


def test_a_suite_that_does_not_exist_is_named():
    with pytest.raises(InputError, match="suite: 'speed' is not one of distance"):
        benchmark.load("speed")
