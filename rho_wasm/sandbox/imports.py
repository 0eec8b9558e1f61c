"""What the host gives to guests: the shape of a host function, and the three of module ``rho`` (guest_sdk/ABI.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from rho_wasm.counting import REQUEST_BYTES_AT_ONCE
from rho_wasm.sandbox.abi import RHO, RHO_IMPORTS, FunctionType, ValueType
from rho_wasm.sandbox.asking import Asking, refusal
from rho_wasm.sandbox.memory import GuestMemory
from rho_wasm.sandbox.state import CallState, Elsewhere, GuestTrap

__all__ = ["EXTRA_HOST_CALLS", "FUNCTIONS", "GuestTrap", "HostBody", "HostFunction", "ask_host"]

EXTRA_HOST_CALLS = 100
"""Host calls over ``Limits.host_calls`` that are answered ``quota``; one more ends the call."""

_LENGTH_MASK = 0xFFFF_FFFF

HostBody: TypeAlias = Callable[..., int | None]
"""``(state, memory, *arguments) -> result``. Arguments and result are the signed numbers that wasmtime hands over."""


@dataclass(frozen=True, slots=True)
class HostFunction:
    """One function that guests may import.

    ``call(state, memory, *arguments)`` runs in the call's thread and may raise :class:`GuestTrap` to end the call.
    What it reads and writes through ``memory`` is charged to the call as fuel; bounding how much that is, is its own
    duty. It must keep neither ``state`` nor ``memory``.
    """

    module: str
    name: str
    params: tuple[ValueType, ...]
    results: tuple[ValueType, ...]
    call: HostBody

    @classmethod
    def typed(cls, module: str, name: str, signature: FunctionType, call: HostBody) -> HostFunction:
        """A host function with the type that the table of abi.py gives."""
        return cls(module, name, signature.params, signature.results, call)


def _log(state: CallState, memory: GuestMemory, level: int, pointer: int, length: int) -> None:
    wanted = length & _LENGTH_MASK
    # A log of 64 MiB took 176 ms for 9 fuel: nothing is read that would be dropped.
    taken = min(wanted, state.log.room)
    state.log.line(level, memory.read(pointer, taken), dropped=wanted - taken)


def _host_call(state: CallState, memory: GuestMemory, pointer: int, length: int) -> int | None:
    wanted = length & _LENGTH_MASK
    ask_host(state, wanted, lambda: memory.read(pointer, wanted))
    return None if state.reply is None else len(state.reply)


def ask_host(state: CallState, length: int, read: Callable[[], bytes]) -> None:
    """One host call of a request of ``length`` bytes, which is read only if it is looked at.

    Where it is refused, ``state.reply`` is that refusal. Else it is ``state.asking``: whoever called the host function
    answers it once that has returned, and a function that answered None answers the reply's length. Raises
    :class:`GuestTrap`.
    """
    state.reply, state.reply_taken = None, 0
    state.host_calls += 1
    limits = state.limits
    if state.host_calls > limits.host_calls + EXTRA_HOST_CALLS:
        raise GuestTrap("too_many_host_calls", limit="host_calls", value=limits.host_calls)
    if state.host_calls > limits.host_calls:
        state.reply = refusal("quota", f"{limits.host_calls} host calls are allowed in one call")
    elif not state.answering:
        state.reply = refusal("denied", "host calls are answered inside rho_call only")
    elif length > limits.request_bytes:
        state.reply = refusal("invalid_arguments", f"a host request has at most {limits.request_bytes} bytes")
    elif state.hurried and state.capabilities is None and length > REQUEST_BYTES_AT_ONCE:
        raise Elsewhere
    else:
        state.asking = Asking(
            read(), limits=limits, declared=state.declared, capabilities=state.capabilities, guest=state.guest
        )


def _host_take(state: CallState, memory: GuestMemory, pointer: int, length: int) -> int:
    if state.reply is None:
        raise GuestTrap("trapped", "host_take was called with no reply waiting")
    start = state.reply_taken
    part = state.reply[start : start + (length & _LENGTH_MASK)]
    memory.write(pointer, part)
    state.reply, state.reply_taken = None, 0
    return len(part)


FUNCTIONS: tuple[HostFunction, ...] = (
    HostFunction.typed(RHO, "log", RHO_IMPORTS["log"], _log),
    HostFunction.typed(RHO, "host_call", RHO_IMPORTS["host_call"], _host_call),
    HostFunction.typed(RHO, "host_take", RHO_IMPORTS["host_take"], _host_take),
)
