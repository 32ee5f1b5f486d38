"""The FGW distance: problem, solvers, and the ways in for pairs and lists."""
