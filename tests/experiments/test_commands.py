"""Every command the texts name exists and takes the flags they give it.

What the commands do is tested elsewhere: run (test_run), sweep and tables (test_sweep), datasets,
efficiency (their own files), convergence, infeasibility and baselines (test_measurements), the
notebooks (test_colab), the reference (test_docs); ``python -m pytest`` is this suite.
"""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from absl import flags as absl_flags

from experiments import flags

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ("README.md", "WORKSPACE.md", "experiments/README.md")
COMMANDS = sorted(
    {
        command.strip()
        for text in TEXTS
        for command in re.findall(r"python -m (experiments\.[^`|\n]*)", (ROOT / text).read_text())
    }
)


def test_the_texts_name_commands():
    assert "experiments.run" in COMMANDS
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_its_flags(command, monkeypatch):
    # Variables of a scheduler stand for numbers; the command may be the end of a quoted one.
    module, *given = shlex.split(re.sub(r"\$\w+", "0", command).rstrip("'"))
    path = ROOT / (module.replace(".", "/") + ".py")
    assert path.is_file()
    source = path.read_text()
    assert f"python -m {module}" in source  # its --help says how to call it
    if "flags.launch(" not in source:
        names = re.findall(r"--(\w+)", " ".join(given))
        assert all(f'"{name}"' in source for name in names)
        return
    taken = {}

    def launch(main, names, extra=None, **defaults):
        taken.update(names=names, extra=extra, defaults=defaults)

    monkeypatch.setattr(flags, "launch", launch)
    monkeypatch.setattr("sys.argv", [str(path), *given])
    runpy.run_path(str(path), run_name="__main__")
    values = absl_flags.FlagValues()
    flags.define(taken["names"], values, **taken["defaults"])
    if taken["extra"] is not None:
        taken["extra"](values)
    assert values(["program", *given]) == ["program"]


def test_every_binary_is_named_in_the_experiments_readme():
    text = (ROOT / "experiments" / "README.md").read_text()
    for path in (ROOT / "experiments").glob("*.py"):
        if "\nif __name__ ==" in path.read_text():
            assert f"python -m experiments.{path.stem}" in text
