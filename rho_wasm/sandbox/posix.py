"""What of POSIX Python does not offer: a timer that calls a C function, and who answers a signal. 64-bit Linux."""

from __future__ import annotations

import ctypes
import signal
import sys
from typing import Any

__all__ = ["FaultHandler", "FunctionTimer", "handled_by"]

# Keeps the interpreter lock: these calls take a microsecond, and with busy threads around the lock is slow to get back.
_LIBC: Any = ctypes.PyDLL(None, use_errno=True)

_Action = ctypes.c_void_p * 32  # No libc's struct sigaction is larger.
# Asked before every guest call, and keeping errno apart doubles what that costs.
# So would telling the types of what it is given, which is what C expects as it is.
_sigaction: Any = ctypes.PyDLL(None)["sigaction"]
_SIGSEGV = int(signal.SIGSEGV)


class _SigEvent(ctypes.Structure):
    """``struct sigevent`` of Linux on 64 bits (glibc and musl), for SIGEV_THREAD."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("padding", ctypes.c_char * 32),
    )


class _TimerSpec(ctypes.Structure):
    """``struct itimerspec``: interval, then first expiry, in seconds and nanoseconds."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class FunctionTimer:
    """A POSIX timer that calls the C function at ``function`` with ``argument``: no tick needs the interpreter lock.

    A Python thread as ticker starves: with 4 busy threads a deadline of 200 ms held after 2,700 ms. The function may
    be called once more after :meth:`close`. Raises OSError where a timer cannot be had.
    """

    __slots__ = ("_id", "_period_ns", "_timers")

    def __init__(self, function: int, argument: int, *, period_ms: float) -> None:
        monotonic, sigev_thread = 1, 2
        # Before glibc 2.34 timers were in a library of their own.
        self._timers: Any = _LIBC if hasattr(_LIBC, "timer_create") else ctypes.PyDLL("librt.so.1", use_errno=True)
        self._period_ns = round(period_ms * 1e6)
        self._id = ctypes.c_void_p()
        event = _SigEvent(value=argument, notify=sigev_thread, function=function)
        _checked(self._timers.timer_create(monotonic, ctypes.byref(event), ctypes.byref(self._id)))

    def arm(self) -> None:
        self._set(self._period_ns)

    def disarm(self) -> None:
        self._set(0)

    def close(self) -> None:
        _checked(self._timers.timer_delete(self._id))

    def _set(self, period_ns: int) -> None:
        spec = _TimerSpec(interval_ns=period_ns, first_ns=period_ns)
        _checked(self._timers.timer_settime(self._id, 0, ctypes.byref(spec), None))


def _checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "a POSIX timer failed")


class _DlInfo(ctypes.Structure):
    """``Dl_info``."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class FaultHandler:
    """Reads this process's handler of SIGSEGV again and again."""

    __slots__ = ("_action", "_at")

    def __init__(self) -> None:
        self._action = _Action()
        self._at = ctypes.byref(self._action)

    def address(self) -> int:
        """0 for none: the first field of ``struct sigaction``."""
        if _sigaction(_SIGSEGV, None, self._at) != 0:
            return 0
        return self._action[0] or 0


def handled_by(library: str) -> bool:
    """True if code of the shared library at that path answers this process's faults."""
    if sys.platform == "darwin":
        return True  # There wasmtime listens on a Mach port, which nobody replaces.
    handler = FaultHandler().address()
    info = _DlInfo()
    if handler == 0 or not _LIBC.dladdr(ctypes.c_void_p(handler), ctypes.byref(info)):
        return False
    return bool(info.file == library.encode())
