"""Statistics of the datasets beside those of the paper's appendix, and the bucket table.

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


def bucket_row(
    sizes: np.ndarray, max_shapes: int, num_pairs: int, seed: int
) -> tuple[list[int], list[float]]:
    """Chosen sizes, and ratios of padded to unpadded work.

    The ratios are: n^3 with the chosen sizes; n^3 with powers of two; and on random pairs, as
    n1^2 n2 + n1 n2^2, with square shapes by the larger graph, with :func:`pair_shapes`, and with
    the same if every pair has its larger graph first.
    """
    chosen = shapes.bucket_sizes(sizes, max_shapes)
    powers = [2**k for k in range(int(sizes.max()).bit_length() + 1)]
    rows, columns = np.random.default_rng(seed).choice(sizes, (2, num_pairs))
    larger, smaller = np.maximum(rows, columns), np.minimum(rows, columns)
    grid = np.array(shapes.bucket_sizes(larger, max_shapes))
    square = 2 * (grid[np.searchsorted(grid, larger)].astype(float) ** 3).sum()
    exact = (rows * columns * (rows + columns).astype(float)).sum()
    wastes = [
        shapes.waste(sizes, chosen),
        shapes.waste(sizes, powers),
        square / exact,
        shapes.pair_shapes(rows, columns, max_shapes).waste,
        shapes.pair_shapes(larger, smaller, max_shapes).waste,
    ]
    return chosen, wastes


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
        chosen, wastes = bucket_row(sizes, values.max_shapes, values.num_pairs, values.seed)
        shown = " ".join(map(str, chosen))
        figures = (*wastes, row_share(data))
        rows.append((data.name, shown, *(f"{figure:.2f}" for figure in figures)))
    print(
        f"Buckets: ratio of padded to unpadded work with at most {values.max_shapes} shapes; last, "
        "ratio of rows that vGCN trains on to nodes\n"
    )
    pairs = ("pairs: square", "by both sizes", "larger first")
    print(table(("dataset", "sizes", "n^3", "powers of two", *pairs, "rows"), rows))


if __name__ == "__main__":
    flags.launch(main, ["data_dir", "seed"], define)
