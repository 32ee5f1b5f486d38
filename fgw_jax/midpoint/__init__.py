"""Midpoints of graphs: barycenters, starts, decoding."""
