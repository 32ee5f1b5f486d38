"""What result lines say: mean and deviation over folds, paired tests, claims over settings."""

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
    """The folds of one run that are there.

    Attributes:
      settings: what ran.
      folds: positions of the folds, in order.
      test: test metric of each, in per cent.
      validation: validation metric of each, in per cent.
      augment_seconds: seconds of augmentation, each fold.
      train_seconds: seconds of training, each fold.
      metric: accuracy or auroc.
      codes: fingerprints of the code the lines were made with.
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
        """Deviation over the folds (of the sample; 0 for one fold)."""
        return float(self.test.std(ddof=1)) if len(self.test) > 1 else 0.0

    @property
    def complete(self) -> bool:
        """Whether all folds are there."""
        return len(self.folds) == self.settings.resolved_folds

    def score(self) -> str:
        """``mean(deviation)``, marked when folds are missing."""
        total = self.settings.resolved_folds
        missing = "" if self.complete else f" [{len(self.folds)} of {total} folds]"
        return f"{self.mean:.2f}({self.deviation:.2f}){missing}"


class ResultIndex:
    """Result lines by run. Lines of other kinds are left out."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._runs: dict[str, dict[int, Mapping[str, Any]]] = {}
        for record in records:
            if record.get("kind") != "fold":
                continue
            folds = self._runs.setdefault(record["run"], {})
            other = next(iter(folds.values()), record)
            if other["data"] != record["data"]:
                raise DataError(
                    f"results: lines of one run on {record['settings']['dataset']} come from two "
                    "different copies of the data; keep the lines of one"
                )
            folds.setdefault(int(record["fold"]), record)

    def find(self, settings: Settings) -> Summary | None:
        """The summary of a run, or ``None`` where no fold ran."""
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
        """Of several runs the one with the best mean validation metric; test plays no part."""
        check(len(variants) > 0, "variants: names no run; give at least one")
        found = [s for s in map(self.find, variants) if s is not None]
        return max(found, key=lambda s: s.validation.mean(), default=None)

    def complete(self, variants: Sequence[Settings]) -> int:
        """How many of several runs have all their folds."""
        return sum(s is not None and s.complete for s in map(self.find, variants))


def run_key(settings: Settings) -> str:
    """Fingerprint of what a run is: equal for settings that resolve alike."""
    return results.fingerprint(settings.resolved())


def paired_test(first: Summary, second: Summary) -> float | None:
    """Two-sided p of a paired t-test over the folds both have; ``None`` below two.

    Folds of the holdout protocol share one test set, so that p is optimistic there.
    """
    from scipy import stats

    shared = sorted(set(first.folds) & set(second.folds))
    if len(shared) < 2:
        return None
    a = np.array([first.test[first.folds.index(f)] for f in shared])
    b = np.array([second.test[second.folds.index(f)] for f in shared])
    if np.ptp(a - b) < 1e-9:  # equal differences have no spread to compare with
        return 1.0 if abs(float((a - b).mean())) < 1e-9 else 0.0
    return float(stats.ttest_rel(a, b).pvalue)


def _dig(record: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = record
    for name in path:
        value = value[name]
    return value


def summary_table(found: Sequence[Summary]) -> str:
    """Markdown: a row a method, its score, folds, and p against the first row."""
    if not found:
        return "nothing has run yet"
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
    """Markdown: seconds of augmentation and of training; the first fold also compiles."""
    lines = [
        "| method | mixup, s a fold (median) | training, s a fold (median) | all, s |",
        "|---|---|---|---|",
    ]
    for summary in found:
        total = summary.augment_seconds.sum() + summary.train_seconds.sum()
        lines.append(
            f"| {summary.settings.augment} | {np.median(summary.augment_seconds):.2f} "
            f"| {np.median(summary.train_seconds):.2f} | {total:.1f} |"
        )
    return "\n".join(lines)
