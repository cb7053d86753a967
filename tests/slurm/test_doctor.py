"""What `doctor --slurm` says of a good cluster and of each thing that may be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.backends.slurm.doctor import Finding, report
from tests.slurm.cluster import Cluster
from tests.slurm.test_backend import settings

pytestmark = pytest.mark.slurm


async def findings(cluster: Cluster, **more: object) -> dict[str, Finding]:
    return {f.name: f for f in await report(settings(cluster, **more), cluster.env)}  # type: ignore[arg-type]


async def test_a_good_cluster(cluster: Cluster) -> None:
    found = await findings(cluster)
    assert [f for f in found.values() if not f.ok] == []
    assert {"run directory on a node", "agentloop on a node", "clock of a node"} <= set(found)


async def test_a_partition_that_does_not_exist(cluster: Cluster) -> None:
    bad = (await findings(cluster, slurm_partition_p40="gone"))["partition of BROKER_SLURM_PARTITION_P40"]
    assert not bad.ok
    assert "cpu" in bad.mend


async def test_a_partition_without_the_gpu(cluster: Cluster) -> None:
    bad = (await findings(cluster, slurm_partition_a100="hpc"))["partition of BROKER_SLURM_PARTITION_A100"]
    assert not bad.ok
    assert "gpu:a100" in bad.found


async def test_a_qos_without_accounting(cluster: Cluster) -> None:
    bad = (await findings(cluster, slurm_qos_normal="normal"))["slurm QoS"]
    assert not bad.ok
    assert "in silence" in bad.found


async def test_a_qos_that_the_cluster_lacks(accounting_cluster: Cluster) -> None:
    found = await findings(accounting_cluster, slurm_qos_normal="normal", slurm_qos_high="gold")
    assert found["slurm QoS of BROKER_SLURM_QOS_NORMAL"].ok
    bad = found["slurm QoS of BROKER_SLURM_QOS_HIGH"]
    assert not bad.ok
    assert "preemptible" in bad.mend


async def test_no_tools(cluster: Cluster, tmp_path: Path) -> None:
    (only,) = await report(settings(cluster), {"PATH": str(tmp_path)})
    assert (only.name, only.ok) == ("slurm tools", False)
