"""The commands that look for errors: properties of random graphs, wrong changes of the code."""

import pytest

from experiments import infeasibility, mutants, trust
from experiments.robustness import code_changes
from fgw_jax import datasets

SOURCE = '''
"""A text with 1 + 1."""
LIMIT = 3


def half(x: int, least: float = 0.0) -> float:
    """Half of x, 2 at least."""
    if x <= 1 and not least:
        return max(x / 2, least)
    return -x
'''


@pytest.mark.slow
def test_the_trust_command_counts_cases_and_violations(python):
    done = python(
        "-m", "experiments.trust", "--checks=decode", "--cases=40", "--rates=0", "--num_pairs=0"
    )
    assert done.returncode == 0, done.stderr
    assert "| decode | 64 | 0 | 0 |" in done.stdout
    assert "| all | 64 | 0 | 0 |" in done.stdout


@pytest.mark.slow
def test_an_unknown_check_is_named(python):
    done = python("-m", "experiments.trust", "--checks=everything")
    assert done.returncode == 2
    assert "--checks" in done.stderr and "decode" in done.stderr


@pytest.mark.slow
def test_values_in_both_precisions_are_close_and_the_setting_is_put_back(rng):
    data = datasets.synthetic(num_graphs=8, size=6, seed=0)
    left, right = infeasibility.random_pairs(data, 4, seed=0)
    (row,) = trust.precision_rows(left, right, 0.95, ["relaxed"])
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[0] == "relaxed" and len(cells) == len(trust.PRECISION)
    assert float(cells[1]) == pytest.approx(float(cells[2]), rel=0.02)
    assert trust.widened(left[0]).weights.dtype == "float32"


def test_changes_are_of_code_and_each_is_made_once():
    found = code_changes.mutants(SOURCE, "half.py")
    changes = [mutant.change for mutant in found]
    assert sorted(changes) == sorted(
        [
            "0.0 -> 1.0", "x <= 1 -> x < 1", "1 -> 2", "not least -> least", "x / 2 -> x * 2",
            "2 -> 3", "-x -> x",
        ]
    )  # fmt: skip
    for mutant in found:
        changed = code_changes.apply(SOURCE, mutant.number)
        compile(changed, "half.py", "exec")
        assert mutant.change.split(" -> ")[1] in changed
        assert "LIMIT = 3" in changed and "A text with 1 + 1" in changed


def test_bounds_and_extremes_of_arrays_are_changed():
    changes = [m.change for m in code_changes.mutants("y = 1\ndef f(x):\n    return x", "f.py")]
    assert changes == []
    source = "def f(x):\n    return np.maximum(x.max(0), y)"
    assert {m.change for m in code_changes.mutants(source, "f.py")} == {
        "np.maximum(x.max(0), y) -> x.max(0)",
        "x.max(0) -> x.min(0)",
        "0 -> 1",
    }


def test_the_sample_follows_from_the_seed_and_lies_in_the_solvers():
    drawn = mutants.sample(30, 0)
    assert drawn == mutants.sample(30, 0) != mutants.sample(30, 1)
    assert {m.file.rsplit("/", 1)[0] for m in drawn} == set(mutants.ROOMS)
    for mutant in drawn:
        tests = mutants.tests_of(mutant.file)
        assert tests and all((mutants.ROOT / test.split("::")[0]).is_file() for test in tests)


@pytest.mark.slow
def test_a_wrong_change_is_killed_and_no_change_survives():
    file = "fgw_jax/midpoint/sizes.py"
    source = (mutants.ROOT / file).read_text()
    wrong = next(m for m in code_changes.mutants(source, file) if m.change == "1 - lam -> 1 + lam")
    assert mutants.survives(None, [file], 300, None)
    assert not mutants.survives(wrong, [file], 300, None)
