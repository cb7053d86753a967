"""Configuration of the test cluster: partitions of CPU, P40 and A100 nodes, and one of a dead node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GPU_NODES = {"pllimsksparky[1-4]": "p40", "a100n1": "a100"}


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports of the daemons; `node` is the first of eight."""

    controller: int
    database: int
    mysql: int
    node: int


def slurm_conf(root: Path, host: str, ports: Ports, *, database: bool) -> str:
    """slurm.conf for a cluster that lives under `root`."""
    n = ports.node
    node = f"NodeHostname={host} NodeAddr=127.0.0.1"
    lines = [
        "ClusterName=brokertest",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports.controller}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={root}/run/munge.sock,cred_expire=5",
        "CredType=cred/munge",
        "MpiDefault=none",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SwitchType=switch/none",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=1",
        "JobAcctGatherParams=OverMemoryKill",
        "MailProg=/bin/true",
        "ReturnToService=2",
        f"StateSaveLocation={root}/state",
        f"SlurmdSpoolDir={root}/spool/%n",
        f"SlurmctldPidFile={root}/run/slurmctld.pid",
        f"SlurmdPidFile={root}/run/slurmd.%n.pid",
        f"SlurmctldLogFile={root}/log/slurmctld.log",
        f"SlurmdLogFile={root}/log/slurmd.%n.log",
        "SlurmdParameters=config_overrides",
        "SlurmctldTimeout=30",
        "SlurmdTimeout=10",
        "InactiveLimit=0",
        "KillWait=2",
        "MinJobAge=300",
        "MaxJobCount=20000",
        "MaxArraySize=10001",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU_Memory",
        "DefMemPerCPU=100",
        "PriorityType=priority/multifactor",
        "PriorityWeightQOS=10000",
        "JobRequeue=1",
        "GresTypes=gpu",
        f"NodeName=cpu[1-2] {node} Port=[{n}-{n + 1}] CPUs=16 RealMemory=20000 Feature=cpu",
        f"NodeName=pllimsksparky[1-4] {node} Port=[{n + 2}-{n + 5}] CPUs=4 RealMemory=20000 "
        "Gres=gpu:p40:1 Feature=p40",
        f"NodeName=a100n1 {node} Port={n + 6} CPUs=8 RealMemory=20000 Gres=gpu:a100:1 Feature=a100",
        f"NodeName=dead1 {node} Port={n + 7} CPUs=1 State=DOWN Reason=never_started",
        *_partitions(database),
        *(_with_database(root, ports) if database else _without_database(root)),
    ]
    return "\n".join(lines) + "\n"


def _partitions(database: bool) -> list[str]:
    normal = "" if database else " PriorityTier=10 PreemptMode=OFF"
    lines = [
        f"PartitionName=cpu Nodes=cpu[1-2] Default=YES MaxTime=INFINITE State=UP{normal}",
        f"PartitionName=hpc Nodes=pllimsksparky[1-4] MaxTime=INFINITE State=UP{normal}",
        f"PartitionName=gpu-a100 Nodes=a100n1 MaxTime=INFINITE State=UP{normal}",
        f"PartitionName=deadp Nodes=dead1 MaxTime=INFINITE State=UP{normal}",
    ]
    if not database:
        low = "MaxTime=INFINITE State=UP PriorityTier=0 PreemptMode=REQUEUE"
        lines += [
            f"PartitionName=cpu-pre Nodes=cpu[1-2] {low}",
            f"PartitionName=gpu-a100-pre Nodes=a100n1 {low}",
        ]
    return lines


def _with_database(root: Path, ports: Ports) -> list[str]:
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports.database}",
        f"AccountingStoragePass={root}/run/munge.sock",
        "AccountingStorageTRES=gres/gpu",
        "AccountingStoreFlags=job_comment,job_script,job_env",
        "AccountingStorageEnforce=associations,limits,qos",
        "PreemptType=preempt/qos",
        "PreemptMode=REQUEUE",
    ]


def _without_database(root: Path) -> list[str]:
    return [
        "AccountingStorageType=accounting_storage/none",
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={root}/log/jobcomp.txt",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
    ]


def gres_conf() -> str:
    """gres.conf: one GPU a GPU node, backed by a device file that every machine has."""
    return "".join(
        f"NodeName={nodes} Name=gpu Type={kind} File=/dev/null\n" for nodes, kind in GPU_NODES.items()
    )


def slurmdbd_conf(root: Path, host: str, ports: Ports) -> str:
    """slurmdbd.conf; the file must have mode 0600."""
    return f"""AuthType=auth/munge
AuthInfo=socket={root}/run/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={ports.database}
SlurmUser=root
PidFile={root}/run/slurmdbd.pid
LogFile={root}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports.mysql}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""
