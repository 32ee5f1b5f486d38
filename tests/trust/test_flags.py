"""Every flag of every binary, given wrongly: exit code 2, the flag's name, a remedy, no work done.

The flags are read from the binaries themselves, so that a new one is tried at once; a text flag
needs a row in ``WRONG``.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from absl import flags as absl_flags

from experiments import benchmark, flags

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for path in (ROOT / "experiments").rglob("*.py")
    if "\n    flags.launch(" in path.read_text()
)
#: module and the flags without which it asks for other things first
BINARIES = [(name, ()) for name in NAMES if name not in ("experiments.benchmark",)]
BINARIES += [("experiments.benchmark", (f"--suite={suite}",)) for suite in benchmark.SUITES]
NEEDED = {
    "experiments.sweep": ("--table=main",),
    "experiments.warm_up": ("--compilation_cache=cache",),
}

#: values of text and list flags that no binary can use; FILE and FOLDER are made by the test
WRONG = {
    "augment": ("", "nosuch", "vanilla,vanilla", "vanilla,"),
    "augments": ("nosuch", "vanilla,"),
    "backbone": ("", "nosuch"),
    "backbones": ("nosuch", "vgcn,,vgin"),
    "batches": ("", "x", "0", "1.5", "-1", "1,,2", "99999999999"),
    "checkpoint": ("", "FOLDER"),
    "checks": ("", "nosuch"),
    "compilation_cache": ("", "FILE"),
    "coordinator_address": ("", "nosuch"),
    "counts": ("", "x", "0", "1.5"),
    "data_dir": ("", "FILE"),
    "dataset": ("", "../PROTEINS", "proteins", "ogbg-ppa", "NCI1,NCI109"),
    "datasets": ("../PROTEINS", "proteins", "NCI1,,MUTAG"),
    "devices": ("", "x", "0"),
    "large_nodes": ("", "x", "-1"),
    "methods": ("nosuch", "dropedge,"),
    "names": ("../PROTEINS", "proteins"),
    "out": ("", "FILE", "FILE/below"),
    "part": ("", "nosuch"),
    "parts": ("", "nosuch"),
    "protocol": ("", "nosuch"),
    "reference": ("", "nosuch"),
    "results": ("", "FOLDER/missing", "FOLDER"),
    "size": ("", "nosuch", "12"),
    "solver": ("", "nosuch"),
    "sizes": ("", "x", "0", "1.5", "-1", "16,", "99999999999"),
    "start": ("", "nosuch"),
    "starts": ("nosuch", "geodesic,"),
    "suite": ("", "nosuch"),
    "table": ("nosuch",),
    "tune": ("nosuch", "alpha,"),
}
NUMBERS = {"float": ("", "x", "nan", "inf", "-1", "1e999"), "int": ("", "x", "1.5", "-1", "9" * 30)}

#: flags that are right by themselves and wrong together
CONTRADICTORY = [
    ("experiments.run", ["--augment=vanilla", "--alpha=0.5"], "alpha"),
    ("experiments.run", ["--augment=ifmixup", "--backbone=graphormer"], "augment"),
    ("experiments.run", ["--augment=dropedge", "--ratio=1.5"], "ratio"),
    ("experiments.run", ["--augment=fgwmixup", "--step_size=1"], "step_size"),
    ("experiments.train", ["--augment=vanilla,dropedge"], "augment"),
    ("experiments.train", ["--folds=3", "--fold=3"], "fold"),
    ("experiments.train", ["--size=half"], "size"),
    ("experiments.sweep", ["--table=main", "--num_shards=2", "--shard=2"], "shard"),
    ("experiments.sweep", ["--table=main", "--tune=training", "--batch_size=32"], "batch_size"),
    ("experiments.sweep", ["--table=ogb", "--datasets=NCI1"], "datasets"),
    ("experiments.sweep", ["--table=efficiency", "--epochs=3"], "epochs"),
    ("experiments.sweep", ["--table=convergence", "--tune=alpha"], "tune"),
    ("experiments.run", ["--num_processes=2", "--process_id=2"], "process_id"),
    ("experiments.run", ["--coordinator_address=nosuch"], "coordinator_address"),
    ("experiments.run", ["--distributed", "--num_processes=2"], "distributed"),
    ("experiments.augment", ["--augment=fgwmixup,fgwmixup_star"], "augment"),
    ("experiments.tables", ["--tune=training", "--learning_rate=0.1"], "learning_rate"),
    ("experiments.tables", ["--table=main,efficiency"], "table"),
]


@pytest.fixture(scope="module")
def compilations():
    """Names of the programs compiled while the module runs."""
    seen = []

    def listen(event, seconds, **_):
        if "compile" in event:
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    seen.append("closed")


def taken(module, argv, monkeypatch):
    """The main function of a binary and its flags, as it hands them to ``launch``."""
    found = {}

    def launch(main, names, extra=None, **defaults):
        found.update(main=main, names=names, extra=extra, defaults=defaults)

    path = ROOT / (module.replace(".", "/") + ".py")
    with monkeypatch.context() as patch:
        patch.setattr(flags, "launch", launch)
        patch.setattr("sys.argv", [str(path), *argv])
        runpy.run_path(str(path), run_name="__main__")
    values = absl_flags.FlagValues()
    flags.define(found["names"], values, **found["defaults"])
    if found["extra"] is not None:
        found["extra"](values)
    return found["main"], values


def attempts(values, folder):
    """Wrong ways to give each flag: (its name, the arguments)."""
    places = {"FILE": str(folder / "file"), "FOLDER": str(folder)}
    for name in sorted(values):
        flag = values[name]
        if isinstance(flag, absl_flags.BooleanFlag):
            yield name, [f"--{name}=perhaps"]
            continue
        yield name, [f"--{name}"]
        kind = {"float": "float", "int": "int"}.get(flag.flag_type())
        assert kind or name in WRONG, f"--{name} is new: add a row to WRONG"
        for value in NUMBERS[kind] if kind else WRONG[name]:
            for word, place in places.items():
                value = value.replace(word, place)
            yield name, [f"--{name}={value}"]


def refuse(main, values, argv, capsys):
    with pytest.raises(SystemExit) as end:
        flags.parse(values, ["program", *argv])
        main(values)
    out, error = capsys.readouterr()
    assert end.value.code == 2, (argv, error)
    assert out == "", argv
    return error


@pytest.mark.parametrize(("module", "given"), BINARIES, ids=lambda x: str(x).split(".")[-1])
def test_every_flag_given_wrongly(module, given, tmp_path, monkeypatch, capsys, compilations):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FGW_JAX_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("FGW_JAX_CACHE", str(tmp_path / "none"))
    before, compiled = sorted(tmp_path.rglob("*")), len(compilations)
    _, known = taken(module, given, monkeypatch)
    tried = 0
    for name, wrong in attempts(known, tmp_path):
        if name == "suite":  # read before the flags are
            with pytest.raises(SystemExit) as end:
                taken(module, wrong, monkeypatch)
            error = capsys.readouterr()[1]
            assert end.value.code == 2
        else:
            main, values = taken(module, given, monkeypatch)
            needed = NEEDED.get(module, ()) if name != "table" else ()
            error = refuse(main, values, [*given, *needed, *wrong], capsys)
        assert f"--{name}" in error, (wrong, error)
        assert ";" in error, (wrong, error)  # what was wrong; what to do
        tried += 1
    assert tried >= len(list(known))
    assert sorted(tmp_path.rglob("*")) == before
    assert len(compilations) == compiled


@pytest.mark.parametrize(("module", "argv", "named"), CONTRADICTORY)
def test_flags_that_contradict_each_other(module, argv, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main, values = taken(module, (), monkeypatch)
    error = refuse(main, values, argv, capsys)
    assert f"--{named}" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "argv", "named"),
    [
        ("experiments.run", ["--epochs=0"], "--epochs"),
        ("experiments.datasets", ["--names=../x"], "--names"),
        ("experiments.benchmark", ["--suite=nosuch"], "--suite"),
        ("experiments.sweep", ["--table"], "--table"),
    ],
)
def test_in_a_process_of_its_own(module, argv, named, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", module, *argv],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert named in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
