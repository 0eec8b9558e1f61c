"""The part of ``wasi_snapshot_preview1`` that language runtimes cannot start without, denying by default (ABI.md).

No files, environment, arguments or sockets. Descriptors are 0 (at its end), 1 and 2 (the call's log), and 3 where the
manifest declares capabilities: a write to it is a host call with that request, reads from it give the reply, part by
part, then its end. A language that cannot import functions so has what module ``rho`` gives, with the same checks,
bounds and prices. Any other descriptor is EBADF. Time and randomness are virtual, so that a call without grants is a
pure function of its request; a grant says where they begin. Nothing here waits, and nothing costs more than a bounded
amount of work: a pointer that leaves the memory ends the call.

Source: WASI preview 1, ``wasi_snapshot_preview1.witx`` (layouts and error numbers).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from rho_wasm.sandbox.abi import WASI, WASI_IMPORTS
from rho_wasm.sandbox.imports import HostBody, HostFunction, ask_host
from rho_wasm.sandbox.memory import GuestMemory, OutOfBounds, span
from rho_wasm.sandbox.state import CallState, GuestTrap

__all__ = [
    "CAPABILITIES",
    "CLOCK_NOTE",
    "FUNCTIONS",
    "MAX_IOVS",
    "MAX_RANDOM_BYTES",
    "MAX_SUBSCRIPTIONS",
    "RANDOM_NOTE",
]

SUCCESS = 0
EBADF = 8
EINVAL = 28
ESPIPE = 70

CAPABILITIES = 3
"""The descriptor that takes requests and gives replies."""
MAX_IOVS = 64
"""Of one ``fd_write`` or ``fd_read``; further ones are left for the next, as a short write says. A request for the host
is one write, so more than these are EINVAL there."""
MAX_RANDOM_BYTES = 65_536
"""Of one ``random_get``; more is EINVAL."""
MAX_SUBSCRIPTIONS = 64
"""Of one ``poll_oneoff``; more is EINVAL."""
RANDOM_NOTE = "the randomness of this call is not random: it follows from the request"
CLOCK_NOTE = "the clock of this call is not right: it began at 2025-01-01T00:00:00Z; take the time as an argument"

_MASK = 0xFFFF_FFFF
_LEVELS = {1: 20, 2: 30}
_STREAMS = (0, 1, 2)
_REALTIME = 0
_CLOCKS = range(4)
_CLOCK_RESOLUTION_NS = 1_000
_CHARACTER_DEVICE = 2
_RIGHT_READ, _RIGHT_WRITE = 1 << 1, 1 << 6
_RIGHTS = (_RIGHT_READ, _RIGHT_WRITE, _RIGHT_WRITE, _RIGHT_READ | _RIGHT_WRITE)

_IOV = struct.Struct("<II")
_FDSTAT = struct.Struct("<BxHxxxxQQ")
_FILESTAT = struct.Struct("<QQBxxxxxxxQQQQQ")
_EVENT = struct.Struct("<QHBxxxxxQHxxxxxx")
_SUBSCRIPTION_BYTES = 48
_POLL_CLOCK, _POLL_READ, _POLL_WRITE = range(3)
_ABSOLUTE = 1
_HANGUP = 1


def _nothing_get(state: CallState, memory: GuestMemory, pointers: int, text: int) -> int:
    return SUCCESS


def _nothing_sizes_get(state: CallState, memory: GuestMemory, count: int, size: int) -> int:
    memory.write_u32(count, 0)
    memory.write_u32(size, 0)
    return SUCCESS


def _clock_res_get(state: CallState, memory: GuestMemory, clock: int, pointer: int) -> int:
    if clock not in _CLOCKS:
        return EINVAL
    memory.write_u64(pointer, _CLOCK_RESOLUTION_NS)
    return SUCCESS


def _clock_time_get(state: CallState, memory: GuestMemory, clock: int, precision: int, pointer: int) -> int:
    """Wall clock, monotonic clock and both CPU clocks are the one virtual clock."""
    if clock not in _CLOCKS:
        return EINVAL
    granted = state.capabilities is not None and state.capabilities.clock_ns is not None
    if clock == _REALTIME and not granted:  # The others have no beginning that anybody could take for a date.
        state.log.note(CLOCK_NOTE, level=30)
    memory.write_u64(pointer, state.clock.read_ns())
    return SUCCESS


def _open(state: CallState, descriptor: int) -> bool:
    return descriptor in _STREAMS or _can_ask(state, descriptor)


def _can_ask(state: CallState, descriptor: int) -> bool:
    return descriptor == CAPABILITIES and bool(state.declared)


def _fd_known(state: CallState, memory: GuestMemory, descriptor: int, *ignored: int) -> int:
    """fd_close and fd_fdstat_set_flags: the streams stay as they are."""
    return SUCCESS if _open(state, descriptor) else EBADF


def _fd_fdstat_get(state: CallState, memory: GuestMemory, descriptor: int, pointer: int) -> int:
    if not _open(state, descriptor):
        return EBADF
    rights = _RIGHTS[descriptor]
    memory.write(pointer, _FDSTAT.pack(_CHARACTER_DEVICE, 0, rights, 0))
    return SUCCESS


def _fd_filestat_get(state: CallState, memory: GuestMemory, descriptor: int, pointer: int) -> int:
    if not _open(state, descriptor):
        return EBADF
    memory.write(pointer, _FILESTAT.pack(0, 0, _CHARACTER_DEVICE, 1, 0, 0, 0, 0))
    return SUCCESS


def _no_descriptor(state: CallState, memory: GuestMemory, *ignored: int) -> int:
    """fd_prestat_get and fd_prestat_dir_name: there are no directories."""
    return EBADF


def _fd_read(state: CallState, memory: GuestMemory, descriptor: int, iovs: int, count: int, read: int) -> int:
    if descriptor == 0:
        memory.write_u32(read, 0)
        return SUCCESS
    if not _can_ask(state, descriptor):
        return EBADF
    pieces = _pieces(memory, iovs, count)
    for pointer, length in pieces:
        _inside(memory, pointer, length)
    reply = state.reply or b""
    begin = end = state.reply_taken
    for pointer, length in pieces:
        part = reply[end : end + length]
        memory.write(pointer, part)
        end += len(part)
    memory.write_u32(read, end - begin)
    # What is left stays where it is: it is not copied at each read of a byte.
    state.reply_taken = end
    if end >= len(reply):
        state.reply, state.reply_taken = None, 0
    return SUCCESS


def _fd_seek(state: CallState, memory: GuestMemory, descriptor: int, *ignored: int) -> int:
    """fd_seek and fd_tell: streams have no position."""
    return ESPIPE if _open(state, descriptor) else EBADF


def _fd_write(state: CallState, memory: GuestMemory, descriptor: int, iovs: int, count: int, written: int) -> int:
    """To the log, by lines. All that was given counts as written, also what the log had no room for."""
    if _can_ask(state, descriptor):
        return _ask(state, memory, iovs, count, written)
    if descriptor not in _LEVELS:
        return EBADF
    level = _LEVELS[descriptor]
    pieces = _pieces(memory, iovs, count)
    total = sum(length for _, length in pieces)
    if total > _MASK:
        return EINVAL
    for pointer, length in pieces:
        _inside(memory, pointer, length)
        # 5,000 iovs over 1 MiB copied 5 GB: nothing is read that would be dropped.
        taken = min(length, state.log.room)
        state.log.stream(level, memory.read(pointer, taken), dropped=length - taken)
    memory.write_u32(written, total)
    return SUCCESS


def _ask(state: CallState, memory: GuestMemory, iovs: int, count: int, written: int) -> int:
    """One host call. The request is this write, all of it: what it is too long for, the reply says."""
    if not 0 <= count <= MAX_IOVS:
        return EINVAL
    pieces = _pieces(memory, iovs, count)
    total = sum(length for _, length in pieces)
    if total > _MASK:
        return EINVAL
    for pointer, length in pieces:
        _inside(memory, pointer, length)
    ask_host(state, total, lambda: b"".join(memory.read(pointer, length) for pointer, length in pieces))
    memory.write_u32(written, total)
    return SUCCESS


def _pieces(memory: GuestMemory, iovs: int, count: int) -> list[tuple[int, int]]:
    table = memory.read(iovs, _IOV.size * min(count & _MASK, MAX_IOVS))
    return list(_IOV.iter_unpack(table))


def _poll_oneoff(state: CallState, memory: GuestMemory, wanted: int, events: int, count: int, fired: int) -> int:
    """Returns at once: what is ready is told, and if nothing is, the virtual clock goes on to the first timeout."""
    count &= _MASK
    if not 0 < count <= MAX_SUBSCRIPTIONS:
        return EINVAL
    table = memory.read(wanted, _SUBSCRIPTION_BYTES * count)
    now = state.clock.read_ns()
    ready: list[bytes] = []
    waits: list[tuple[int, int]] = []
    for start in range(0, len(table), _SUBSCRIPTION_BYTES):
        userdata, kind = struct.unpack_from("<QB", table, start)
        (target,) = struct.unpack_from("<I", table, start + 16)
        if kind == _POLL_CLOCK and target in _CLOCKS:
            timeout, _, flags = struct.unpack_from("<QQH", table, start + 24)
            waits.append((userdata, max(0, timeout - now if flags & _ABSOLUTE else timeout)))
        elif kind == _POLL_CLOCK:
            ready.append(_EVENT.pack(userdata, EINVAL, kind, 0, 0))
        elif kind in (_POLL_READ, _POLL_WRITE):
            open_for_it = target in _LEVELS if kind == _POLL_WRITE else target == 0
            hangup = _HANGUP if open_for_it and kind == _POLL_READ else 0
            open_for_it = open_for_it or _can_ask(state, target)
            ready.append(_EVENT.pack(userdata, SUCCESS if open_for_it else EBADF, kind, 0, hangup))
        else:
            return EINVAL
    passed = 0 if ready or not waits else min(wait for _, wait in waits)
    state.clock.advance_ns(passed)
    ready += [_EVENT.pack(userdata, SUCCESS, _POLL_CLOCK, 0, 0) for userdata, wait in waits if wait <= passed]
    memory.write(events, b"".join(ready))
    memory.write_u32(fired, len(ready))
    return SUCCESS


def _proc_exit(state: CallState, memory: GuestMemory, code: int) -> None:
    state.exit_code = code & _MASK
    raise GuestTrap("handler_exit", f"it ended its program with status {state.exit_code}, as exit() does")


def _random_get(state: CallState, memory: GuestMemory, pointer: int, length: int) -> int:
    length &= _MASK
    if length > MAX_RANDOM_BYTES:
        return EINVAL
    _inside(memory, pointer, length)
    if state.capabilities is None or state.capabilities.seed is None:
        state.log.note(RANDOM_NOTE, level=30)
    memory.write(pointer, state.random.read(length))
    return SUCCESS


def _sched_yield(state: CallState, memory: GuestMemory) -> int:
    return SUCCESS


def _inside(memory: GuestMemory, pointer: int, length: int) -> None:
    """Holds a whole range to the memory, also where only a part of it will be touched."""
    try:
        span(pointer, length, memory.size)
    except OutOfBounds as error:
        raise GuestTrap("trapped", f"a WASI function was given {error}") from None


_BODIES: Mapping[str, HostBody] = {
    "args_get": _nothing_get,
    "args_sizes_get": _nothing_sizes_get,
    "environ_get": _nothing_get,
    "environ_sizes_get": _nothing_sizes_get,
    "clock_res_get": _clock_res_get,
    "clock_time_get": _clock_time_get,
    "fd_close": _fd_known,
    "fd_fdstat_get": _fd_fdstat_get,
    "fd_fdstat_set_flags": _fd_known,
    "fd_filestat_get": _fd_filestat_get,
    "fd_prestat_get": _no_descriptor,
    "fd_prestat_dir_name": _no_descriptor,
    "fd_read": _fd_read,
    "fd_seek": _fd_seek,
    "fd_tell": _fd_seek,
    "fd_write": _fd_write,
    "poll_oneoff": _poll_oneoff,
    "proc_exit": _proc_exit,
    "random_get": _random_get,
    "sched_yield": _sched_yield,
}

FUNCTIONS: tuple[HostFunction, ...] = tuple(
    HostFunction.typed(WASI, name, signature, _BODIES[name]) for name, signature in WASI_IMPORTS.items()
)
"""All of them, in the table's order."""
