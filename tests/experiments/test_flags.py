"""Wrong flags end at once: exit code 2, the flag named, a remedy."""

from pathlib import Path

import pytest
from absl import flags as absl_flags

from experiments import flags, run, sweep, sweeps
from fgw_jax.errors import InputError
from fgw_jax.protocol import settings

ROOT = Path(__file__).resolve().parents[2]


def parsed(*argv, names=flags.PROTOCOL, extra=None):
    values = absl_flags.FlagValues()
    flags.define(names, values)
    if extra is not None:
        extra(values)
    values(["program", *argv])
    return values


def test_without_flags_the_main_job_is_meant():
    runs = settings.expand(**flags.protocol(parsed()))
    assert [r.augment for r in runs] == ["vanilla", "fgwmixup", "fgwmixup_star"]
    assert {r.dataset for r in runs} == {"SYNTHETIC"}
    assert {r.resolved_folds for r in runs} == {10}


def test_every_flag_reaches_its_field():
    given = {
        "dataset": "NCI1", "backbone": "vgin", "augment": "fgwmixup_star", "alpha": 0.5,
        "beta_k": 1.0, "ratio": 0.5, "step_size": 10.0, "size": "double", "start": "random",
            "refresh_every": 2, "patience": 30,
        "num_layers": 4, "hidden": 32, "epochs": 5, "batch_size": 32, "learning_rate": 1e-4,
        "label_noise": 0.2, "protocol": "rotating", "folds": 5, "seed": 3,
    }  # fmt: skip
    assert set(given) == set(flags.PROTOCOL)
    (one,) = settings.expand(**flags.protocol(parsed(*(f"--{k}={v}" for k, v in given.items()))))
    assert {name: getattr(one, name) for name in given} == given


@pytest.mark.parametrize("name", ["rotating", "paper"])
def test_a_flagfile_says_what_its_flags_say(name):
    file = ROOT / "experiments" / "flagfiles" / f"{name}.flags"
    written = [line for line in file.read_text().splitlines() if line.startswith("--")]
    extra = sweep.own_flags
    read = parsed(f"--flagfile={file}", names=(), extra=extra)
    told = parsed(*written, names=(), extra=extra)
    assert (
        sweeps.overrides(read)
        == sweeps.overrides(told)
        != sweeps.overrides(parsed(names=(), extra=extra))
    )
    assert read.tune == told.tune


def refused(capsys, main, *argv, names, extra=None):
    """What a binary says before it ends with code 2."""
    values = parsed(*argv, names=names, extra=extra)
    with pytest.raises(SystemExit) as end:
        main(values)
    assert end.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    return error


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--alpha=2"], "--alpha: 2.0 is not from 0 to 1"),
        (["--augment=vanilla", "--alpha=0.5"], "--alpha: no option of vanilla; leave it out"),
        (["--augment=ifmixup", "--backbone=graphormer"], "--augment: ifmixup makes graphs with"),
        (["--backbone=gcn"], "--backbone: no such name 'gcn'; choose one of vgcn"),
        (["--folds=200"], "--folds: the smallest class has 150 graphs"),
        (["--protocol=scaffold"], "no split was published with it; use"),
        (["--out=setup.cfg"], "--out: setup.cfg is a file; give a folder"),
        (["--data_dir=setup.cfg", "--dataset=MUTAG"], "--data_dir: setup.cfg is not a folder"),
    ],
)
def test_the_main_job_refuses(argv, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    out = [] if any(a.startswith("--out") for a in argv) else [f"--out={tmp_path / 'out'}"]
    names = [*flags.PROTOCOL, *flags.PLACES]
    assert said in refused(capsys, run.main, *argv, *out, names=names)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "--table: name one of main, noise"),
        (["--table=big"], "--table: no such table; choose from main"),
        (["--table=main", "--tune=beta"], "--tune: cannot tune 'beta'; choose from alpha"),
        (["--table=main", "--num_shards=2", "--shard=2"], "--shard: 2 is not from 0 to 1"),
        (["--table=main", "--epochs=0"], "--epochs: 0 must be at least 1"),
        (["--table=ogb", "--datasets=NCI1"], "--datasets: ogb has no cell of 'NCI1'"),
        (["--table=main", "--tune=training", "--batch_size=32"], "--batch_size: --tune=training"),
    ],
)
def test_the_sweep_refuses(argv, said, capsys):
    names, extra = flags.PLACES, sweep.own_flags
    assert said in refused(capsys, sweep.main, *argv, names=names, extra=extra)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--alpha=x"], "--alpha=x: could not convert"),
        (["--epoch=3"], "Unknown command line flag 'epoch'. Did you mean: epochs ?"),
        (["epochs=3"], "epochs=3: not a flag; write --name=value"),
    ],
)
def test_the_command_line_ends_with_code_2(argv, said, python):
    done = python("-m", "experiments.run", *argv)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_help_names_the_command_and_describes_every_flag(python):
    done = python("-m", "experiments.run", "--help")
    assert "python -m experiments.run" in done.stdout
    assert all(f"--{name}:" in done.stdout for name in (*flags.PROTOCOL, *flags.PLACES))
    assert "exit code 2" in done.stdout


def test_overrides_are_checked_in_the_library():
    values = parsed("--epochs=3", "--seed=2", "--tune=alpha", names=[], extra=sweeps.define)
    assert sweeps.overrides(values) == {"epochs": 3, "seed": 2}
    values = parsed("--tune=alpha,size", names=[], extra=sweeps.define)
    with pytest.raises(InputError, match="cannot tune 'size'"):
        sweeps.overrides(values)
