"""Augmentations: a dataset in, a dataset out, one signature."""

from fgw_jax.augment.fgw_mixup import FGWMixup as FGWMixup
