"""What one guest call has while it runs: its limits, its log, its counters, its end.

A :class:`CallState` never refers to a wasmtime store, an instance or a memory: host functions get those for the time
of one host call only. So nothing that a call leaves behind can keep its store alive (1,500 such calls left 1.5 GB).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from rho_wasm.limits import Limits
from rho_wasm.sandbox.log import LogBuffer
from rho_wasm.sandbox.virtual import START_NS, SeededRandom, VirtualClock

if TYPE_CHECKING:
    from rho_wasm.sandbox.asking import Asking

__all__ = ["LATER", "CallState", "Capabilities", "Elsewhere", "GuestTrap"]


class _Later(enum.Enum):
    LATER = "later"


LATER: Final = _Later.LATER
"""What :meth:`Capabilities.answer_now` answers where that needs waiting: :meth:`Capabilities.answer` is asked then."""


class Capabilities(Protocol):
    """Answers the host calls of one call.

    It is asked only for capabilities that the manifest declares, only inside ``rho_call``, and only within
    ``Limits.host_calls``; one host call at a time. Both methods raise :class:`rho_wasm.errors.CapabilityError` to
    answer an error to the guest. Any other exception is one too, of kind ``unavailable``, in words of the sandbox's;
    KeyboardInterrupt ends the call. ``remaining_ms`` is what is left of the call's deadline.
    """

    @property
    def clock_ns(self) -> int | None:
        """When the guest's WASI clock begins, in nanoseconds since 1970. None: at the fixed start that all have."""

    @property
    def seed(self) -> bytes | None:
        """What WASI's randomness follows from, 32 bytes. None: the request, and the call's log says so."""

    def answer_now(
        self, capability: str, arguments: dict[str, Any], *, remaining_ms: float
    ) -> Any | Literal[_Later.LATER]:
        """The plain value that the guest is given, or :data:`LATER`. On any thread; it must not block."""

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        """The plain value that the guest is given. On the event loop, in the task that called the guest.

        Cancelled with the call, and once the deadline has passed.
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
    guest = ""
    """The hash of its module: its long host calls have their turn beside other guests'."""
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
    asking: Asking | None = None
    """The host call that waits for its reply."""
    wait: Callable[[Asking], None] | None = None
    """Has ``answer`` awaited while this thread waits. None: there is nobody who could."""
    unavailable: tuple[str, Exception] | None = None
    """The first capability that was not available, and why."""
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
        capabilities = self.capabilities
        begins = None if capabilities is None else capabilities.clock_ns
        return VirtualClock(START_NS if begins is None else begins)

    @cached_property
    def random(self) -> SeededRandom:
        """What the guest is given for chance."""
        seed = None if self.capabilities is None else self.capabilities.seed
        return SeededRandom(self.seed if seed is None else seed)
