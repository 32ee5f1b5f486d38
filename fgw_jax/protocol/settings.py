"""Settings of a cross-validated run: dataset, backbone, method, and all hyperparameters.

A field left at ``None`` takes the paper's value for its dataset, backbone or method;
:meth:`Settings.resolved` returns the values. Settings that resolve to equal values are one run.
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
from fgw_jax.backbones import BACKBONES, GRAPHORMERS, MPNNS, Graphormer
from fgw_jax.datasets.splits import PROTOCOLS as SPLITS
from fgw_jax.errors import InputError, check
from fgw_jax.estimates import Estimate
from fgw_jax.midpoint import Median
from fgw_jax.training.config import Config

PROTOCOLS = (*SPLITS, "scaffold")
_SIZE_FIELDS = {
    "adaptive": None, "median": Median(1.0), "half": Median(0.5), "double": Median(2.0),
}  # fmt: skip
SIZES = tuple(_SIZE_FIELDS)
STARTS = ("geodesic", "random")
_FLOATS = ("alpha", "beta_k", "ratio", "step_size", "learning_rate", "label_noise")
#: Fields that only some methods have.
METHOD_OPTIONS = ("alpha", "beta_k", "ratio", "step_size", "size", "start", "refresh_every")

#: The default job: 30 trainings in two minutes on two cores.
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
      backbone: a name of :data:`fgw_jax.backbones.BACKBONES`.
      augment: a name of :data:`fgw_jax.augment.METHODS`.
      alpha: weight of structure against features, from 0 to 1.
      beta_k: mixing ratios are drawn from Beta(k, k).
      ratio: new graphs per training graph; for DropEdge and DropNode, the fraction dropped.
      step_size: gamma = 1 / rho of FGWMixup*.
      size: number of nodes of a midpoint: adaptive; or the median of the training set, half or
        double of it.
      start: start of the midpoint: geodesic, or the paper's random.
      refresh_every: epochs between new draws of midpoints; ``None``: one draw per fold, as in the
        paper.
      num_layers: layers of the backbone.
      hidden: its width.
      epochs: passes over the training set.
      batch_size: graphs per step.
      learning_rate: of AdamW.
      patience: epochs without a better validation score (or an equal score at a lower loss) after
        which a fold stops early, from epoch 100 on (the authors' code has 50); ``None`` disables
        early stopping, as in the paper's text.
      label_noise: fraction of training labels switched to another class.
      protocol: holdout (the paper's text), rotating (the authors' code), scaffold (OGB's split).
      folds: number of folds; with scaffold, of repetitions with different seeds.
      seed: seed of splits, label noise, augmentation and training.

    Raises:
      InputError: if a name is unknown, a value is out of range, or the method has no such option.
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
        # One spelling per run, so that its results are found again.
        object.__setattr__(self, "dataset", published_name(self.dataset))
        for name in _FLOATS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        _choice("backbone", self.backbone, tuple(BACKBONES))
        _choice("augment", self.augment, tuple(methods.METHODS))
        for name, choices in (("size", SIZES), ("start", STARTS), ("protocol", PROTOCOLS)):
            if getattr(self, name) is not None:
                _choice(name, getattr(self, name), choices)
        for name in METHOD_OPTIONS:
            if getattr(self, name) is not None and name not in options_of(self.augment):
                raise InputError(
                    f"{name}: no option of {self.augment}; leave it out, or choose a "
                    f"method that has it: {', '.join(users_of(name))}"
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
            self.backbone not in GRAPHORMERS or hidden % Graphormer.heads == 0,
            f"hidden: {hidden} does not divide by {Graphormer.heads} heads; use a multiple of it",
        )
        check_compatible(self.method(), self.backbone)

    @property
    def resolved_protocol(self) -> str:
        """The protocol, by default that of the dataset."""
        return self.protocol or ("scaffold" if is_ogb(self.dataset) else "holdout")

    @property
    def resolved_folds(self) -> int:
        """The number of folds, by default that of the protocol."""
        if self.folds is not None:
            return self.folds
        return 5 if self.resolved_protocol == "scaffold" else 10

    def resolved(self) -> dict[str, Any]:
        """Every field with its value; ``None`` for options the method does not have.

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
        """Metric of model selection and test: accuracy, or auroc for the datasets of OGB."""
        return "auroc" if is_ogb(self.dataset) else "accuracy"

    def config(self, authors: bool = False) -> Config:
        """Hyperparameters of the training; ``authors`` adds those of the authors' code."""
        values = self.resolved()
        names = ("epochs", "batch_size", "learning_rate", "patience")
        given = {name: values[name] for name in names if values[name] is not None}
        return (Config.authors if authors else Config)(select=self.metric, **given)

    def method(self) -> Augmentation:
        """The augmentation method with its options."""
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
    """Settings of several methods that share all other fields.

    Args:
        augment: names of methods.
        fields: fields of :class:`Settings`. An option goes to the methods that have it.

    Returns:
        One :class:`Settings` per method.

    Raises:
        InputError: if none of the methods has a given option.

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
                f"{name}: no option of {', '.join(augment)}; leave it out, or add a "
                f"method that has it to augment: {', '.join(users_of(name))}"
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
        found.pop("size", None)  # that of graphons, not of midpoints
        if augment != "gmixup_fgw":
            found.pop("alpha", None)  # used by its attributed graphons only
    if "size" in found:
        found["size"] = "adaptive"
    if augment == "fgwmixup_star":
        found["step_size"] = 1.0
    return found


def check_compatible(method: Augmentation, backbone: str) -> None:
    """Refuse methods whose graphs the backbone (flag spelling) cannot read.

    Raises:
        InputError: if the method makes continuous edges and the backbone needs shortest paths.
    """
    if method.continuous_edges and backbone in GRAPHORMERS:
        raise InputError(
            f"augment: {method.name} makes graphs with continuous edge weights, on which there are "
            f"no shortest paths, so the spatial encoding of {backbone} cannot read them; use "
            f"{' or '.join(MPNNS)}, or another method"
        )


def options_of(augment: str) -> dict[str, Any]:
    """The options of :data:`METHOD_OPTIONS` that a method has, with their defaults.

    >>> options_of("mmixup")
    {'beta_k': 0.2}
    """
    return dict(_options_of(augment))


def users_of(option: str) -> list[str]:
    """Names of the methods that have an option."""
    return [name for name in methods.METHODS if option in options_of(name)]


def published_name(dataset: str) -> str:
    """The spelling used in results: OGB names are published with ``-`` and ``_``.

    >>> published_name("ogbg_molbace")
    'ogbg-molbace'
    """
    return dataset.replace("_", "-") if is_ogb(dataset) else dataset


def is_ogb(dataset: str) -> bool:
    """Whether a dataset has the split and metric of OGB."""
    return dataset.startswith("ogbg")


def _choice(name: str, value: str, choices: Sequence[str]) -> None:
    check(
        value in choices,
        f"{name}: no such name {value!r}; choose one of {', '.join(choices)}",
    )
