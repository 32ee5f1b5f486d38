"""The scale suite on a handful of small graphs: rows are whole, exponents and plot are there."""

import pytest

from experiments.benchmarks import processes, scale


@pytest.mark.slow
def test_rows_exponents_and_plot(tmp_path, compiled):
    tables = scale.run(["pairs", "large"], [4, 8], [], [], [12], 12, str(compiled))
    assert [row["pairs"] for row in tables["pairs"]] == [4, 8]
    assert all(row["s"] > 0 and row["MB"] >= 0 for rows in tables.values() for row in rows)
    ours, peer = tables["large"]
    assert ours["value"] == pytest.approx(peer["value"], abs=0.1)
    text = scale.growth(tables)
    assert "pairs: time ~ pairs^" in text and "large: time ~ nodes^" in text
    scale.plot(tables, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").stat().st_size > 1000


def test_memory_is_that_of_the_block():
    before = scale.resident()
    with scale.Peak() as peak:
        held = b"x" * 60_000_000
    assert peak.most - before > 0.5 * len(held)


@pytest.mark.slow
def test_two_processes_are_measured_together(compiled):
    row = processes.measure(2, 2, 1, "SYNTHETIC", None, str(compiled))
    assert row["processes"] == 2 and row["s"] > 0
