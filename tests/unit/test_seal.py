"""I10: a sealed process, and whatever it starts, makes no socket; pipes, files and socket pairs go on."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentloop.config import Policy
from agentloop.jobspec import JobSpec
from agentloop.request import CompressRequest, InputRef, InputType
from agentloop.rundir import RunDir
from agentloop.seal import seal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")


def sealed(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that sealed itself."""
    whole = f"from agentloop.seal import seal\nassert seal()\n{textwrap.dedent(code)}"
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "call",
    [
        "socket.socket()",
        "socket.socket(socket.AF_INET6)",
        "socket.socket(socket.AF_UNIX)",
        "socket.create_connection(('127.0.0.1', 9))",
        "libc_socket()",
        "threaded()",
    ],
)
def test_no_socket_is_made_by_whatever_means(call: str) -> None:
    done = sealed(
        f"""
        import ctypes, os, socket, threading
        def libc_socket():
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.socket(2, 1, 0) < 0:
                raise OSError(ctypes.get_errno(), "socket")
        def threaded():
            found = []
            def work():
                try:
                    socket.socket()
                except OSError as exc:
                    found.append(exc)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            raise found[0]
        try:
            {call}
        except PermissionError:
            print("refused")
        """
    )
    assert done.stdout == "refused\n", done.stderr


def test_another_program_that_it_starts_is_sealed_too(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import socket\nsocket.socket()\n")
    done = sealed(
        f"""
        import subprocess, sys
        other = [sys.executable, {str(tmp_path / "other.py")!r}]
        done = subprocess.run(other, capture_output=True, text=True)
        print(done.returncode, "PermissionError" in done.stderr)
        """
    )
    assert done.stdout == "1 True\n", done.stderr


def test_what_a_worker_needs_goes_on() -> None:
    done = sealed(
        """
        import asyncio, os, socket, subprocess, tempfile
        async def work():
            await asyncio.to_thread(os.getpid)
            return subprocess.run(["/bin/echo", "piped"], capture_output=True).stdout
        print(asyncio.run(work()).decode().strip())
        a, b = socket.socketpair()
        socket.send_fds(a, [b"x"], [os.open("/dev/null", os.O_RDONLY)])
        print(len(socket.recv_fds(b, 10, 1)[1]))
        with tempfile.TemporaryFile() as file:
            file.write(b"kept")
        """
    )
    assert done.stdout == "piped\n1\n", done.stderr


def test_elsewhere_it_says_that_it_did_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentloop.seal.os.uname", lambda: SimpleNamespace(machine="s390x"))
    assert not seal()


WORK = """
import sys
from pathlib import Path
from agentloop.worker import run_attempt
from agentloop.rundir import RunDir
status = run_attempt(RunDir(Path(sys.argv[1])), "1")
print(status, [line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp:")][0])
"""


@pytest.mark.parametrize(
    ("more", "filters"),
    [({}, "2"), ({"model_profile": "builtin"}, "2"), ({"embeddings_profile": "nowhere"}, "0")],
)
def test_a_worker_without_a_model_is_sealed(tmp_path: Path, more: dict[str, str], filters: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "fees.py").write_text("def fee(amount):\n    return round(amount, 2)\n")
    ref = InputRef(type=InputType.DIRECTORY, uri=str(tmp_path / "data"))
    request = CompressRequest(query="how is the fee rounded?", input_refs=(ref,))
    spec = JobSpec("job_1", "local", request, Policy(), home=str(tmp_path), **more)  # type: ignore[arg-type]
    run_dir = RunDir(tmp_path / "run")
    inputs = [{"type": "directory", "uri": ref.uri}]
    manifest = {"input_refs": inputs, "roots": [str(tmp_path)]}
    run_dir.create({"job_spec.json": spec.to_json(), "input_manifest.json": manifest})
    run_dir.start_attempt("1")
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(run_dir.path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.split()[1] == filters, done.stderr
    assert done.stdout.split()[0] == "0" or more
