"""What the binaries of trust try: random graphs, spoilt files, killed processes, wrong code."""
