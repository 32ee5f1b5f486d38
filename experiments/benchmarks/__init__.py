"""Benchmarks: ours beside its peers, one suite a module."""
