"""Augment a dataset by FGWMixup, in parts that any number of processes share.

    python -m experiments.augment --dataset=NCI1 --num_new=2000 --data_dir=FOLDER --out=FOLDER

Parts of --part_size graphs are files in --out/parts (npz, read by ``Dataset.load``). Existing parts
are not computed again, so a job that was killed resumes where it was; parts do not depend on the
number of processes. Two processes on one machine:

    python -m experiments.augment --dataset=NCI1 --num_new=2000 --num_processes=2 --process_id=0
    python -m experiments.augment --dataset=NCI1 --num_new=2000 --num_processes=2 --process_id=1

Machines that are not connected use shards instead (--num_shards, --shard).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import jax
from absl import flags as absl_flags

from experiments import flags
from fgw_jax import datasets, estimates
from fgw_jax.augment import FGWMixup, parts
from fgw_jax.errors import InputError, check
from fgw_jax.protocol import folds, settings
from fgw_jax.runtime import processes

SHARED = ("dataset", "augment", *flags.METHOD, "seed", *flags.PLACES, *flags.PROCESSES)


def main(values: absl_flags.FlagValues) -> None:
    """Plan the parts, print the estimated cost, and compute the share of this process."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
        runs = settings.expand(**flags.protocol(values))
        check(len(runs) == 1, f"augment: {len(runs)} methods; name one")
        run = runs[0]
        method = run.method()
        if not isinstance(method, FGWMixup):
            raise InputError(f"augment: {run.augment} has no parts; use fgwmixup")
        folds.shard([], values.num_shards, values.shard)
        data = datasets.load(run.dataset, values.data_dir)
        count = round(method.ratio * len(data)) if values.num_new is None else values.num_new
        key = jax.random.key(values.seed)
        plan = parts.plan(method, key, data, count, out / "parts", values.part_size)
        plan = folds.shard(plan, values.num_shards, values.shard)
    todo = sum(part.count for part in plan if not part.path.exists())
    sizes = [graph.num_nodes for graph in data.graphs]
    cost = estimates.random_pairs(sizes, todo, solver=method.solver)
    total = sum(part.count for part in plan)
    flags.say(f"{data.name}: {todo} of {total} new graphs to make, {cost}", flush=True)
    processes.wait("the parts begin")  # so that the time excludes a late start
    begin = time.perf_counter()
    made = parts.make(method, key, data, plan, progress=_bar if processes.is_first() else None)
    processes.wait("the parts are made")
    seconds = time.perf_counter() - begin
    print(f"process {jax.process_index()}: {made} parts made", flush=True)
    flags.say(f"{todo} new graphs in {seconds:.2f} s, compilation included: {out / 'parts'}")


def _bar(todo: Sequence[parts.Part]) -> Iterator[parts.Part]:
    from tqdm import tqdm

    yield from tqdm(todo, unit="part", disable=not todo)


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer(
        "num_new",
        None,
        "Number of new graphs (default: --ratio of the dataset).",
        1,
        flag_values=values,
    )
    absl_flags.DEFINE_integer(
        "part_size", parts.PART_SIZE, "New graphs per file.", 1, flag_values=values
    )
    flags.define(["num_shards", "shard"], values)


if __name__ == "__main__":
    flags.launch(main, SHARED, define, augment="fgwmixup")
