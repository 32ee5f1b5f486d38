"""The efficiency tables: the command as a user sees it, and the paper's figures beside ours."""

import json

import numpy as np
import pytest

from experiments import efficiency, paper
from experiments.efficiency import MidpointFigures, Seconds


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture
def even_dir(tmp_path):
    """A TU dataset of 40 graphs with eight nodes each: one padded shape, little to compile."""
    rng = np.random.default_rng(0)
    rows: dict[str, list[str]] = {"A": [], "graph_indicator": [], "node_labels": []}
    for number in range(40):
        upper = np.triu(rng.random((8, 8)) < 0.3, 1)
        upper[np.arange(7), np.arange(1, 8)] = True
        first, second = (upper | upper.T).nonzero()
        start = 8 * number + 1
        rows["A"] += [f"{a + start}, {b + start}" for a, b in zip(first, second, strict=True)]
        rows["graph_indicator"] += [str(number + 1)] * 8
        rows["node_labels"] += [str(c) for c in rng.integers(3, size=8)]
    labels = ["0", "1"] * 20
    folder = tmp_path / "data" / "EVEN"
    folder.mkdir(parents=True)
    for suffix, lines in (rows | {"graph_labels": labels}).items():
        (folder / f"EVEN_{suffix}.txt").write_text("\n".join(lines) + "\n")
    return folder.parent


@pytest.mark.slow
def test_the_command_prints_three_tables_and_writes_lines(even_dir, tmp_path, compiled, python):
    out = python(
        "-m",
        "experiments.efficiency",
        "--datasets=EVEN",
        f"--data_dir={even_dir}",
        f"--out={tmp_path}",
        f"--compilation_cache={compiled}",
        "--methods=dropedge,ifmixup,gmixup",
        "--starts=geodesic",
        "--epochs=1",
    )
    assert out.returncode == 0, out.stderr
    tables = [line for line in out.stdout.splitlines() if line.startswith("|")]
    assert sum(line.startswith("| EVEN") for line in tables) == 3
    header, _, row = tables[-3:]
    assert cells(header) == ["dataset", "", "dropedge", "ifmixup", "gmixup", "training vgcn"]
    assert cells(row)[:2] == ["EVEN", "ours"]
    assert all(float(cell) >= 0 for cell in cells(row)[2:])
    lines = map(json.loads, (tmp_path / "measurements.jsonl").read_text().splitlines())
    figures = {line["what"]: line["figures"] for line in lines}
    assert set(figures) == {"midpoints, start geodesic", "methods", "training vgcn"}
    assert figures["methods"]["gmixup"]["again"] > 0
    assert figures["training vgcn"] > 0
    for name in ("fgwmixup", "fgwmixup_star"):
        found = figures["midpoints, start geodesic"][name]
        assert found["fold"]["first"] > found["fold"]["again"] > found["solve"] > 0
        assert found["outer"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--starts=warm", "--starts: no such name 'warm'; use geodesic, random"),
        ("--methods=drop", "--methods: no such name 'drop'; use vanilla"),
        ("--alpha=2", "--alpha: 2"),
        ("--backbone=gcn", "--backbone: no such name 'gcn'"),
    ],
)
def test_wrong_flags_end_at_once_with_their_name(flag, message, python):
    out = python("-m", "experiments.efficiency", flag)
    assert out.returncode == 2
    assert message in out.stderr


def test_the_paper_stands_beside_ours_with_its_own_speed_up():
    ours = {
        "fgwmixup": MidpointFigures(Seconds(9.0, 3.0), 2e-4, 10.0),
        "fgwmixup_star": MidpointFigures(Seconds(9.0, 2.0), 1e-4, 4.0),
    }
    table = efficiency.mixup_table({(name, "geodesic"): ours for name in paper.DATASETS})
    rows = [cells(line) for line in table.splitlines()[2:]]
    printed = {row[0]: row[4] for row in rows if row[1] == "paper"}
    # Quotients of the paper's times; it prints 2.67 and 2.74 for the two NCI sets, a slip.
    assert list(printed.values()) == ["2.03", "2.69", "2.87", "3.46", "2.85"]
    assert all(row[2:] == ["3.00", "2.00", "1.50"] for row in rows if row[1] == "geodesic")


def test_outer_steps_stand_beside_the_paper_s_with_their_ratio():
    figures = {
        "fgwmixup": MidpointFigures(Seconds(9.0, 3.0), 2e-4, 10.0),
        "fgwmixup_star": MidpointFigures(Seconds(9.0, 2.0), 1e-4, 4.0),
    }
    table = efficiency.solver_table({(name, "random"): figures for name in paper.DATASETS})
    rows = [cells(line) for line in table.splitlines()[2:]]
    printed = [row[6] for row in rows if row[1] == "paper"]
    assert printed == ["1.91", "3.14", "3.20", "4.77", "4.27"]  # as the paper prints them
    assert rows[1][2:] == ["0.00010", "0.00020", "4.00", "10.00", "2.50"]
