"""A fold of FGWMixup in a fresh process, compilation included.

    python -m experiments.benchmark --suite=fresh --data_dir=FOLDER --out=FOLDER

Every row is a new process: seconds from before the first import until the new graphs of the first
rotating fold are in host memory, once with nothing compiled and then with the programs kept by the
process before (``fgw_jax.keep_programs``). Written to ``fresh.md``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from absl import flags as absl_flags

from experiments import flags
from experiments.benchmarks.distance import markdown

SHARED = ("data_dir", "out")
ROOT = Path(__file__).resolve().parents[2]
SOLVERS = ("Strict", "Relaxed")


def measure(dataset: str, data_dir: str | None, solver: str, repeats: int) -> list[dict[str, Any]]:
    """Rows of one process without and ``repeats`` processes with cached programs."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1 + repeats):
            given = json.dumps([dataset, data_dir, solver, folder])
            text = subprocess.run(  # noqa: S603
                [sys.executable, "-m", "experiments.benchmarks.fresh", given],
                cwd=ROOT,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
            row = {"dataset": dataset, "solver": solver, "programs": "kept" if number else "none"}
            rows.append(row | json.loads(text.splitlines()[-1]))
            print(markdown(rows[-1:]), flush=True)
    return rows


def process(dataset: str, data_dir: str | None, solver: str, folder: str) -> dict[str, Any]:
    """The work of a fresh process."""
    begin = time.perf_counter()
    import jax

    import fgw_jax

    fgw_jax.keep_programs(folder)
    data = fgw_jax.datasets.load(dataset, data_dir)
    train = data[fgw_jax.datasets.splits.rotating(data)[0].train]
    method = fgw_jax.augment.FGWMixup(solver=getattr(fgw_jax, solver)())
    made = len(method(jax.random.key(0), train)) - len(train)
    return {"midpoints": made, "s": time.perf_counter() - begin}


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this suite."""
    absl_flags.DEFINE_list("datasets", ["PROTEINS", "NCI1"], "Of the folds.", flag_values=values)
    absl_flags.DEFINE_integer("repeats", 2, "Processes with kept programs.", 0, flag_values=values)


def main(values: absl_flags.FlagValues) -> None:
    """Measure and write ``fresh.md``."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
    rows = [
        row
        for dataset in values.datasets
        for solver in SOLVERS
        for row in measure(dataset, values.data_dir, solver, values.repeats)
    ]
    out.mkdir(parents=True, exist_ok=True)
    (out / "fresh.md").write_text(f"{markdown(rows)}\n")
    print(f"\n{markdown(rows)}\n\n{out / 'fresh.md'}")


if __name__ == "__main__":  # one fresh process
    print(json.dumps(process(*json.loads(sys.argv[1]))))
