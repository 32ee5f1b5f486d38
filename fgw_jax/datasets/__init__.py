"""Datasets: one's own graphs, TU, OGB, a synthetic family, splits and label noise."""

from fgw_jax.datasets.dataset import Dataset, Origin, Split

__all__ = ["Dataset", "Origin", "Split"]
