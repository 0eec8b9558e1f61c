"""Why a guest's call did not end in an answer: wasmtime's traps and our own, as the reasons of ``results.KINDS``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rho_wasm.limits import Limits
from rho_wasm.sandbox.capi import Frame, GuestFault
from rho_wasm.sandbox.interpreter_frames import Stopped
from rho_wasm.sandbox.names import function_names
from rho_wasm.sandbox.state import GuestTrap
from rho_wasm.untrusted import inert

__all__ = ["CallFailed", "Unexplained", "backtrace", "explain", "out_of_memory", "stopped", "time_was_over"]

_NAME_CHARS = 128
"""Of a function's name in a backtrace."""

# wasmtime_trap_code_enum
_STACK_OVERFLOW = 0
_OUT_OF_FUEL = 11
_TEXTS = {
    _STACK_OVERFLOW: "the stack overflowed: the guest recurses too deeply",
    1: "a memory access was out of bounds",
    2: "an atomic access was not aligned",
    3: "a table access was out of bounds",
    4: "an empty table element was called",
    5: "an indirect call met a function of another type",
    6: "an integer operation overflowed",
    7: "an integer was divided by zero",
    8: "a number was converted to an integer that cannot hold it",
    9: "code was reached that says it cannot be reached (a panic or an abort)",
    13: "a null reference was used",
}

_WHAT_HAPPENED = {
    "out_of_fuel": "its fuel was used up, perhaps by a loop that does not end",
    "deadline": "its time was over, perhaps by a loop that does not end",
    "too_many_host_calls": "it went on asking after it was told that its host calls were used up",
}


class CallFailed(Exception):
    """One guest call that ended without an answer. ``reason`` is a key of ``results.KINDS``, ``detail`` is inert.

    ``limit`` and ``value`` name the bound that was met, ``trace`` is the bounded backtrace, innermost first.
    """

    def __init__(
        self,
        reason: str,
        detail: str,
        *,
        limit: str | None = None,
        value: int | None = None,
        trace: Sequence[str] = (),
    ) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.limit = limit
        self.value = value
        self.trace = tuple(trace)


class Unexplained(Exception):
    """The guest's end is there, but to say what it means takes too long for the event loop's thread."""

    def __init__(self, explain: Callable[[], CallFailed]) -> None:
        super().__init__()
        self.explain = explain


def backtrace(frames: Sequence[Frame], names: bytes = b"") -> tuple[str, ...]:
    """One inert line a frame: the function's name, or its number where the module has no names, and the offset.

    ``names`` is the payload of the module's ``name`` section.
    """
    named = function_names(names, (frame.function for frame in frames))
    return tuple(
        f"{inert(name, limit=_NAME_CHARS) if (name := named.get(frame.function)) else f'function {frame.function}'}"
        f" (+{frame.offset:#x})"
        for frame in frames
    )


def explain(
    fault: GuestFault,
    *,
    cause: GuestTrap | None,
    limits: Limits,
    memory_refused: bool,
    names: bytes = b"",
    instantiating: bool = False,
    interpreted: Stopped | None = None,
) -> CallFailed:
    """The reason of ``fault``.

    ``cause`` is why the host stopped the guest, where it did. ``memory_refused`` says that ``memory.grow`` answered -1
    in this call: a guest without memory ends in the same trap as one that panics. ``interpreted`` is where a tool was
    that runs over an engine: WebAssembly's frames are the interpreter's then, and tell an author nothing.
    """
    trace = backtrace(fault.frames, names) if interpreted is None else interpreted.lines()
    if cause is not None:
        return stopped(cause, trace=trace)
    if fault.code == _OUT_OF_FUEL:
        return stopped(GuestTrap("out_of_fuel", limit="fuel", value=limits.fuel), trace=trace)
    if fault.code is None:
        return _not_a_trap(fault, limits=limits, instantiating=instantiating, trace=trace)
    text = _TEXTS.get(fault.code, f"wasmtime's trap {fault.code}")
    if memory_refused and fault.code != _STACK_OVERFLOW:
        return out_of_memory(f"memory.grow was refused, then {text}", limits=limits, trace=trace)
    return CallFailed("trapped", text, trace=trace)


def time_was_over(deadline_s: float, *, waited_s: float) -> GuestTrap:
    """What ends a guest that runs at its deadline, and of all its time had ``waited_s`` for the host's answers."""
    detail = ""
    if deadline_s <= 0:
        detail = "its time was over before it began"
    elif waited_s > deadline_s / 2:
        detail = "its time was over, most of which it had waited for the host"
    return GuestTrap("deadline", detail, limit="deadline_ms", value=round(deadline_s * 1000))


def stopped(cause: GuestTrap, *, trace: Sequence[str] = ()) -> CallFailed:
    """What a call becomes that the host itself ended."""
    detail = cause.detail or _WHAT_HAPPENED.get(cause.reason, "")
    return CallFailed(cause.reason, detail, limit=cause.limit, value=cause.value, trace=trace)


def out_of_memory(detail: str, *, limits: Limits, trace: Sequence[str] = ()) -> CallFailed:
    """The guest got no memory, and ended for want of it."""
    return CallFailed("out_of_memory", detail, limit="memory_bytes", value=limits.memory_bytes, trace=trace)


def _not_a_trap(fault: GuestFault, *, limits: Limits, instantiating: bool, trace: Sequence[str]) -> CallFailed:
    # These texts are wasmtime's own: they name sizes, and nothing of the guest.
    if instantiating and "memory" in fault.message and "exceeds" in fault.message:
        return out_of_memory("the memory that the module starts with is over the limit", limits=limits)
    if instantiating and "table" in fault.message and "exceeds" in fault.message:
        return CallFailed(
            "out_of_memory",
            "the table that the module starts with is over the limit",
            limit="table_elements",
            value=limits.table_elements,
        )
    return CallFailed("overloaded", f"wasmtime could not run the call: {inert(fault.message, limit=200)}", trace=trace)
