"""Cases for `trust`, `fuzz`, `faults` and `mutants`: graphs, corrupted files, killed processes,
wrong code.
"""
