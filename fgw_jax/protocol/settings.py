"""What one cross-validated run is: dataset, backbone, method, and every number that matters.

A field left at ``None`` takes the paper's value for its dataset, backbone or method;
:meth:`Settings.resolved` says which. Two settings that resolve alike are the same run.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from fgw_jax import Relaxed
from fgw_jax import augment as methods
from fgw_jax.augment.base import Augmentation
from fgw_jax.datasets.splits import PROTOCOLS as SPLITS
from fgw_jax.errors import InputError, check
from fgw_jax.estimates import Estimate
from fgw_jax.midpoint import Median
from fgw_jax.training.config import Config

MPNNS = ("vgcn", "vgin")
GRAPHORMERS = ("graphormer", "graphormer_gd")
BACKBONES = (*MPNNS, *GRAPHORMERS)
PROTOCOLS = (*SPLITS, "scaffold")
#: attention heads of the Graphormers, a field of theirs that no setting changes
HEADS = 4
_SIZE_FIELDS = {
    "adaptive": None, "median": Median(1.0), "half": Median(0.5), "double": Median(2.0),
}  # fmt: skip
SIZES = tuple(_SIZE_FIELDS)
STARTS = ("geodesic", "random")
_FLOATS = ("alpha", "beta_k", "ratio", "step_size", "learning_rate", "label_noise")
#: Fields that belong to the method; a method without such a field has no use for them.
METHOD_OPTIONS = ("alpha", "beta_k", "ratio", "step_size", "size", "start", "refresh_every")

#: The main job: small enough for 30 trainings in two minutes on two cores.
_SYNTHETIC = {
    "num_layers": 3, "hidden": 32, "epochs": 60, "batch_size": 32, "learning_rate": 5e-3,
}  # fmt: skip
_OGB = {"num_layers": 5, "hidden": 256, "batch_size": 128, "learning_rate": 1e-3}
_PAPER = {"num_layers": 6, "hidden": 64, "batch_size": 128, "learning_rate": 1e-3}


@dataclasses.dataclass(frozen=True)
class Settings:
    """One method on one dataset with one backbone, over all folds.

    Attributes:
      dataset: a name :func:`fgw_jax.datasets.load` knows.
      backbone: vgcn, vgin, graphormer or graphormer_gd.
      augment: flag spelling of a method.
      alpha: weight of structure against features, from 0 to 1.
      beta_k: mixing ratios are drawn from Beta(k, k).
      ratio: new graphs a training graph; of DropEdge and DropNode, the share dropped.
      step_size: gamma of FGWMixup*.
      size: nodes of a midpoint: adaptive, or the median of the training set, half or double it.
      start: geodesic, or the paper's random.
      refresh_every: epochs between fresh midpoints; ``None``: once a fold, as in the paper.
      num_layers: layers of the backbone.
      hidden: its width.
      epochs: passes over the training set.
      batch_size: graphs a step.
      learning_rate: of AdamW.
      patience: epochs without a better validation score (or an equal one at a lower loss) after
        which a fold ends, not before epoch 100 (the authors' code has 50); ``None``: never, as in
        the paper's text.
      label_noise: share of training labels switched to another class.
      protocol: holdout (the paper's text), rotating (the authors' code), scaffold (OGB's split).
      folds: number of folds; with scaffold, of repetitions with seeds of their own.
      seed: of splits, noise, augmentation and training.
    """

    dataset: str = "SYNTHETIC"
    backbone: str = "vgcn"
    augment: str = "vanilla"
    alpha: float | None = None
    beta_k: float | None = None
    ratio: float | None = None
    step_size: float | None = None
    size: str | None = None
    start: str | None = None
    refresh_every: int | None = None
    num_layers: int | None = None
    hidden: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    patience: int | None = None
    label_noise: float = 0.0
    protocol: str | None = None
    folds: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        # One spelling of what is the same, so that its lines are found again.
        object.__setattr__(self, "dataset", published_name(self.dataset))
        for name in _FLOATS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        _choice("backbone", self.backbone, BACKBONES)
        _choice("augment", self.augment, tuple(methods.METHODS))
        for name, choices in (("size", SIZES), ("start", STARTS), ("protocol", PROTOCOLS)):
            if getattr(self, name) is not None:
                _choice(name, getattr(self, name), choices)
        for name in METHOD_OPTIONS:
            if getattr(self, name) is not None and name not in options_of(self.augment):
                raise InputError(
                    f"{name}: {self.augment} has no use for it; leave it out, or choose a method "
                    f"that has: {', '.join(users_of(name))}"
                )
        for name, low, high, hint in (
            ("alpha", 0, 1, "1 compares structures only, 0 features only"),
            ("label_noise", 0, 1, "0.2 switches a fifth of the training labels"),
        ):
            value = getattr(self, name)
            check(
                value is None or low <= value <= high,
                f"{name}: {value} is not from {low} to {high}; {hint}",
            )
        for name in ("beta_k", "step_size", "learning_rate", "ratio"):
            value = getattr(self, name)
            check(
                value is None or (value > 0 and math.isfinite(value)),
                f"{name}: {value} must be above 0 and finite; give such a number",
            )
        for name in (
            "num_layers", "hidden", "epochs", "batch_size", "patience", "refresh_every",
        ):  # fmt: skip
            value = getattr(self, name)
            check(value is None or value >= 1, f"{name}: {value} must be at least 1; raise it")
        check(
            0 <= self.seed < 2**32,
            f"seed: {self.seed} is not from 0 to 2**32 - 1; give such a number",
        )
        check(
            self.resolved_folds >= (1 if self.resolved_protocol == "scaffold" else 2),
            f"folds: {self.folds} is too few; use at least 2",
        )
        hidden = self.resolved()["hidden"]
        check(
            self.backbone not in GRAPHORMERS or hidden % HEADS == 0,
            f"hidden: {hidden} does not divide by {HEADS} heads; use a multiple of it",
        )
        methods.check_compatible(self.augment, self.backbone)
        self.method()  # the method's own checks, before any work

    @property
    def resolved_protocol(self) -> str:
        """The protocol, or the dataset's own."""
        return self.protocol or ("scaffold" if is_ogb(self.dataset) else "holdout")

    @property
    def resolved_folds(self) -> int:
        """The number of folds, or the protocol's own."""
        if self.folds is not None:
            return self.folds
        return 5 if self.resolved_protocol == "scaffold" else 10

    def resolved(self) -> dict[str, Any]:
        """Every field with its value; ``None`` where the method has no use for it.

        >>> Settings(dataset="PROTEINS", backbone="graphormer_gd").resolved()["hidden"]
        32
        """
        out = dataclasses.asdict(self)
        out["protocol"], out["folds"] = self.resolved_protocol, self.resolved_folds
        defaults: dict[str, Any] = {"epochs": 300 if self.backbone in GRAPHORMERS else 400}
        if self.dataset == "SYNTHETIC":
            defaults |= _SYNTHETIC
        elif is_ogb(self.dataset):
            defaults |= _OGB
        else:
            defaults |= _PAPER
            if self.backbone == "graphormer_gd" and self.dataset == "PROTEINS":
                defaults |= {"num_layers": 5, "hidden": 32}
        defaults |= options_of(self.augment)
        return {name: defaults.get(name) if v is None else v for name, v in out.items()}

    @property
    def metric(self) -> str:
        """What validation selects by and the test reports: accuracy, or of OGB's sets auroc."""
        return "auroc" if is_ogb(self.dataset) else "accuracy"

    def config(self, authors: bool = False) -> Config:
        """Numbers of the training; with ``authors`` those their code adds to the text."""
        values = self.resolved()
        names = ("epochs", "batch_size", "learning_rate", "patience")
        given = {name: values[name] for name in names if values[name] is not None}
        return (Config.authors if authors else Config)(select=self.metric, **given)

    def method(self) -> Augmentation:
        """The augmentation, its options filled in."""
        fields = {n: getattr(self, n) for n in METHOD_OPTIONS if getattr(self, n) is not None}
        if "size" in fields:
            fields["size"] = _SIZE_FIELDS[fields["size"]]
        if "step_size" in fields:
            fields["solver"] = Relaxed(step_size=fields.pop("step_size"))
        return methods.make(self.augment, **fields)

    def estimate(self, data_dir: str | None = None) -> Estimate:
        """Time and memory of all folds; ``data_dir`` is the folder of datasets."""
        from fgw_jax.protocol import cost  # which imports this module

        return cost.of_run(self, data_dir)


def expand(augment: Sequence[str], **fields: Any) -> list[Settings]:
    """One :class:`Settings` a method; each takes those of the given options it has a use for.

    An option that none of the methods has a use for is an error.

    >>> [s.alpha for s in expand(["vanilla", "fgwmixup"], alpha=0.5)]
    [None, 0.5]
    """
    check(len(augment) > 0, "augment: names no method; give at least one, such as vanilla")
    check(
        len(set(augment)) == len(augment),
        f"augment: {', '.join(augment)} names a method twice; name each once",
    )
    for name in augment:
        _choice("augment", name, tuple(methods.METHODS))
    given = {n for n in METHOD_OPTIONS if fields.get(n) is not None}
    for name in sorted(given):
        if not any(name in options_of(method) for method in augment):
            raise InputError(
                f"{name}: {', '.join(augment)} has no use for it; leave it out, or add a method "
                f"that has to augment: {', '.join(users_of(name))}"
            )
    return [
        Settings(
            augment=method,
            **{n: v for n, v in fields.items() if n not in given or n in options_of(method)},
        )
        for method in augment
    ]


@functools.cache
def _options_of(augment: str) -> dict[str, Any]:
    made = methods.make(augment)
    own = {field.name for field in dataclasses.fields(made)}
    found = {name: getattr(made, name) for name in METHOD_OPTIONS if name in own}
    if augment.startswith("gmixup"):
        found.pop("size", None)  # of the graphons, not of midpoints
        if augment != "gmixup_fgw":
            found.pop("alpha", None)  # read by its attributed graphons only
    if "size" in found:
        found["size"] = "adaptive"
    if augment == "fgwmixup_star":
        found["step_size"] = 1.0
    return found


def options_of(augment: str) -> dict[str, Any]:
    """Options of :data:`METHOD_OPTIONS` a method has, with their defaults.

    >>> options_of("mmixup")
    {'beta_k': 0.2}
    """
    return dict(_options_of(augment))


def users_of(option: str) -> list[str]:
    """Methods that have an option."""
    return [name for name in methods.METHODS if option in options_of(name)]


def published_name(dataset: str) -> str:
    """The name by which a dataset's lines are kept: OGB's are published with ``-`` and ``_``.

    >>> published_name("ogbg_molbace")
    'ogbg-molbace'
    """
    return dataset.replace("_", "-") if is_ogb(dataset) else dataset


def is_ogb(dataset: str) -> bool:
    """Whether a dataset comes with OGB's split and metric."""
    return dataset.startswith("ogbg")


def _choice(name: str, value: str, choices: Sequence[str]) -> None:
    check(
        value in choices,
        f"{name}: no such name {value!r}; choose one of {', '.join(choices)}",
    )
