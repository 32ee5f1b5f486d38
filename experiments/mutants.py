"""Mutation testing of the solvers: which small wrong changes the tests detect.

    python -m experiments.mutants

Draws changes of fgw_jax/fgw, midpoint and augment at random, applies each to a copy of the package
in a temporary folder, runs the default tests of the changed package there, and reports whether one
failed (killed) or all passed (survived). Every mutant adds a line to --out/mutants.jsonl; mutants
found there are not run again. --list prints the sample without running it.
"""

from __future__ import annotations

import ast
import os
import random
import re
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
ROOMS = ("fgw_jax/fgw", "fgw_jax/midpoint", "fgw_jax/augment")


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
    """Default tests of a module's package, those of the module itself first.

    These are the test file of its name, files whose docstring says that they cover it, and its own
    examples.
    """
    path = Path(file)
    module = ".".join(path.with_suffix("").parts)
    folder = ROOT / "tests" / path.parent.name
    package = sorted(folder.glob("test_*.py"))
    covering = [test for test in package if module in _covered(test)]
    first = [test for test in package if test.stem == f"test_{path.stem}"] + covering
    ordered = [test.relative_to(ROOT).as_posix() for test in (*first, *package)]
    return list(dict.fromkeys([*ordered[: len(first)], file, *ordered]))


def _covered(test: Path) -> set[str]:
    """Modules that the docstring of a test file names after the word "Covers"."""
    text = ast.get_docstring(ast.parse(test.read_text())) or ""
    found = re.search(r"^Covers (fgw_jax\.[\w.]+\w,?\s*)+", text, re.MULTILINE)
    return set(re.findall(r"fgw_jax[\w.]*\w", found[0])) if found else set()


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
        # The folder of the checkout, unless one is given: the copy is gone after a mutant.
        cache = (
            cache or os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(ROOT / ".cache/programs")
        )
        environment = {
            **os.environ, "PYTHONPATH": folder, "JAX_COMPILATION_CACHE_DIR": cache,
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(  # noqa: S603 - our own tests
                [*command, *tests],
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
    texts = [(ROOT / name).read_text() for name in names]
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
        "timeout", 1800.0, "Seconds until a mutant counts as killed.", 1.0, flag_values=values
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
