"""How work runs: padded sizes, batches of ragged lists, devices and threads, processes, files."""
