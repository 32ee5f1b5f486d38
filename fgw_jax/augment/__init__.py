"""Augmentations: a dataset in, a dataset out, one signature."""
