"""A real Slurm for the tests: one machine, eight nodes, started in under a second."""
