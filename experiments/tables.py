"""The paper's tables from results: ours beside the paper's, in Markdown and LaTeX.

    python -m experiments.tables --results=experiments/results/local/results.jsonl --out=FOLDER

Writes ``tables.md``, ``tables.tex`` and a plot for each figure of the paper, and prints the
Markdown. A cell shows our mean(deviation) over folds, the paper's mean, the difference, and p of a
paired t-test against vanilla on the same folds; it is empty if there is no result. With ``--tune``
cells show the run of the grid with the best validation. The paper's headline claims are recomputed
from our results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags as absl_flags

from experiments import flags, paper, sweeps, table_cells
from fgw_jax.errors import check
from fgw_jax.protocol import results
from fgw_jax.protocol.settings import METHOD_OPTIONS, Settings
from fgw_jax.protocol.summary import ResultIndex, Summary, paired_test


@dataclasses.dataclass(frozen=True)
class Shown:
    """A cell with its summary, p-value, and a note on missing variants."""

    cell: table_cells.Cell
    summary: Summary | None
    p: float | None
    missing: str = ""

    def markdown(self) -> str:
        """Ours, the paper's in brackets, the difference, and p."""
        if self.summary is None:
            return "" if self.cell.paper is None else f"[{self.cell.paper[0]:.2f}]"
        parts = [self.summary.score() + self.missing]
        if self.cell.paper is not None:
            parts.append(f"[{self.cell.paper[0]:.2f}]")
            parts.append(f"{self.summary.mean - self.cell.paper[0]:+.2f}")
        if self.p is not None:
            parts.append(f"p={self.p:.2f}")
        return " ".join(parts)


def vanilla_of(settings: Settings) -> Settings:
    """The settings without augmentation, on the same folds."""
    cleared: dict[str, Any] = dict.fromkeys(METHOD_OPTIONS)
    return dataclasses.replace(settings, augment="vanilla", **cleared)


def fill(plan: sweeps.Plan, lines: ResultIndex) -> list[Shown]:
    """Look up the results of every cell."""
    out = []
    for cell, options in plan.cells:
        summary = lines.best(options) if options else None
        p = None
        if summary is not None and summary.settings.augment != "vanilla":
            plain = lines.find(vanilla_of(summary.settings))
            p = None if plain is None else paired_test(summary, plain)
        done = lines.complete(options) if len(options) > 1 else len(options)
        missing = "" if done == len(options) else f" [{done} of {len(options)} variants]"
        out.append(Shown(cell, summary, p, missing))
    return out


def blocks(shown: Sequence[Shown]) -> list[tuple[list[str], list[str]]]:
    """Rows and columns of each block, in the order of the cells.

    Rows named ``block: row`` form separate blocks with separate columns, as in the main table.
    """
    out = []
    for block in dict.fromkeys(s.cell.row.rpartition(": ")[0] for s in shown):
        own = [s.cell for s in shown if s.cell.row.rpartition(": ")[0] == block]
        rows = list(dict.fromkeys(cell.row for cell in own))
        out.append((rows, list(dict.fromkeys(cell.column for cell in own))))
    return out


def markdown(table: table_cells.Table, shown: Sequence[Shown]) -> str:
    """The table with title and legend."""
    by_place = {(s.cell.row, s.cell.column): s.markdown() for s in shown}
    ran = sum(s.summary is not None for s in shown)
    note = f"{ran} of {len(shown)} cells ran. Ours, [paper], difference, p against vanilla."
    lines = [f"## {table.title}", "", note]
    for rows, columns in blocks(shown):
        lines += ["", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for row in rows:
            cells = [by_place.get((row, column), "") for column in columns]
            lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def latex(table: table_cells.Table, shown: Sequence[Shown]) -> str:
    """The table in LaTeX; our best result in a column is bold."""
    by_place = {(s.cell.row, s.cell.column): s for s in shown}
    parts = []
    for rows, columns in blocks(shown):
        means = {
            (row, column): found.summary.mean
            for row in rows
            for column in columns
            if (found := by_place.get((row, column))) is not None and found.summary is not None
        }
        body = []
        for row in rows:
            cells = [_escape(row)]
            for column in columns:
                found = by_place.get((row, column))
                text = ""
                if found is not None and found.summary is not None:
                    text = f"{found.summary.mean:.2f}({found.summary.deviation:.2f})"
                    best = max(v for (_, c), v in means.items() if c == column)
                    text = rf"\textbf{{{text}}}" if found.summary.mean == best else text
                if found is not None and found.cell.paper is not None:
                    text = f"{text} [{found.cell.paper[0]:.2f}]".strip()
                cells.append(text)
            body.append(" & ".join(cells) + r" \\")
        head = " & ".join(["", *map(_escape, columns)]) + r" \\"
        parts += [rf"\begin{{tabular}}{{l{'c' * len(columns)}}}", r"\toprule", head, r"\midrule"]
        parts += [*body, r"\bottomrule", r"\end{tabular}"]
    caption = f"{_escape(table.title)}. Ours, and the paper's mean in brackets."
    end = [rf"\caption{{{caption}}}", rf"\label{{tab:{table.name}}}", r"\end{table}"]
    return "\n".join([r"\begin{table}", r"\centering", *parts, *end])


def _escape(text: str) -> str:
    for plain in "%_#&":
        text = text.replace(plain, "\\" + plain)
    return text.replace("*", r"$_*$")


def draw(table: table_cells.Table, shown: Sequence[Shown], path: Path) -> bool:
    """Plot a figure with one curve per row.

    Returns:
        Whether there was anything to plot.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = list(dict.fromkeys(s.cell.row for s in shown if s.summary is not None))
    if not rows:
        return False
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    columns = list(dict.fromkeys(s.cell.column for s in shown))
    for row in rows:
        points = [s for s in shown if s.cell.row == row and s.summary is not None]
        x = [columns.index(s.cell.column) for s in points]
        means = [s.summary.mean for s in points if s.summary is not None]
        spread = [s.summary.deviation for s in points if s.summary is not None]
        axis.errorbar(x, means, spread, marker="o", capsize=3, label=row)
    axis.set_xticks(range(len(columns)), [column.split("=")[-1] for column in columns])
    axis.set(xlabel=table.axis, ylabel="test accuracy, %", title=table.title)
    axis.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True


def claims(scores: dict[tuple[str, str, str], float]) -> dict[str, str]:
    """The claims on the main table, from means by (dataset, backbone, method).

    A setting counts if vanilla, both of our methods and at least one other are complete. As in the
    paper, the improvement of a setting is that of the better of our two methods over vanilla.
    """
    settings = {}
    for dataset, backbone, _ in scores:
        found = {m: v for (d, b, m), v in scores.items() if (d, b) == (dataset, backbone)}
        if {"vanilla", *table_cells.OURS} < set(found):
            settings[dataset, backbone] = found
    if not settings:
        return {}
    total = len(settings)
    out = {}
    for method in table_cells.OURS:
        best = sum(found[method] >= max(found.values()) for found in settings.values())
        out[f"best of 20 settings, {table_cells.TITLES[method]}"] = f"{best} of {total}"
    gain = {
        place: 100 * (max(found[m] for m in table_cells.OURS) / found["vanilla"] - 1)
        for place, found in settings.items()
    }
    for name, backbones in (("MPNNs", paper.MPNNS), ("Graphormers", paper.GRAPHORMERS)):
        values = [v for (_, backbone), v in gain.items() if backbone in backbones]
        if values:
            label = f"mean relative improvement, {name}"
            out[label] = f"{np.mean(values):.2f} % over {len(values)} settings"
    for backbone in paper.GRAPHORMERS:
        values = [v for (_, b), v in gain.items() if b == backbone]
        if values:
            label = f"largest relative improvement, {table_cells.TITLES[backbone]}"
            out[label] = f"{max(values):.2f} %"
    return out


def speed_up(shown: Sequence[Shown]) -> str | None:
    """Ratio of the time of mixup, strict to relaxed: its range over the settings."""
    seconds: dict[tuple[str, str], dict[str, float]] = {}
    for s in shown:
        if s.summary is not None and s.cell.settings.augment in table_cells.OURS:
            place = (s.cell.settings.dataset, s.cell.settings.backbone)
            mean = float(np.median(s.summary.augment_seconds))
            seconds.setdefault(place, {})[s.cell.settings.augment] = mean
    ratios = [v["fgwmixup"] / v["fgwmixup_star"] for v in seconds.values() if len(v) == 2]
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else None


def claims_table(shown: Sequence[Shown]) -> str:
    """The claims of the paper beside ours."""
    ours = claims(
        {
            (s.cell.settings.dataset, s.cell.settings.backbone, s.cell.settings.augment): (
                s.summary.mean
            )
            for s in shown
            if s.summary is not None and s.summary.complete and not s.missing
        }
    )
    ratio = speed_up(shown)
    if ratio is not None:
        ours["speed-up of relaxed over strict"] = ratio
    lines = ["## Claims", "", "| claim | paper | ours |", "|---|---|---|"]
    lines += [
        f"| {name} | {value} | {ours.get(name, '')} |" for name, value in paper.CLAIMS.items()
    ]
    return "\n".join(lines)


def main(values: absl_flags.FlagValues) -> None:
    """Read results and write tables."""
    with flags.usage_errors(values):
        names = values.table or [name for name in table_cells.TABLES if name != "combinations"]
        tables = sweeps.chosen(values, names)
        out = flags.out_folder(values)
        overrides = sweeps.overrides(values)
        for table in tables:
            sweeps.check_overrides(table, overrides, named=table.name in values.table)
        check(len(values.results) > 0, "results: empty; give at least one file")
        records = results.load(values.results)
    lines = ResultIndex(records)
    texts, tex = [], []
    for table in tables:
        shown = fill(sweeps.plan(table, lines, values.tune, **overrides), lines)
        texts.append(markdown(table, shown))
        tex.append(latex(table, shown))
        if table.plot and draw(table, shown, out / f"{table.name}.png"):
            texts.append(f"![{table.title}]({table.name}.png)")
        if table.name == "main":
            texts.append(claims_table(shown))
    codes = {record["code"] for record in records if "code" in record}
    if len(codes) > 1:
        texts.append(f"These results come from {len(codes)} versions of the code.")
    text = "\n\n".join(texts) + "\n"
    out.mkdir(parents=True, exist_ok=True)
    (out / "tables.md").write_text(text)
    (out / "tables.tex").write_text("\n\n".join(tex) + "\n")
    print(text)


def own_flags(values: absl_flags.FlagValues) -> None:
    """Flags of this binary."""
    absl_flags.DEFINE_list(
        "table", [], "Tables to show (default: all).", flag_values=values
    )  # fmt: skip
    absl_flags.DEFINE_list(
        "results", ["experiments/results/local/results.jsonl"], "Files of results.",
        flag_values=values,
    )  # fmt: skip
    sweeps.define(values)


if __name__ == "__main__":
    flags.launch(main, ["out"], own_flags)
