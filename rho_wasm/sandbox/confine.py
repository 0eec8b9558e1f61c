"""Shuts in the process that runs it: limits, no new privileges, no files but those named, no network (Landlock).

Standard library only and importable without the package, because a child runs it as a script before anything else::

    python -I confine.py '{"cpu_ms": 3000, "read": ["/usr"], "write": [], "environment": {}}' -- PROGRAM ARG...

``environment`` is all that PROGRAM gets: Python itself adds to its own, and a compiler tells its source what it has.

Where the kernel has no Landlock the limits still hold; :func:`landlock_version` says whether it has.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["apply", "landlock_version"]

# include/uapi/linux/landlock.h. The three system calls have these numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_READ = 0b1101  # execute, read file, read folder
_FILE_ONLY = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14) | (1 << 15)
_FIRST_BITS = (1 << 13) - 1
_LATER_BITS = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # refer, truncate, device ioctl
_TCP = 0b11  # bind and connect, version 4
_SCOPES = 0b11  # abstract sockets and signals, version 6

_PR_SET_NO_NEW_PRIVS = 38

# include/uapi/linux/seccomp.h, filter.h and audit.h; for each machine its architecture and the numbers of setsid and
# setpgid.
_PR_SET_SECCOMP, _FILTER_MODE = 22, 2
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOWED, _REFUSED = 0x7FFF0000, 0x00050000 | errno.EPERM
_X32 = 0x40000000
_SESSION_CALLS = {"x86_64": (0xC000003E, 112, 109), "aarch64": (0xC00000B7, 157, 154)}


def apply(limits: Mapping[str, Any]) -> None:
    """Confines this process and what it starts, for good.

    ``cpu_ms``: CPU time, ended by SIGPROF at the millisecond and by SIGXCPU at the second after. ``memory_bytes``:
    address space (not on macOS). ``file_bytes``: the largest file that it may write. ``read``: paths to read and
    execute, None for all. ``write``: paths to write too, None for all. ``one_session``: no process can make a session
    or a group of its own. Each key may be missing: not limited then.

    Raises OSError where the kernel has a limit but will not set it.
    """
    # PR_SET_PDEATHSIG would end the child with the *thread* that started it, and trio's threads end when idle.
    # A child whose host is gone reads an end of file, and what computes on ends by its CPU limit.
    _lower(resource.RLIMIT_CORE, 0, 0)
    if (cpu_ms := limits.get("cpu_ms")) is not None:
        seconds = cpu_ms // 1000 + 1
        _lower(resource.RLIMIT_CPU, seconds, seconds + 1)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, cpu_ms / 1000)
    # macOS refuses to bound address space.
    if (bound := limits.get("memory_bytes")) is not None and sys.platform != "darwin":
        _lower(resource.RLIMIT_AS, bound, bound)
    if (bound := limits.get("file_bytes")) is not None:
        _lower(resource.RLIMIT_FSIZE, bound, bound)
    read, write = limits.get("read"), limits.get("write")
    if read is not None or write is not None:
        _landlock(["/"] if read is None else read, ["/"] if write is None else write)
    if limits.get("one_session"):
        _stay_in_session()


def _lower(number: int, soft: int, hard: int) -> None:
    """Sets a limit, or keeps the one that this process was given where that is lower already."""
    _, given = resource.getrlimit(number)
    if given != resource.RLIM_INFINITY:
        soft, hard = min(soft, given), min(hard, given)
    resource.setrlimit(number, (soft, hard))


def landlock_version() -> int:
    """The version of Landlock that this kernel speaks; 0 for none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)))


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _landlock(read: Sequence[str], write: Sequence[str]) -> None:
    if sys.platform != "linux":
        return
    libc = _libc()
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    version = landlock_version()
    if version == 0:
        return
    everything = _FIRST_BITS | sum(bit for since, bit in _LATER_BITS.items() if version >= since)
    attributes = struct.pack("=QQQ", everything, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _checked(libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    for paths, rights in ((read, _READ), (write, everything)):
        for path in paths:
            _allow(libc, ruleset, path, rights & everything)
    _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow(libc: Any, ruleset: int, path: str, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - this script imports as little as it can
            rights &= _FILE_ONLY
        rule = struct.pack("=Qi", rights, folder)
        _checked(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(folder)


def _stay_in_session() -> None:
    """Whoever kills the process group then kills all that came of this process."""
    known = _SESSION_CALLS.get(os.uname().machine) if sys.platform == "linux" else None
    if known is None:
        return
    architecture, *calls = known
    refuse = 5 + len(calls)
    program = [
        # Another architecture's calls, and x32's, have other numbers for the same: no compiler makes any.
        (_LOAD, 0, 0, 4),
        (_IF_EQUAL, 0, refuse - 2, architecture),
        (_LOAD, 0, 0, 0),
        (_IF_AT_LEAST, refuse - 4, 0, _X32),
        *((_IF_EQUAL, refuse - place - 1, 0, number) for place, number in enumerate(calls, start=4)),
        (_RETURN, 0, 0, _ALLOWED),
        (_RETURN, 0, 0, _REFUSED),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    filter_program = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc = _libc()
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, filter_program) != 0 and ctypes.get_errno() != errno.EINVAL:
        raise OSError(ctypes.get_errno(), "the kernel has system call filters but will not set one")


def _main() -> None:
    limits, dashes, *argv = sys.argv[1:]
    if dashes != "--" or not argv:
        raise SystemExit("usage: confine.py LIMITS -- PROGRAM ARG...")
    given = json.loads(limits)
    apply(given)
    os.execvpe(argv[0], argv, given["environment"])  # noqa: S606 - a program and its arguments, never a shell


if __name__ == "__main__":
    _main()
