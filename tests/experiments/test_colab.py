"""The notebooks run from top to bottom, keep no outputs and stay small."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "experiments" / "colab").glob("*.ipynb"))


def test_both_notebooks_are_here():
    assert [path.name for path in NOTEBOOKS] == ["fgw_mixup.ipynb", "in_your_project.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_keeps_no_outputs(path):
    assert path.stat().st_size < 100_000
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_notebook_runs_from_top_to_bottom(path, monkeypatch):
    # The kernel finds the package in the clone, as after an editable install.
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(ROOT)}}).execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])
    )
    assert "accuracy" in printed
