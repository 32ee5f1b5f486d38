"""The table of methods by flag spelling, and which backbone reads what."""

import subprocess
import sys

import jax
import pytest

from fgw_jax import Relaxed, Strict, augment, datasets
from fgw_jax.errors import InputError

CONTRACT = {
    "vanilla": "Vanilla",
    "dropedge": "DropEdge",
    "dropnode": "DropNode",
    "mmixup": "ManifoldMixup",
    "ifmixup": "IfMixup",
    "gmixup": "GMixup",
    "fgwmixup": "FGWMixup",
    "fgwmixup_star": "FGWMixup",
}


@pytest.mark.parametrize("name", CONTRACT)
def test_the_paper_s_methods_go_by_their_flag_spelling(name):
    assert type(augment.make(name)) is getattr(augment, CONTRACT[name])


def test_the_two_variants_differ_in_their_solver():
    assert augment.make("fgwmixup").solver == Strict()
    assert augment.make("fgwmixup_star").solver == Relaxed()
    solver = Relaxed(step_size=2.0)
    assert augment.make("fgwmixup_star", solver=solver, ratio=0.1).solver is solver


def test_fields_are_set_and_unknown_names_are_refused_with_what_there_is():
    assert augment.make("gmixup_gw", ratio=0.5) == augment.GMixup(ratio=0.5, estimator="gw")
    with pytest.raises(InputError, match="no such method 'gmix'.*gmixup"):
        augment.make("gmix")
    with pytest.raises(InputError, match="rate: no field of dropedge; it has ratio"):
        augment.make("dropedge", rate=0.1)
    with pytest.raises(InputError, match="it has none"):
        augment.make("vanilla", ratio=0.1)


def test_a_name_the_room_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = augment.Nothing


def test_the_table_alone_loads_no_solver():
    code = (
        "import sys; import fgw_jax.augment as a; a.make('dropedge'); "
        "print('fgw_jax.fgw' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert out.stdout.strip() == "False", out.stderr


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_a_number_of_midpoints_that_cannot_be_drawn_is_named_at_once(count):
    data = datasets.synthetic(num_graphs=4)
    with pytest.raises(InputError, match=f"batch_size: {count} must be a whole number"):
        augment.FGWMixup().stream(jax.random.key(0), data, count)
    with pytest.raises(InputError, match=f"count: {count} must be a whole number"):
        augment.FGWMixup().draw(jax.random.key(0), data, count)
