"""Datasets: one's own graphs, TU, OGB, a synthetic family, splits and label noise."""

from fgw_jax.datasets import splits
from fgw_jax.datasets.dataset import Dataset, Origin, Split
from fgw_jax.datasets.loader import load
from fgw_jax.datasets.noise import corrupt_labels
from fgw_jax.datasets.synthetic import synthetic

__all__ = ["Dataset", "Origin", "Split", "corrupt_labels", "load", "splits", "synthetic"]
