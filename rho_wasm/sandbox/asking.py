"""One host call, from the request's bytes to the reply's. Nothing here needs the guest, which stands still."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from rho_wasm import plain
from rho_wasm.arguments_error import arguments_words
from rho_wasm.cancellation import Watermark, leaves, let_through
from rho_wasm.counting import ITEMS_AT_ONCE, REQUEST_BYTES_AT_ONCE, items_of
from rho_wasm.errors import CapabilityError, PlainError, TooLarge
from rho_wasm.limits import Limits
from rho_wasm.long_work import LONG_BYTES, LONG_ITEMS, NoTurn, Place
from rho_wasm.sandbox.crossing import BYTES_AT_ONCE, encode
from rho_wasm.sandbox.state import LATER, Capabilities, GuestTrap
from rho_wasm.untrusted import inert

__all__ = ["BROKEN", "NOT_PLAIN", "Asking", "Step", "refusal", "refused_kind"]

_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
"""Of an error: one of the ABI's, or the capability's own."""
_MESSAGE_CHARS = 1_000
BROKEN = "the capability failed in the host"
"""All that a guest is told of an exception that was not meant for it: its text may hold anything."""
NOT_PLAIN = "the capability answered what a guest cannot be given"
_SHAPE = 'a host request is {"capability": text, "arguments": map}'
_NONE: Final = object()
_T = TypeVar("_T")


class Step(enum.Enum):
    """How far a host call came."""

    REPLIED = "replied"
    LATER = "later"
    """:meth:`Asking.wait` is next, on the event loop."""
    LONG = "long"
    """What is next takes too long for the event loop's thread."""


class Asking:
    """:meth:`go_on` until it is ``REPLIED``. ``reply`` is then what the guest is given, in bytes.

    ``unavailable`` says why, where the capability was not: what it raised. ``items`` are those of the request and of
    the reply, as far as they were read and made: each takes its time. ``declared`` are the capabilities that the
    module's manifest names; ``guest`` is its hash: what is long is done in its turn.
    """

    __slots__ = (
        "_arguments",
        "_capabilities",
        "_data",
        "_declared",
        "_guest",
        "_left",
        "_limits",
        "_long",
        "_place",
        "_value",
        "capability",
        "items",
        "reply",
        "unavailable",
    )

    def __init__(
        self,
        data: bytes,
        *,
        limits: Limits,
        declared: frozenset[str],
        capabilities: Capabilities | None,
        guest: str = "",
    ) -> None:
        self._data = data
        self._guest = guest
        self._left = False
        self._place: Place | None = None
        self._limits = limits
        self._declared = declared
        self._capabilities = capabilities
        self._arguments: dict[str, Any] | None = None
        self._long = len(data) > REQUEST_BYTES_AT_ONCE
        self._value: Any = _NONE
        self.capability = ""
        self.items = 0
        self.reply = b""
        self.unavailable: Exception | None = None

    @classmethod
    def of(
        cls,
        capability: str,
        arguments: dict[str, Any],
        *,
        limits: Limits,
        capabilities: Capabilities,
        long: bool,
        guest: str = "",
    ) -> Asking:
        """One whose request was read already. ``long``: it had more than ``REQUEST_BYTES_AT_ONCE``."""
        made = cls(b"", limits=limits, declared=frozenset(), capabilities=capabilities, guest=guest)
        made.capability, made._arguments, made._long = capability, arguments, long
        return made

    def go_on(self, *, remaining_ms: float, hurried: bool) -> Step:
        """Does what can be done on this thread. ``hurried``: on the event loop's.

        Raises :class:`NoTurn` where its turn did not come within ``remaining_ms``, or after :meth:`leave`,
        KeyboardInterrupt, and whatever else a capability raised that is neither an Exception nor SystemExit.
        """
        if not self.reply and self._value is _NONE:
            if hurried and self._long:
                return Step.LONG
            if self._arguments is None:
                self._read(remaining_ms)
            if not self.reply:
                self._answer_now(remaining_ms)
        if self._value is LATER:
            return Step.LATER
        if not self.reply:
            self._encode(remaining_ms, hurried=hurried)
        return Step.REPLIED if self.reply else Step.LONG

    async def wait(self, *, remaining_ms: float) -> None:
        """Awaits the capability's answer. Raises as :meth:`go_on`, and a cancellation that somebody asked for."""
        watermark = Watermark()
        assert self._capabilities is not None, "somebody said that it answers later"
        assert self._arguments is not None, "and was asked before"
        self._value = _NONE
        try:
            self._value = await self._capabilities.answer(
                self.capability, self._arguments, remaining_ms=max(0.0, remaining_ms)
            )
            if self._value is LATER:
                raise TypeError("what is awaited is the answer itself")
        except BaseException as error:
            self._value = _NONE
            self._failed(error, watermark)
        await watermark.raise_swallowed()

    def give_up(self, message: str) -> None:
        """Nobody can wait for it: the guest is told that it is not available."""
        self._value = _NONE
        self._refused(CapabilityError("unavailable", message))

    def leave(self) -> None:
        """The call was cancelled: nobody waits for its turn any more. From any thread."""
        self._left = True
        if (place := self._place) is not None:
            place.leave()

    def _in_turn(self, function: Callable[[], _T], remaining_ms: float) -> _T:
        self._place = place = Place(self._guest)
        if self._left:
            raise NoTurn
        with place.turn(within_s=remaining_ms / 1000):
            return function()

    def _decoded(self) -> Any:
        limits = self._limits
        return plain.decode(self._data, max_bytes=limits.request_bytes, max_depth=limits.depth, max_items=limits.items)

    def _read(self, remaining_ms: float) -> None:
        long = len(self._data) > LONG_BYTES
        try:
            request = self._in_turn(self._decoded, remaining_ms) if long else self._decoded()
        except PlainError as error:
            self.reply = refusal("invalid_arguments", arguments_words(error))
            return
        self.items += items_of(request)
        if type(request) is not dict or request.keys() != {"capability", "arguments"}:
            self.reply = refusal("invalid_arguments", _SHAPE)
            return
        capability, arguments = request["capability"], request["arguments"]
        if type(capability) is not str or type(arguments) is not dict:
            self.reply = refusal("invalid_arguments", _SHAPE)
        elif capability not in self._declared:
            self.reply = refusal("undeclared", "the manifest does not declare this capability")
        elif self._capabilities is None:
            self._refused(CapabilityError.not_granted(capability))
        else:
            self.capability, self._arguments = capability, arguments

    def _answer_now(self, remaining_ms: float) -> None:
        assert self._capabilities is not None, "else it was refused"
        assert self._arguments is not None, "else it was refused"
        try:
            self._value = self._capabilities.answer_now(
                self.capability, self._arguments, remaining_ms=max(0.0, remaining_ms)
            )
        except BaseException as error:
            self._failed(error, None)

    def _failed(self, error: BaseException, watermark: Watermark | None) -> None:
        """The capability raised. What is not its own to raise goes on."""
        if isinstance(error, GuestTrap):  # In a worker process: the host says that the call is over.
            raise error
        if isinstance(error, CapabilityError):
            self._refused(error)
            return
        let_through(error, watermark)
        own = (Exception, SystemExit) if watermark is None else (Exception, SystemExit, watermark.cancelled_class)
        for leaf in leaves(error):
            if not issubclass(type(leaf), own):
                raise leaf
        self.unavailable = error if isinstance(error, Exception) else RuntimeError(BROKEN)
        self.reply = refusal("unavailable", BROKEN)

    def _refused(self, error: CapabilityError) -> None:
        kind = refused_kind(error)
        if kind == "unavailable":
            self.unavailable = error
        self.reply = refusal(kind, error.message)

    def _encode(self, remaining_ms: float, *, hurried: bool) -> None:
        # A reply waits in the host: it is bounded like a request.
        limits = self._limits
        reply = {"ok": self._value}
        max_bytes, max_items = min(limits.request_bytes, BYTES_AT_ONCE), min(limits.items, ITEMS_AT_ONCE)
        try:
            try:
                self.reply = plain.encode(reply, max_bytes=max_bytes, max_depth=limits.depth, max_items=max_items)
            except TooLarge:
                if hurried:
                    return
                whole = partial(encode, reply, limits=limits)
                long = items_of(self._value, most=LONG_ITEMS) > LONG_ITEMS
                self.reply = self._in_turn(whole, remaining_ms) if long else whole()
            self.items += items_of(self._value)
        except TooLarge as error:
            self.reply = refusal("quota", f"the reply is more than a guest can be given: {error}")
        except PlainError as error:
            self.unavailable = error
            self.reply = refusal("unavailable", NOT_PLAIN)


def refused_kind(error: CapabilityError) -> str:
    """The kind that a guest is told: ``unavailable`` in place of one that is no kind."""
    return error.kind if type(error.kind) is str and _KIND.fullmatch(error.kind) else "unavailable"


def refusal(kind: str, message: str) -> bytes:
    """The reply that says no."""
    return plain.encode({"error": {"kind": kind, "message": inert(message, limit=_MESSAGE_CHARS)}})
