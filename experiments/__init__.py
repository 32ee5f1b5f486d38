"""Experiments: short binaries over the library."""
