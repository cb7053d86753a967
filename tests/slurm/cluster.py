"""Start, stop and hurt a real Slurm cluster on this machine.

Needs Debian's packages slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins and munge, and
slurmdbd with mariadb-server for accounting and QoS; needs root, no systemd.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.slurm.config import Ports, gres_conf, slurm_conf, slurmdbd_conf

NODES = ("cpu1", "cpu2", "pllimsksparky1", "pllimsksparky2", "pllimsksparky3", "pllimsksparky4", "a100n1")
DAEMONS = ("munged", "slurmctld", "slurmd")
DATABASE_DAEMONS = ("slurmdbd", "mariadbd")


def missing(*, database: bool) -> str:
    """Why a cluster can't be started here, or an empty string."""
    wanted = DAEMONS + (DATABASE_DAEMONS if database else ())
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [name for name in wanted if not shutil.which(name, path=path)]
    if absent:
        return f"Debian packages for {', '.join(absent)} are not installed"
    return "" if os.geteuid() == 0 else "Slurm's daemons need root here"


def wait_until(done: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Poll until `done()`; raise when it isn't after `seconds`."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} after {seconds} s")
        time.sleep(0.05)


class Cluster:
    """One cluster under `root`: two CPU nodes, four P40 nodes, an A100 node and a dead node."""

    def __init__(self, root: Path, *, database: bool = False) -> None:
        self.root = root
        self.database = database
        self.host = socket.gethostname().split(".")[0]
        self.ports = Ports(*_free_ports())
        self.conf = root / "slurm.conf"
        self._mysql: subprocess.Popen[bytes] | None = None

    @property
    def env(self) -> dict[str, str]:
        """Environment in which every Slurm tool finds this cluster."""
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        return {"PATH": path, "SLURM_CONF": str(self.conf), "HOME": "/root", "LANG": "C.UTF-8"}

    def start(self) -> None:
        """Write the configuration and start every daemon."""
        for name in ("run", "state", "spool", "log", "mysql"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.conf.write_text(slurm_conf(self.root, self.host, self.ports, database=self.database))
        (self.root / "gres.conf").write_text(gres_conf())
        self._start_munge()
        if self.database:
            self._start_database()
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        wait_until(lambda: self.idle_nodes() == set(NODES), "idle nodes")

    def stop(self) -> None:
        """Stop every daemon, newest first, and leave no process behind."""
        self.run("scancel", "--user=root", check=False)
        for node in NODES:
            self.stop_node(node, signal.SIGKILL)
        for name in ("slurmctld", "slurmdbd", "mariadbd", "munged"):
            self._signal(name, signal.SIGKILL)
        if self._mysql is not None:
            self._mysql.wait()
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            self._kill_step(process)

    def run(self, *argv: str, check: bool = True, stdin: str | None = None) -> str:
        """Output of a Slurm tool."""
        done = subprocess.run(
            argv, env=self.env, input=stdin, capture_output=True, text=True, check=False, timeout=60
        )
        if check and done.returncode:
            raise RuntimeError(f"{argv[0]} exited {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def idle_nodes(self) -> set[str]:
        """Names of the nodes that are up and idle."""
        out = self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N|%t", check=False)
        return {line.split("|")[0] for line in out.split() if line.endswith("|idle")}

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers; running jobs survive a restart."""
        subprocess.run(["slurmctld"], env=self.env, check=True, capture_output=True, timeout=30)
        wait_until(lambda: "UP" in self.run("scontrol", "ping", check=False), "controller")

    def stop_controller(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop slurmctld and wait until it is gone."""
        self._signal("slurmctld", how)

    def pause_controller(self, *, paused: bool) -> None:
        """Freeze or thaw slurmctld: a controller that hangs."""
        os.kill(self._pid("slurmctld") or 0, signal.SIGSTOP if paused else signal.SIGCONT)

    def start_node(self, node: str) -> None:
        """Start the slurmd of one node."""
        (self.root / "spool" / node).mkdir(parents=True, exist_ok=True)
        subprocess.run(["slurmd", "-N", node], env=self.env, check=True, capture_output=True, timeout=30)

    def stop_node(self, node: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop the slurmd of one node; its jobs go on until the daemon returns."""
        self._signal(f"slurmd.{node}", how)

    def _start_munge(self) -> None:
        key = self.root / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        run = self.root / "run"
        argv = ["munged", "--force", f"--key-file={key}", f"--socket={run}/munge.sock"]
        argv += [f"--pid-file={run}/munged.pid", f"--log-file={self.root}/log/munged.log"]
        argv += [f"--seed-file={self.root}/munge.seed"]
        subprocess.run(argv, env=self.env, check=True, capture_output=True, timeout=30)

    def _start_database(self) -> None:
        data, run = self.root / "mysql", self.root / "run"
        install = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"]
        install += ["--skip-test-db", "--auth-root-authentication-method=normal"]
        subprocess.run(install, env=self.env, check=True, capture_output=True, timeout=60)
        server = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}"]
        server += [f"--port={self.ports.mysql}", "--bind-address=127.0.0.1", f"--socket={data}/mysql.sock"]
        server += [f"--pid-file={data}/mariadbd.pid", "--innodb-lock-wait-timeout=900"]
        with open(self.root / "log" / "mariadbd.log", "wb") as log:
            self._mysql = subprocess.Popen(
                server, env=self.env, stdout=log, stderr=log, start_new_session=True
            )
        (run / "mariadbd.pid").write_text(str(self._mysql.pid))
        sql = "CREATE DATABASE slurm_acct_db; CREATE USER slurm@127.0.0.1 IDENTIFIED BY 'slurm'; "
        sql += "GRANT ALL ON slurm_acct_db.* TO slurm@127.0.0.1;"
        client = ("mariadb", "--no-defaults", f"--socket={data}/mysql.sock", "-u", "root")
        wait_until(lambda: _succeeds([*client, "-e", "SELECT 1"], self.env), "MariaDB")
        self.run(*client, "-e", sql)
        conf = self.root / "slurmdbd.conf"
        conf.write_text(slurmdbd_conf(self.root, self.host, self.ports))
        conf.chmod(0o600)
        subprocess.run(["slurmdbd"], env=self.env, check=True, capture_output=True, timeout=30)
        wait_until(lambda: _succeeds(["sacctmgr", "-n", "show", "cluster"], self.env), "slurmdbd")
        for words in (
            "add cluster brokertest",
            "add qos preemptible Priority=0 PreemptMode=requeue",
            "modify qos normal set Priority=1000 Preempt=preemptible",
            "add account agents Cluster=brokertest",
            "add user root Account=agents",
            "modify user root set qos=normal,preemptible defaultqos=normal",
        ):
            self.run("sacctmgr", "-i", *words.split())

    def _pid(self, name: str) -> int | None:
        try:
            return int((self.root / "run" / f"{name}.pid").read_text())
        except (OSError, ValueError):
            return None

    def _signal(self, name: str, how: signal.Signals) -> None:
        pid = self._pid(name)
        if pid is None:
            return
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            return
        wait_until(lambda: _gone(pid), f"end of {name}")

    def _kill_step(self, cmdline: Path) -> None:
        """End a leftover slurmstepd of this cluster."""
        try:
            words = cmdline.read_bytes().split(b"\0")
            environment = (cmdline.parent / "environ").read_bytes()
        except OSError:
            return
        if words[0].startswith(b"slurmstepd") and str(self.conf).encode() in environment:
            os.kill(int(cmdline.parent.name), signal.SIGKILL)


def _gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    return "\nState:\tZ" in status


def _succeeds(argv: list[str], env: Mapping[str, str]) -> bool:
    return subprocess.run(argv, env=env, capture_output=True, check=False, timeout=30).returncode == 0


def _free_ports() -> tuple[int, int, int, int]:
    """Ports for controller, database, MySQL, and the first of eight nodes in a row."""
    base = 17000 + secrets.randbelow(1500) * 20
    for _ in range(200):
        ports = [base, base + 1, base + 2, *range(base + 4, base + 12)]
        if all(_free(port) for port in ports):
            return base, base + 1, base + 2, base + 4
        base = 17000 + secrets.randbelow(1500) * 20
    raise RuntimeError("no twelve free ports in a row")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
