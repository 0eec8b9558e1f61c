"""What a call asked of the host and what it was told, kept while it runs and told again when it is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from rho_wasm.dynamic.recording import HostCall, asked, decoded, encoded, fingerprint, question_of
from rho_wasm.errors import CapabilityError, PlainError, TooLarge
from rho_wasm.sandbox.asking import BROKEN, NOT_PLAIN, refusal, refused_kind
from rho_wasm.sandbox.state import LATER, Capabilities

__all__ = ["Divergence", "RecordedCapabilities", "Transcript"]

_REFUSED_BYTES = 64 * 1024
"""Of all that a call asked for and was refused. Of what goes beyond a fingerprint is kept: a guest without any grant
could else see to it that none of its calls is recorded."""
_ASKED_BYTES = 4 * 1024 * 1024
"""Of all that a call asked for, refused or not: writing it out takes its time, whatever is kept of it."""


class Transcript:
    """Answers as ``capabilities`` does (None: everything is denied), and keeps what was asked and answered.

    At most ``max_bytes``: a call that asks and hears more is ``over`` it, and nothing of it is kept.
    """

    __slots__ = (
        "_asked_room",
        "_capabilities",
        "_question",
        "_refused_room",
        "_room",
        "bytes",
        "calls",
        "clock_ns",
        "over",
        "seed",
    )

    def __init__(self, capabilities: Capabilities | None, *, max_bytes: int) -> None:
        self._capabilities = capabilities
        self._room = max_bytes
        self._refused_room = min(_REFUSED_BYTES, max_bytes // 2)
        self._asked_room = _ASKED_BYTES
        self.bytes = 0
        """Of all that is kept."""
        self._question: bytes | None = None
        """What was asked last."""
        self.clock_ns = None if capabilities is None else capabilities.clock_ns
        self.seed = None if capabilities is None else capabilities.seed
        self.calls: list[HostCall] = []
        self.over = False

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        """As :class:`Capabilities` has it."""
        if self._capabilities is None:
            error = CapabilityError.not_granted(capability)
            self._refuse(capability, self._asked(capability, arguments), error)
            raise error
        # Before it is answered, which may alter it.
        question = self._question = self._asked(capability, arguments)
        try:
            value = self._capabilities.answer_now(capability, arguments, remaining_ms=remaining_ms)
        except (Exception, SystemExit) as error:
            self._refuse(capability, question, error)
            raise
        if value is not LATER:
            self._keep(question, self._reply(value))
        return value

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        """As :class:`Capabilities` has it."""
        assert self._capabilities is not None, "everything was denied at once"
        question = self._question
        try:
            value = await self._capabilities.answer(capability, arguments, remaining_ms=remaining_ms)
        except (Exception, SystemExit) as error:
            self._refuse(capability, question, error)
            raise
        if question is not None:
            self._keep(question, await self._reply_later(value))
        return value

    def _asked(self, capability: str, arguments: dict[str, Any]) -> bytes | None:
        if self.over:
            return None
        try:
            question = asked(capability, arguments, max_bytes=self._asked_room)
        except TooLarge:
            self._give_up()
            return None
        self._asked_room -= len(question)
        return question

    def _reply(self, value: Any) -> bytes | None:
        if self.over:
            return None
        try:
            return _reply(value, max_bytes=self._room)
        except TooLarge:
            return None

    async def _reply_later(self, value: Any) -> bytes | None:
        try:
            return _reply(value, max_bytes=self._room, at_once=True)
        except TooLarge:
            return await anyio.to_thread.run_sync(self._reply, value)

    def _refuse(self, capability: str, question: bytes | None, error: Exception | SystemExit) -> None:
        if question is not None and len(question) > self._refused_room:
            question = min(question, fingerprint(capability, question), key=len)
        elif question is not None:
            self._refused_room -= len(question)
        self._keep(question, _refusal(error))

    def _keep(self, question: bytes | None, reply: bytes | None) -> None:
        if question is None or reply is None or len(question) + len(reply) > self._room:
            self._give_up()
            return
        self._room -= len(question) + len(reply)
        self.bytes += len(question) + len(reply)
        self.calls.append(HostCall(question, reply))

    def _give_up(self) -> None:
        self.over = True
        self.bytes = 0
        self.calls.clear()


def _reply(value: Any, *, max_bytes: int, at_once: bool = False) -> bytes:
    try:
        return encoded({"ok": value}, max_bytes=max_bytes, at_once=at_once)
    except TooLarge:
        raise
    except PlainError:
        return refusal("unavailable", NOT_PLAIN)


def _refusal(error: Exception | SystemExit) -> bytes:
    """What the guest is told where the capability raised."""
    if isinstance(error, CapabilityError):
        return refusal(refused_kind(error), error.message)
    return refusal("unavailable", BROKEN)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a replayed call asked the host otherwise than the recorded one: the ``index``-th time, from 0.

    ``recorded`` and ``asked`` are ``[capability, arguments]``; None is that nothing (more) was asked.
    """

    index: int
    recorded: list[Any] | None
    asked: list[Any] | None


def _same(recorded: bytes, capability: str, asks: bytes) -> bool:
    return recorded == asks or recorded == fingerprint(capability, asks)


class RecordedCapabilities:
    """Answers host calls from a transcript, in its order, and touches nothing else.

    The first call that asks for something else, or for more, is where the guest ``diverged``; it is denied, and so is
    what comes after: no answer of the transcript would be true of it.
    """

    __slots__ = ("_calls", "_diverged", "_next", "clock_ns", "seed")

    def __init__(self, calls: Sequence[HostCall], *, clock_ns: int | None, seed: bytes | None) -> None:
        self._calls = calls
        self._next = 0
        self._diverged: Divergence | None = None
        self.clock_ns = clock_ns
        self.seed = seed

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        """As :class:`Capabilities` has it."""
        index, self._next = self._next, self._next + 1
        recorded = self._calls[index] if index < len(self._calls) else None
        if self._diverged is None:
            asks = asked(capability, arguments)
            if recorded is not None and _same(recorded.asked, capability, asks):
                reply = decoded(recorded.reply)
                if "ok" in reply:
                    return reply["ok"]
                raise CapabilityError(reply["error"]["kind"], reply["error"]["message"], capability=capability)
            before = None if recorded is None else question_of(recorded.asked)
            self._diverged = Divergence(index, before, question_of(asks))
        raise CapabilityError.not_granted(capability)

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        """Never asked: a transcript is there at once."""
        raise CapabilityError.not_granted(capability)

    def divergence(self) -> Divergence | None:
        """Where the call that is over asked otherwise than the recorded one, if it did: fewer times is that too."""
        if self._diverged is None and self._next < len(self._calls):
            return Divergence(self._next, question_of(self._calls[self._next].asked), None)
        return self._diverged
