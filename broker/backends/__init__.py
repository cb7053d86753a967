"""Where a job runs: this machine or a Slurm cluster."""
