"""Runs on a Slurm cluster, through its own command-line tools.

`tools` starts them, `parse` reads what they print, `watch` follows all runs with one squeue a tick,
`backend` is the protocol of `broker.backends.base`.
"""

from broker.backends.slurm.backend import SlurmBackend

__all__ = ["SlurmBackend"]
