"""Mutation testing of the solvers: which small wrong changes the tests detect.

    python -m experiments.mutants

Draws changes of fgw_jax/fgw and fgw_jax/midpoint at random, applies each to a copy of the package
in a temporary folder, runs the tests of the changed module there, and reports whether one failed
(killed) or all passed (survived). Every mutant adds a line to --out/mutants.jsonl; mutants found
there are not run again. --list prints the sample without running it.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from absl import flags as absl_flags

from experiments import flags
from experiments.robustness import code_changes
from experiments.robustness.code_changes import Mutant
from fgw_jax.errors import DataError
from fgw_jax.protocol import results

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("fgw_jax/fgw", "fgw_jax/midpoint")
#: A fast choice of tests of a whole room, after those of the module itself.
ROOM_TESTS = {
    "fgw": [
        "tests/fgw/test_solvers.py::test_value_is_that_of_the_returned_plan",
        "tests/fgw/test_solvers.py::test_padding_and_neighbours_change_nothing",
        "tests/fgw/test_solvers.py::test_odd_inputs_have_the_right_value_and_a_truthful_status",
    ],
    "midpoint": [
        "tests/midpoint/test_mixups.py::test_objective_is_that_of_feasible_plans_and_above_the_bound",
        "tests/midpoint/test_mixups.py::test_goes_under_jit_on_padded_graphs",
        "tests/midpoint/test_mixups.py::test_bad_arguments_are_named",
    ],
}
#: Modules whose first tests have another name than theirs.
OWN_TESTS = {
    "certificates": ["tests/fgw/test_bounds.py"],
    "distances": ["tests/fgw/test_iteration.py", "fgw_jax/fgw/distances.py"],
    "reference": ["tests/fgw/test_peer.py"],
    "strict": ["tests/fgw/test_conditional_gradient.py"],
    "objective": ["tests/midpoint/test_descent.py", "tests/midpoint/test_several.py"],
    "barycenter": ["tests/midpoint/test_barycenter.py", "tests/midpoint/test_several.py"],
    "starts": ["tests/fgw/test_starts.py", "tests/midpoint/test_descent.py"],
    "sizes": ["fgw_jax/midpoint/sizes.py"],
}
#: Comparisons with other solvers and the paper's loop take as long as all other tests.
LEFT_OUT = "not reference and not pot and not permuted and not random"


def sample(count: int, seed: int) -> list[Mutant]:
    """``count`` changes drawn evenly from the packages."""
    found = [
        mutant
        for room in ROOMS
        for path in sorted((ROOT / room).glob("*.py"))
        for mutant in code_changes.mutants(path.read_text(), path.relative_to(ROOT).as_posix())
    ]
    return random.Random(seed).sample(found, min(count, len(found)))  # noqa: S311 - no secret


def tests_of(file: str) -> list[str]:
    """Test files of a module: its own first, then those of its package."""
    path = Path(file)
    own = OWN_TESTS.get(path.stem, [f"tests/{path.parent.name}/test_{path.stem}.py"])
    chosen = [test for test in own if (ROOT / test).is_file()]
    return chosen + [t for t in ROOM_TESTS[path.parent.name] if t not in chosen]


def survives(mutant: Mutant | None, tests: list[str], timeout: float, cache: str | None) -> bool:
    """Whether all tests pass on the changed package (``None``: the unchanged package)."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("fgw_jax", "tests", "experiments"):
            shutil.copytree(
                ROOT / name, Path(folder) / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(ROOT / "setup.cfg", folder)
        if mutant is not None:
            path = Path(folder) / mutant.file
            path.write_text(code_changes.apply(path.read_text(), mutant.number))
        environment = {**os.environ, "PYTHONPATH": folder}
        if cache is not None:
            environment |= {
                "JAX_COMPILATION_CACHE_DIR": cache,
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
            }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(  # noqa: S603 - our own tests
                [*command, "-k", LEFT_OUT, *tests],
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            return False  # a loop that no longer ends is noticed
        return done.returncode == 0


def _key(mutant: Mutant) -> str:
    """The change of a record, the module it changes, and the tests of that module."""
    names = (mutant.file, *tests_of(mutant.file))
    texts = [(ROOT / name.split("::")[0]).read_text() for name in names]
    return results.fingerprint([mutant.file, mutant.number, mutant.change, *texts])


def main(values: absl_flags.FlagValues) -> None:
    """Run the sample, write one line each, and print the fraction killed."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
    drawn = sample(values.count, values.seed)
    if values.list:
        print("\n".join(f"{m.file}:{m.line}: {m.change}" for m in drawn))
        return
    cache = values.compilation_cache and str(Path(values.compilation_cache).resolve())
    store = results.Store(out / "mutants.jsonl")
    keys = [_key(mutant) for mutant in drawn]
    if values.baseline and not all(key in store for key in keys):
        every = sorted({test for mutant in drawn for test in tests_of(mutant.file)})
        if not survives(None, every, len(every) * values.timeout, cache):
            raise DataError("tests: some fail without any change; run python -m pytest first")
    killed = 0
    for number, (mutant, key) in enumerate(zip(drawn, keys, strict=True), start=1):
        tests = tests_of(mutant.file)
        begin = time.perf_counter()
        if key not in store:
            outcome = "survived" if survives(mutant, tests, values.timeout, cache) else "killed"
            store.append(
                {
                    "key": key, "file": mutant.file, "line": mutant.line, "change": mutant.change,
                    "outcome": outcome, "seconds": round(time.perf_counter() - begin, 1),
                }
            )  # fmt: skip
        line = store[key]
        killed += line["outcome"] == "killed"
        print(
            f"{number:3d} {line['outcome']:8} {line['seconds']:6.1f} s {mutant.file}:{mutant.line}:"
            f" {mutant.change}", flush=True,
        )  # fmt: skip
    print(f"{killed} of {len(drawn)} killed, {killed / len(drawn):.0%}")


def own_flags(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer("count", 60, "Mutants to draw.", 1, flag_values=values)
    absl_flags.DEFINE_float(
        "timeout", 600.0, "Seconds until a mutant counts as killed.", 1.0, flag_values=values
    )
    absl_flags.DEFINE_bool(
        "baseline",
        True,
        "First check that the tests pass on the unchanged package.",
        flag_values=values,
    )
    absl_flags.DEFINE_bool("list", False, "Print the sample only.", flag_values=values)


if __name__ == "__main__":
    flags.launch(main, ["seed", "out", "compilation_cache"], own_flags)
