"""The test cluster itself: it runs a job on each tier."""

from __future__ import annotations

import pytest

from tests.slurm.cluster import Cluster, wait_until

pytestmark = pytest.mark.slurm


def test_a_job_runs_on_each_tier(cluster: Cluster) -> None:
    for partition, gres in (("cpu", ""), ("hpc", "gpu:p40:1"), ("gpu-a100", "gpu:a100:1")):
        out = cluster.root / f"{partition}.out"
        argv = ["sbatch", "--parsable", f"--partition={partition}", f"--output={out}", "--time=1"]
        if gres:
            argv.append(f"--gres={gres}")
        cluster.run(*argv, stdin="#!/bin/sh\necho $SLURM_JOB_PARTITION:$CUDA_VISIBLE_DEVICES\n")
        wait_until(lambda out=out: out.exists() and out.read_text().endswith("\n"), f"output of {partition}")
        assert out.read_text() == f"{partition}:{'0' if gres else ''}\n"


def test_accounting_refuses_an_unknown_qos(accounting_cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r"[Ii]nvalid qos"):
        accounting_cluster.run("sbatch", "--qos=golden", "--wrap=true", "--output=/dev/null")
    accounting_cluster.run("sbatch", "--qos=preemptible", "--wrap=true", "--output=/dev/null", "--time=1")
