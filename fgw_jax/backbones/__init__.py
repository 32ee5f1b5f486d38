"""Graph networks in flax: vGCN, vGIN, Graphormer, GraphormerGD."""
