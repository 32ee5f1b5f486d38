"""What a run is: defaults of the paper, and what is refused."""

import dataclasses

import pytest

from fgw_jax import augment, backbones
from fgw_jax.augment import FGWMixup
from fgw_jax.errors import InputError
from fgw_jax.midpoint import Median
from fgw_jax.protocol.settings import Settings, expand, options_of, users_of
from fgw_jax.protocol.summary import run_key


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"dataset": "NCI1"}, {"num_layers": 6, "hidden": 64, "epochs": 400, "folds": 10}),
        ({"dataset": "NCI1", "backbone": "graphormer"}, {"epochs": 300, "protocol": "holdout"}),
        ({"dataset": "PROTEINS", "backbone": "graphormer_gd"}, {"num_layers": 5, "hidden": 32}),
        ({"dataset": "PROTEINS", "backbone": "graphormer"}, {"num_layers": 6, "hidden": 64}),
        (
            {"dataset": "ogbg-molhiv"},
            {"num_layers": 5, "hidden": 256, "folds": 5, "protocol": "scaffold"},
        ),
        ({"augment": "fgwmixup"}, {"alpha": 0.95, "beta_k": 0.2, "ratio": 0.25, "step_size": None}),
        ({"augment": "vanilla"}, {"alpha": None, "ratio": None}),
    ],
)
def test_what_is_left_out_is_the_papers(fields, expected):
    resolved = Settings(**fields).resolved()
    assert {name: resolved[name] for name in expected} == expected


def test_settings_that_resolve_alike_are_one_run():
    plain = Settings(dataset="NCI1", augment="fgwmixup")
    assert run_key(plain) == run_key(dataclasses.replace(plain, alpha=0.95, epochs=400))
    assert run_key(plain) != run_key(dataclasses.replace(plain, alpha=0.5))
    assert run_key(plain) != run_key(dataclasses.replace(plain, seed=1))
    spelt = [Settings(dataset=name) for name in ("ogbg_molbace", "ogbg-molbace")]
    assert run_key(spelt[0]) == run_key(spelt[1])
    whole = dataclasses.replace(plain, alpha=1, label_noise=0)
    assert run_key(whole) == run_key(dataclasses.replace(plain, alpha=1.0, label_noise=0.0))


def test_widths_of_graphormers_divide_by_their_heads():
    with pytest.raises(InputError, match="hidden: 30 does not divide by 4 heads"):
        Settings(backbone="graphormer", hidden=30)
    assert Settings(backbone="vgcn", hidden=30).resolved()["hidden"] == 30


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"backbone": "gcn"}, "backbone: no such name 'gcn'; choose one of vgcn"),
        ({"augment": "mixup"}, "augment: no such name 'mixup'; choose one of vanilla"),
        ({"augment": "vanilla", "alpha": 0.5}, "alpha: no option of vanilla; leave it out"),
        ({"augment": "fgwmixup", "step_size": 1.0}, "step_size: no option of fgwmixup"),
        ({"augment": "fgwmixup", "alpha": 1.5}, "alpha: 1.5 is not from 0 to 1"),
        ({"augment": "fgwmixup", "size": "big"}, "size: no such name 'big'"),
        ({"label_noise": -0.1}, "label_noise: -0.1 is not from 0 to 1"),
        ({"protocol": "cv"}, "protocol: no such name 'cv'; choose one of holdout"),
        ({"folds": 1}, "folds: 1 is too few"),
        ({"epochs": 0}, "epochs: 0 must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate: 0.0 must be above 0"),
        ({"patience": 0}, "patience: 0 must be at least 1"),
        ({"augment": "fgwmixup", "refresh_every": 0}, "refresh_every: 0 must be at least 1"),
        ({"augment": "gmixup", "refresh_every": 5}, "refresh_every: no option of gmixup"),
        ({"seed": -1}, "seed: -1 is not from 0 to"),
        ({"seed": 2**32}, "seed: 4294967296 is not from 0 to"),
        ({"learning_rate": float("inf")}, "learning_rate: inf must be above 0 and finite"),
        ({"augment": "dropedge", "ratio": 1.5}, "ratio: 1.5 is not a share"),
        ({"augment": "ifmixup", "backbone": "graphormer"}, "no shortest paths.*use vgcn or vgin"),
    ],
)
def test_wrong_values_and_combinations_name_the_field_and_the_remedy(fields, said):
    with pytest.raises(InputError, match=said):
        Settings(**fields)


def test_options_go_to_the_methods_that_have_them():
    runs = expand(["vanilla", "dropedge", "fgwmixup_star"], ratio=0.1, step_size=0.5)
    assert [run.ratio for run in runs] == [None, 0.1, 0.1]
    assert [run.step_size for run in runs] == [None, None, 0.5]
    with pytest.raises(InputError, match="alpha: no option of vanilla, dropedge"):
        expand(["vanilla", "dropedge"], alpha=0.5)
    with pytest.raises(InputError, match="names a method twice"):
        expand(["vanilla", "vanilla"])
    with pytest.raises(InputError, match="names no method"):
        expand([])


def test_the_method_gets_its_options():
    made = Settings(
        augment="fgwmixup_star", alpha=0.5, size="half", step_size=0.1, start="random", ratio=0.5
    ).method()
    assert isinstance(made, FGWMixup)
    assert (made.alpha, made.size, made.start, made.ratio) == (0.5, Median(0.5), "random", 0.5)
    assert made.solver.step_size == 0.1
    assert Settings(augment="fgwmixup", refresh_every=20).method().refresh_every == 20


def test_training_gets_its_numbers():
    plain = Settings(dataset="ogbg-molbace", epochs=7).config()
    assert (plain.epochs, plain.select, plain.patience) == (7, "auroc", None)
    assert Settings(patience=30).config().patience == 30
    assert Settings().config(authors=True).patience == 50
    assert Settings(patience=30).config(authors=True).patience == 30


@pytest.mark.parametrize("method", augment.METHODS)
def test_every_method_has_settings_with_every_backbone_or_a_reason(method):
    refused = []
    for backbone in backbones.BACKBONES:
        try:
            made = Settings(backbone=backbone, augment=method)
        except InputError as error:
            refused.append((backbone, str(error)))
            continue
        given = {n: v for n, v in made.resolved().items() if n in options_of(method)}
        assert run_key(dataclasses.replace(made, **given)) == run_key(made)
    if augment.make(method).continuous_edges:
        assert [backbone for backbone, _ in refused] == ["graphormer", "graphormer_gd"]
    else:
        assert refused == []


def test_who_uses_an_option():
    assert users_of("step_size") == ["fgwmixup_star"]
    assert "gmixup" not in users_of("alpha")
    assert "gmixup_fgw" in users_of("alpha")
