"""Runs one command shut off from network, files and other processes: started as a script of its own.

Argument: a JSON object (`tree`, `argv`, `seconds`, `memory_mb`, `processes`, `status_fd`). New namespaces
(mount, network, pid, ipc, uts; and user, where the caller is no root) hold the command; every mount is made
read-only, `/tmp`, `/run` and the like are empty, and the copy of the tree lies in a memory file system of
bounded size. The first process of the pid namespace watches time, memory and the number of processes; when
it ends, the kernel kills whatever is left. Only the standard library is used: nothing of the input is
imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import time
from typing import Any

# linux/sched.h, linux/mount.h, linux/prctl.h
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _NOATIME, _NODIRATIME, _BIND, _REC, _PRIVATE, _RELATIME = (
    1, 2, 4, 8, 32, 1024, 2048, 4096, 16384, 1 << 18, 1 << 21,
)  # fmt: skip
_KEPT = {"nosuid": _NOSUID, "nodev": _NODEV, "noexec": _NOEXEC, "noatime": _NOATIME,
         "nodiratime": _NODIRATIME, "relatime": _RELATIME}  # fmt: skip
_PDEATHSIG, _CAPBSET_DROP, _NO_NEW_PRIVS = 1, 24, 38
_LAST_CAPABILITY = 63
_NOBODY = 65534
_PLACES = ("/mnt", "/srv", "/media")  # where the copy may lie inside: a folder that is there and of no use
_EMPTY = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev/shm", "/dev/mqueue")  # noqa: S108
_TICK = 0.02  # seconds between two looks at what the command uses
_REFUSED = 125  # exit status when the walls can't be put up

_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Put up the walls, run the command, write a JSON status to `status_fd`."""
    spec: dict[str, Any] = json.loads(sys.argv[1])
    status = os.fdopen(spec["status_fd"], "w")
    try:
        _call("prctl", _PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        uid = _enter()
        inner = os.fork()
    except OSError as exc:
        _tell(status, {"refused": f"namespaces: {exc.strerror}"})
        os._exit(_REFUSED)
    if inner:
        os.waitpid(inner, 0)
        os._exit(0)
    try:
        _call("prctl", _PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        place = _walls(spec)
    except OSError as exc:
        _tell(status, {"refused": f"mounts: {exc.strerror}"})
        os._exit(_REFUSED)
    _tell(status, _watch(_start(spec, place, uid, status.fileno()), spec))
    os._exit(0)


def _tell(status: Any, told: dict[str, Any]) -> None:
    status.write(json.dumps(told))
    status.flush()


def _call(name: str, *args: Any) -> None:
    if getattr(_LIBC, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if part is None else os.fsencode(part) for part in (source, target, kind)]
    _call("mount", *encoded, ctypes.c_ulong(flags), None if data is None else data.encode())


def _enter() -> int:
    """New namespaces; the user id that the command is to run with.

    Root needs no user namespace: it drops to nobody afterwards. Anybody else becomes root of an own one,
    and loses its capabilities before the command starts.
    """
    spaces = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        try:
            _call("unshare", spaces)
        except OSError:
            pass
        else:
            return _NOBODY
    _call("unshare", spaces | _NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return 0


def _walls(spec: dict[str, Any]) -> str:
    """Everything read-only, private places empty, the tree in a file system of bounded size."""
    _mount(None, "/", None, _REC | _PRIVATE)
    place = next((p for p in _PLACES if os.path.isdir(p)), "")
    if not place:
        raise OSError(2, "no folder for the copy")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounts = [line.split() for line in file]
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, f"size={spec['memory_mb']}m,mode=755")
    home = f"{place}/tree"
    shutil.copytree(spec["tree"], home)
    for fields in mounts:
        target = (
            fields[4].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
        )
        if target.startswith("/proc"):
            continue  # the new one lies above it
        flags = sum(flag for name, flag in _KEPT.items() if name in fields[5].split(","))
        with contextlib.suppress(FileNotFoundError):  # a mount below another one
            _mount(None, target, None, _REMOUNT | _BIND | _RDONLY | flags)
    for folder in _EMPTY:
        if os.path.isdir(folder) and not os.path.islink(folder):
            _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, "size=64m,mode=1777")
    return home


def _start(spec: dict[str, Any], home: str, uid: int, status_fd: int) -> int:
    """The command as a process without rights; its id."""
    if uid:
        for folder, _, names in os.walk(home):
            os.chown(folder, uid, uid)
            for name in names:
                os.chown(os.path.join(folder, name), uid, uid)
    pid = os.fork()
    if pid:
        return pid
    try:
        os.close(status_fd)
        os.setsid()
        for capability in range(_LAST_CAPABILITY + 1):
            _LIBC.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
        memory = spec["memory_mb"] << 20
        seconds = int(spec["seconds"]) + 1
        for what, most in (
            (resource.RLIMIT_AS, memory),
            (resource.RLIMIT_FSIZE, memory),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, 1024),
        ):
            resource.setrlimit(what, (most, most))
        if uid:
            resource.setrlimit(resource.RLIMIT_NPROC, (spec["processes"], spec["processes"]))
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        _drop_capabilities()
        _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
        os.chdir(home)
        environment = {"PATH": spec["path"], "HOME": home, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}  # noqa: S108
        os.execve(spec["argv"][0], spec["argv"], environment)  # noqa: S606
    except OSError as exc:
        os.write(2, f"{exc}\n".encode())
    os._exit(127)


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
    data = (ctypes.c_uint32 * 6)()
    _call("capset", ctypes.byref(header), ctypes.byref(data))


def _watch(command: int, spec: dict[str, Any]) -> dict[str, Any]:
    """Wait for the command as the namespace's first process; end everything at a bound."""
    begin = time.monotonic()
    stopped, exit_status = "", None
    while exit_status is None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, raw = os.waitpid(-1, os.WNOHANG)
                if pid == command:
                    exit_status = os.waitstatus_to_exitcode(raw)
                if not pid:
                    break
        if exit_status is not None:
            break
        processes, memory = _used()
        if time.monotonic() - begin > spec["seconds"]:
            stopped = "time"
        elif processes > spec["processes"]:
            stopped = "processes"
        elif memory > spec["memory_mb"] << 20:
            stopped = "memory"
        if stopped:
            break
        time.sleep(_TICK)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    return {"exit_status": exit_status, "stopped": stopped, "seconds": round(time.monotonic() - begin, 2)}


def _used() -> tuple[int, int]:
    """Processes of the namespace, this one left out, and the bytes of memory that they hold."""
    processes = memory = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            processes += 1
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/statm") as file:
                memory += int(file.read().split()[1]) * resource.getpagesize()
    return processes, memory


if __name__ == "__main__":
    main()
