"""One call again and again, on the event loop's path and on the thread's: all that a guest may have said or cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rho_wasm.limits import Limits
from rho_wasm.sandbox import Capabilities, GuestModule
from rho_wasm.sandbox.asking_call import AskingCall
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.guest_call import GuestCall
from rho_wasm.sandbox.module import NativeModule
from rho_wasm.sandbox.slices import SlicedCall
from rho_wasm.sandbox.state import CallState, Elsewhere

__all__ = ["Said", "said"]

_TIMES = 50
_LIMITS = Limits(fuel=5_000_000, deadline_ms=60_000)


class Said(NamedTuple):
    """What came of one call."""

    answer: bytes
    failed: str
    fuel: int
    log: tuple[tuple[int, str], ...]


def said(
    module: GuestModule,
    request: bytes,
    *,
    times: int = _TIMES,
    limits: Limits = _LIMITS,
    capabilities: Capabilities | None = None,
) -> set[Said]:
    """All that came of ``times`` calls, half of them on each path where there are two. One where a call is pure."""
    native = module.held()
    try:
        found = set()
        for number in range(times):
            paths = _PATHS if native.linked.owner.way == "native" else _PATHS[1:]
            found.add(paths[number % len(paths)](native, request, limits, capabilities))
        return found
    finally:
        native.release()


def _state(native: NativeModule, limits: Limits, capabilities: Capabilities | None) -> CallState:
    return CallState(limits=limits, declared=native.declared, capabilities=capabilities, names=native.names)


def _on_loop(native: NativeModule, request: bytes, limits: Limits, capabilities: Capabilities | None) -> Said:
    """In slices, with the rest in a thread, as where one becomes too long."""
    state = _state(native, limits, capabilities)
    kind = SlicedCall if capabilities is None else AskingCall
    call = kind(native.linked.owner, native.linked, state, deadline_ms=limits.deadline_ms)
    call.prepare(request, sliced=True)

    def go_on() -> Iterator[bytes]:
        if isinstance(call, AskingCall):
            yield call.answer if call.advance_on_loop() or call.advance_in_thread() else b"it waits"
        else:
            yield call.answer if call.advance() else call.rest()

    try:
        return _said(call, go_on())
    except Elsewhere:
        return _in_thread(native, request, limits, capabilities)
    finally:
        call.close()


def _in_thread(native: NativeModule, request: bytes, limits: Limits, capabilities: Capabilities | None) -> Said:
    state = _state(native, limits, capabilities)
    call = GuestCall(native.linked.owner, native.linked, state, deadline_ms=limits.deadline_ms)

    def go_on() -> Iterator[bytes]:
        yield call.run(request)

    return _said(call, go_on())


def _said(call: GuestCall, steps: Iterator[bytes]) -> Said:
    answer, failed = b"", ""
    try:
        (answer,) = steps
    except CallFailed as error:
        failed = f"{error.reason}: {error.detail}; {' '.join(error.trace)}"
    call.finish()
    return Said(answer, failed, call.fuel_used, tuple((line.level, line.text) for line in call.log.lines))


_PATHS = (_on_loop, _in_thread)
