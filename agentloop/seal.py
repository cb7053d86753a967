"""A process that needs no network gives it up for good, with all that it starts.

A filter in the kernel (seccomp) refuses to make, connect or offer a socket, and to reach for those of another
process. It holds for compiled code and for other programs, which Python's own guard (`egress`) can't see,
and can't be taken off. What is at hand stays: pipes, files, pairs of sockets between parent and child.

Linux on x86-64 and ARM64; elsewhere `seal` says that it did nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_* of linux/audit.h
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_REFUSED = {
    # socket, connect, accept, bind, listen, accept4; ptrace, process_vm_writev, io_uring_setup, pidfd_getfd
    "x86_64": (41, 42, 43, 49, 50, 288, 101, 311, 425, 438),
    "aarch64": (198, 203, 202, 200, 201, 242, 117, 271, 425, 438),
}
_X32 = 0x40000000  # numbers of x86-64's second calling convention begin here
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
_MODE_FILTER, _ALL_THREADS, _NO_SLOWDOWN = 1, 1 << 0, 1 << 2  # SET_MODE_FILTER; FLAG_TSYNC, FLAG_SPEC_ALLOW
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: LD|W|ABS, JMP|JEQ|K, JMP|JGE|K, RET|K
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000  # SECCOMP_RET_*
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _filter(machine: str) -> bytes:
    """The filter: refused calls, and calls by another convention, fail with EACCES; all others pass."""
    refused = _REFUSED[machine]
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _ERROR | errno.EACCES),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, len(refused) + 1, 0, _X32),
        *((_EQUAL, len(refused) - place, 0, number) for place, number in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERROR | errno.EACCES),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def seal() -> bool:
    """Give up the network in this process, all of its threads and everything that it starts from now on.

    Returns whether it is so; where the kernel has no such filter nothing has changed.
    """
    machine = os.uname().machine if sys.platform == "linux" else ""
    if machine not in _ARCHITECTURES or sys.maxsize < 1 << 32:
        return False
    code = _filter(machine)
    program = _Program(len(code) // 8, code)
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    number = ctypes.c_long(_SECCOMP[machine])
    flags = ctypes.c_ulong(_ALL_THREADS | _NO_SLOWDOWN)
    return not kernel.syscall(number, ctypes.c_ulong(_MODE_FILTER), flags, ctypes.byref(program))
