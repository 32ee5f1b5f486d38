"""A page of midpoints: sources, midpoint, plan and objective, as in the paper's qualitative figure.

    python -m experiments.gallery --dataset=MUTAG --data_dir=FOLDER --out=FOLDER

Draws pairs of two classes at random, mixes them, and writes one picture of each kind per pair, and
``gallery.md``, the page that shows them.
"""

from __future__ import annotations

import numpy as np
from absl import flags as absl_flags

from experiments import flags
from fgw_jax import datasets, mixups, plot
from fgw_jax.errors import check

SHARED = ("dataset", "seed", "data_dir", "out", "compilation_cache")


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_integer("num_pairs", 6, "Pairs to show.", 1, flag_values=values)
    absl_flags.DEFINE_integer(
        "max_nodes", 40, "Maximum number of nodes of a graph.", 2, flag_values=values
    )


def main(values: absl_flags.FlagValues) -> None:
    """Draw pairs, mix them, and write the page."""
    with flags.usage_errors(values):
        out = flags.out_folder(values)
        data = datasets.load(values.dataset, values.data_dir)
        kept = [i for i, graph in enumerate(data.graphs) if graph.num_nodes <= values.max_nodes]
        labels = np.asarray(data.labels)[kept]
        check(
            labels.ndim == 1 and {0, 1} <= set(labels.tolist()),
            f"max_nodes: there are no two classes among the graphs of at most {values.max_nodes} "
            "nodes; raise it, or choose another dataset",
        )
    small = data[kept]
    rng = np.random.default_rng(values.seed)
    first, second = (rng.choice(np.flatnonzero(labels == c), values.num_pairs) for c in (0, 1))
    lams = rng.uniform(0.2, 0.8, values.num_pairs)
    left, right = ([small.graphs[i] for i in side] for side in (first, second))
    mids = mixups(left, right, lams)
    out.mkdir(parents=True, exist_ok=True)
    page = [f"# Midpoints of {data.name}", f"Seed {values.seed}, {values.num_pairs} pairs."]
    for k, (a, b, lam, mid) in enumerate(zip(left, right, lams, mids, strict=True)):
        pictures = {
            "midpoint": plot.midpoint(a, b, mid, lam),
            "plan": plot.plan(mid.plans[0], "midpoint to first graph"),
            "objective": plot.history(mid),
        }
        names = []
        for name, figure in pictures.items():
            plot.save(figure, out / f"{name}_{k}.png")
            names.append(f"![{name} {k}]({name}_{k}.png)")
        text = f"lam {lam:.2f}, objective {mid.objective:.4f}, bound {mid.bound:.4f}"
        page += [f"## Pair {k + 1}: {text}", *names]
    (out / "gallery.md").write_text("\n\n".join(page) + "\n")
    print(f"{len(mids)} midpoints; written to {out}/gallery.md")


if __name__ == "__main__":
    flags.launch(main, SHARED, define)
