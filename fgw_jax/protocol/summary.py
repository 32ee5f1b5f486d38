"""Summaries of results: mean and standard deviation over folds, paired tests, tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fgw_jax.errors import DataError, check
from fgw_jax.protocol import results
from fgw_jax.protocol.settings import Settings


@dataclasses.dataclass(frozen=True, eq=False)
class Summary:
    """The finished folds of one run.

    Attributes:
      settings: what ran.
      folds: numbers of the folds, in order.
      test: test metric of each fold, in percent.
      validation: validation metric of each fold, in percent.
      augment_seconds: seconds of augmentation of each fold.
      train_seconds: seconds of training of each fold.
      metric: accuracy or auroc.
      codes: fingerprints of the code that computed the results.
    """

    settings: Settings
    folds: tuple[int, ...]
    test: np.ndarray
    validation: np.ndarray
    augment_seconds: np.ndarray
    train_seconds: np.ndarray
    metric: str
    codes: frozenset[str]

    @property
    def mean(self) -> float:
        """Mean test metric."""
        return float(self.test.mean())

    @property
    def deviation(self) -> float:
        """Sample standard deviation over the folds; 0 for one fold."""
        return float(self.test.std(ddof=1)) if len(self.test) > 1 else 0.0

    @property
    def complete(self) -> bool:
        """Whether all folds are finished."""
        return len(self.folds) == self.settings.resolved_folds

    def score(self) -> str:
        """``mean(deviation)``, with the number of folds if some are missing."""
        total = self.settings.resolved_folds
        missing = "" if self.complete else f" [{len(self.folds)} of {total} folds]"
        return f"{self.mean:.2f}({self.deviation:.2f}){missing}"


class ResultIndex:
    """Results of folds, indexed by run; records of other kinds are ignored.

    Raises:
      DataError: if results of one run come from different copies of the data.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._runs: dict[str, dict[int, Mapping[str, Any]]] = {}
        for record in records:
            if record.get("kind") != "fold":
                continue
            folds = self._runs.setdefault(record["run"], {})
            other = next(iter(folds.values()), record)
            if other["data"] != record["data"]:
                raise DataError(
                    f"results: those of one run on {record['settings']['dataset']} come from two "
                    "different copies of the data; keep the lines of one of them"
                )
            folds.setdefault(int(record["fold"]), record)

    def find(self, settings: Settings) -> Summary | None:
        """The summary of a run, or ``None`` if no fold is finished."""
        found = self._runs.get(run_key(settings))
        if not found:
            return None
        folds = sorted(found)
        column = lambda *path: np.array([_dig(found[f], path) for f in folds], float)  # noqa: E731
        return Summary(
            settings,
            tuple(folds),
            100 * column("test"),
            100 * column("validation"),
            column("seconds", "augment"),
            column("seconds", "train"),
            str(found[folds[0]]["metric"]),
            frozenset(str(found[f]["code"]) for f in folds),
        )

    def best(self, variants: Sequence[Settings]) -> Summary | None:
        """The run with the best mean validation metric; test metrics are not used."""
        check(len(variants) > 0, "variants: names no run; give at least one")
        found = [s for s in map(self.find, variants) if s is not None]
        return max(found, key=lambda s: s.validation.mean(), default=None)

    def complete(self, variants: Sequence[Settings]) -> int:
        """Number of runs that are complete."""
        return sum(s is not None and s.complete for s in map(self.find, variants))


def run_key(settings: Settings) -> str:
    """Fingerprint of a run, equal for settings that resolve to equal values."""
    return results.fingerprint(settings.resolved())


def paired_test(first: Summary, second: Summary) -> float | None:
    """Paired t-test over the folds that both runs have.

    Folds of the holdout protocol share one test set, so p is optimistic there.

    Returns:
      The two-sided p-value, or ``None`` for fewer than two common folds.
    """
    from scipy import stats

    shared = sorted(set(first.folds) & set(second.folds))
    if len(shared) < 2:
        return None
    a = np.array([first.test[first.folds.index(f)] for f in shared])
    b = np.array([second.test[second.folds.index(f)] for f in shared])
    if np.ptp(a - b) < 1e-9:  # equal differences have no variance
        return 1.0 if abs(float((a - b).mean())) < 1e-9 else 0.0
    return float(stats.ttest_rel(a, b).pvalue)


def _dig(record: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = record
    for name in path:
        value = value[name]
    return value


def summary_table(found: Sequence[Summary]) -> str:
    """Markdown table with one row per method: score, folds, and p against the first row."""
    if not found:
        return "no results yet"
    lines = [
        f"| method | test {found[0].metric} % | folds | difference | p (paired) |",
        "|---|---|---|---|---|",
    ]
    for i, summary in enumerate(found):
        p = paired_test(summary, found[0]) if i else None
        lines.append(
            f"| {summary.settings.augment} | {summary.mean:.2f} ({summary.deviation:.2f}) "
            f"| {len(summary.folds)} of {summary.settings.resolved_folds} "
            f"| {'' if i == 0 else f'{summary.mean - found[0].mean:+.2f}'} "
            f"| {'' if p is None else f'{p:.2f}'} |"
        )
    return "\n".join(lines)


def seconds_table(found: Sequence[Summary]) -> str:
    """Markdown table of seconds of augmentation and training; the first fold also compiles."""
    lines = [
        "| method | mixup, s per fold (median) | training, s per fold (median) | total, s |",
        "|---|---|---|---|",
    ]
    for summary in found:
        total = summary.augment_seconds.sum() + summary.train_seconds.sum()
        lines.append(
            f"| {summary.settings.augment} | {np.median(summary.augment_seconds):.2f} "
            f"| {np.median(summary.train_seconds):.2f} | {total:.1f} |"
        )
    return "\n".join(lines)
