"""Statistics of the datasets beside those of the paper's appendix, and a table of padded sizes.

    python -m experiments.datasets --data_dir=FOLDER

Every dataset found in the folder is shown; ``--download`` fetches the missing ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from absl import flags as absl_flags

from experiments import flags
from fgw_jax import backbones
from fgw_jax.datasets import Dataset, load, loader, registry
from fgw_jax.errors import check
from fgw_jax.runtime import shapes

COLUMNS = ("graphs", "avg nodes", "med nodes", "avg edges", "med edges", "feat dim", "classes")

#: The paper's table of statistics, as printed. It counts the lines of ``NAME_A.txt``: half of them
#: in the average, all of them in the median.
PAPER = {
    "PROTEINS": ("1113", "39.05", "26", "72.82", "98", "3", "2"),
    "NCI1": ("4110", "29.76", "27", "32.30", "58", "37", "2"),
    "NCI109": ("4127", "29.57", "26", "32.13", "58", "38", "2"),
    "IMDB-BINARY": ("1000", "19.77", "17", "193.06", "260", "N/A", "2"),
    "IMDB-MULTI": ("1500", "13.00", "10", "131.87", "144", "N/A", "3"),
}


def statistics(data: Dataset) -> tuple[str, ...]:
    """The cells of the paper's table for a dataset, counted as the paper counts."""
    nodes = np.array([graph.num_nodes for graph in data.graphs])
    listed = np.array([np.count_nonzero(graph.adjacency) for graph in data.graphs])
    if data.name in ("IMDB-BINARY", "IMDB-MULTI"):
        listed *= 2  # these files list every edge twice in each direction
    return (
        str(len(data)),
        f"{nodes.mean():.2f}",
        f"{np.median(nodes):g}",
        f"{listed.mean() / 2:.2f}",
        f"{np.median(listed):g}",
        "N/A" if data.name.startswith("IMDB-") else str(data.num_features),
        str(data.num_classes),
    )


def padding(sizes: np.ndarray, max_shapes: int, num_pairs: int, seed: int) -> list[float]:
    """Ratios of padded to unpadded work of random pairs, n1^2 n2 + n1 n2^2.

    With the fixed grid; with shapes fitted to the list (:func:`shapes.pair_shapes`); and with
    these if every pair has its larger graph first.
    """
    rows, columns = np.random.default_rng(seed).choice(sizes, (2, num_pairs))
    larger, smaller = np.maximum(rows, columns), np.minimum(rows, columns)
    return [
        shapes.grid_shapes(larger, smaller).waste,
        shapes.pair_shapes(rows, columns, max_shapes).waste,
        shapes.pair_shapes(larger, smaller, max_shapes).waste,
    ]


def row_share(data: Dataset) -> float:
    """Ratio of rows to nodes in training: nodes no layer of vGCN can distinguish share a row."""
    found = backbones.make("vgcn", data.num_classes).quotients(data.graphs)
    return sum(one.num_nodes for one in found) / sum(graph.num_nodes for graph in data.graphs)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def find(names: Sequence[str], data_dir: str | None, download: bool) -> list[Dataset]:
    """The datasets that are available locally, or can be downloaded."""
    here = [n for n in names if download or loader.locate(registry.find(n), data_dir) is not None]
    return [load(name, data_dir) for name in here]


def define(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_list(
        "names", None, "Datasets to show (default: all of the registry).", flag_values=values
    )
    absl_flags.DEFINE_bool(
        "download", False, "Download datasets that the folder does not contain.", flag_values=values
    )
    absl_flags.DEFINE_integer(
        "max_shapes", 8, "Maximum number of padded shapes of a dataset.", 1, flag_values=values
    )
    absl_flags.DEFINE_integer(
        "num_pairs", 1000, "Random pairs for the pair columns.", 1, flag_values=values
    )


def main(values: absl_flags.FlagValues) -> None:
    """Print both tables."""
    with flags.usage_errors(values):
        found = find(values.names or registry.names(), values.data_dir, values.download)
        check(len(found) > 0, "data_dir: no dataset found; pass --data_dir=FOLDER, or --download")
    rows = []
    for data in found:
        ours, paper = statistics(data), PAPER.get(data.name)
        rows.append((data.name, "ours", *ours, ""))
        if paper is not None:
            same = sum(a == b for a, b in zip(ours, paper, strict=True))
            rows.append(("", "paper", *paper, f"{same} of {len(paper)} equal"))
    print("Statistics\n")
    print(table(("dataset", "", *COLUMNS, ""), rows))
    print(
        "\nEdges as the paper counts them, by lines of NAME_A.txt: half of them in the mean, all "
        "in the median.\nA line is an edge in one direction; the IMDB files list each twice, so "
        "undirected edges are half\nthe IMDB averages. IMDB has no node labels: its features are "
        "one-hot degrees. OGB's are scaled.\n"
    )
    rows = []
    for data in found:
        sizes = np.array([graph.num_nodes for graph in data.graphs])
        figures = padding(sizes, values.max_shapes, values.num_pairs, values.seed)
        figures.append(row_share(data))
        rows.append((data.name, *(f"{figure:.2f}" for figure in figures)))
    print(
        f"Padding: ratio of padded to unpadded work of random pairs, on the fixed grid or with at "
        f"most {values.max_shapes} fitted shapes;\nlast, ratio of rows to nodes in training vGCN\n"
    )
    print(table(("dataset", "grid", "fitted", "fitted, larger first", "rows"), rows))


if __name__ == "__main__":
    flags.launch(main, ["data_dir", "seed"], define)
