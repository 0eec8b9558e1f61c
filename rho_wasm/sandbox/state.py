"""What one guest call has while it runs: its limits, its log, its counters, its end.

A :class:`CallState` never refers to a wasmtime store, an instance or a memory: host functions get those for the time
of one host call only. So nothing that a call leaves behind can keep its store alive (1,500 such calls left 1.5 GB).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from rho_wasm.limits import Limits
from rho_wasm.sandbox.log import LogBuffer
from rho_wasm.sandbox.virtual import SeededRandom, VirtualClock

__all__ = ["CallState", "Capabilities", "Elsewhere", "GuestTrap"]

Capabilities: TypeAlias = Callable[[str, Mapping[str, Any]], Any]
"""``(capability, arguments) -> plain value``: answers one host call, in the call's worker thread.

It is asked only for capabilities that the manifest declares, only inside ``rho_call``, and only within
``Limits.host_calls``. It raises :class:`rho_wasm.errors.CapabilityError` to answer an error to the guest; any other
exception ends the call with ``capability_fault``.
"""


class GuestTrap(Exception):
    """Raised inside a host function to end the call with ``reason`` (a key of ``results.KINDS``).

    It never leaves the host function's trampoline: it is kept in the call's state and becomes a trap of the guest.
    ``detail`` is one line of the host's own words; ``limit`` and ``value`` name the bound that was met.
    """

    def __init__(self, reason: str, detail: str = "", *, limit: str | None = None, value: int | None = None) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.limit = limit
        self.value = value


class Elsewhere(Exception):
    """This call cannot be done on the event loop's thread: it begins again in a thread of its own.

    Nobody sees that it did: a call has no effect outside itself before it asks for a capability, and it is a pure
    function of its request.
    """


class CallState:
    """The state of one guest call. Used by the call's own thread; ``cancelled`` may be set from any thread."""

    # What most calls never alter is said once, here.
    seed = b""
    """The request, once the call begins: so a call without grants is a pure function of it."""
    charged = 0
    """Fuel that host calls cost so far, beside what the guest's own instructions burnt."""
    host_calls = 0
    """How many times ``host_call`` was called."""
    hurried = False
    """True on the event loop's thread: a host function that would take long raises :class:`Elsewhere`."""
    reply: bytes | None = None
    """The reply that waits for ``host_take``."""
    reply_taken = 0
    """How much of it was read through a descriptor already."""
    answering = False
    """True inside ``rho_call``; before it every host call is denied."""
    exit_code: int | None = None
    """What the guest gave to ``proc_exit``."""
    fault: GuestTrap | None = None
    """Why a host function, the deadline or a cancellation ended the call; the first one counts."""
    error: BaseException | None = None
    """An exception of the host itself that must not cross wasmtime; raised again once the guest is gone."""
    cancelled = False
    logged = False
    """Whether anything was ever logged."""

    def __init__(
        self,
        *,
        limits: Limits,
        declared: frozenset[str] = frozenset(),
        capabilities: Capabilities | None = None,
        names: bytes = b"",
    ) -> None:
        self.limits = limits
        self.names = names
        """The payload of the module's ``name`` section, for a backtrace."""
        self.declared = declared
        """The capabilities that the manifest declares: a ceiling."""
        self.capabilities = capabilities

    @cached_property
    def log(self) -> LogBuffer:
        """What the guest logs."""
        self.logged = True
        return LogBuffer(self.limits.log_bytes)

    @cached_property
    def clock(self) -> VirtualClock:
        """The time that the guest is told."""
        return VirtualClock()

    @cached_property
    def random(self) -> SeededRandom:
        """What the guest is given for chance. It follows from the seed."""
        return SeededRandom(self.seed)
