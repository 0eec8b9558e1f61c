"""Calls of one guest with requests of any bytes, and how each ended: which the sandbox never sends and never tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio

from rho_wasm import plain
from rho_wasm.envelope import BadAnswer, Raised, parse_answer
from rho_wasm.host_threads import HostThreads
from rho_wasm.limits import Limits
from rho_wasm.results import NOTHING_LOGGED, AskUser, CallLog, Failed, HandlerResult, Ok
from rho_wasm.sandbox import Capabilities, GuestModule
from rho_wasm.sandbox.errands import Errands
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.guest_call import GuestCall
from rho_wasm.sandbox.module import NativeModule
from rho_wasm.sandbox.state import CallState

__all__ = ["Ended", "OutOfTime", "Probe"]

Outcome: TypeAlias = HandlerResult | Raised | BadAnswer | CallFailed

_HOST_KINDS_KEPT = 32


class OutOfTime(Exception):
    """Calls, and what was made for them, took as long together as they may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one call ended."""

    outcome: Outcome
    answer: bytes
    """The bytes of the answer; empty where there was none."""
    stage: str
    """What the guest ran last, as :attr:`GuestCall.stage` says it."""
    fuel_used: int
    log: CallLog = field(default=NOTHING_LOGGED)
    host_calls: int = 0
    host_kinds: tuple[str, ...] = ()
    """The kinds of the errors that the first host calls were answered."""

    @property
    def kind(self) -> str:
        """``ok``, ``failed``, ``ask_user``, ``halt``, ``raised``, or else a reason of ``results.KINDS``."""
        match self.outcome:
            case CallFailed():
                return self.outcome.reason
            case BadAnswer():
                return "bad_answer"
            case Raised():
                return "raised"
            case Ok():
                return "ok"
            case Failed():
                return "failed"
            case AskUser():
                return "ask_user"
        return "halt"

    @property
    def answered(self) -> bool:
        """It ended in an answer of the ABI, whichever."""
        return not isinstance(self.outcome, BadAnswer | CallFailed)

    @property
    def why(self) -> str:
        """Why there is no such answer."""
        if isinstance(self.outcome, CallFailed):
            bound = f" ({self.outcome.limit}={self.outcome.value})" if self.outcome.limit is not None else ""
            return f"{self.outcome.reason}{bound}: {self.outcome.detail}"
        return f"bad_answer: {self.outcome.detail}" if isinstance(self.outcome, BadAnswer) else ""


class Probe:
    """Calls ``module``, each time in a fresh instance. For one task at a time.

    ``seconds`` is how long its calls, and all else that is :meth:`timed`, may take together, their answers' reading
    included: then :class:`OutOfTime` is raised. Raises :class:`Overloaded` where no thread can be had.
    """

    def __init__(self, module: GuestModule, *, limits: Limits, seconds: float) -> None:
        self.limits = limits
        self.calls = 0
        self._module = module
        self._left_s = seconds
        self._errands = Errands(HostThreads(max_abandoned=1), most=1)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """What is done inside takes of the time that is left. Raises :class:`OutOfTime` where nothing was left before.

        What is begun is ended, so it must have a bound of its own.
        """
        if self._left_s <= 0:
            raise OutOfTime
        began = anyio.current_time()
        try:
            yield
        finally:
            self._left_s -= anyio.current_time() - began

    async def send(self, request: bytes, *, limits: Limits | None = None, host: Capabilities | None = None) -> Ended:
        """One call with these bytes, within ``limits`` or the probe's. ``host`` answers host calls, None denies."""
        with self.timed():
            self.calls += 1
            native = self._module.held()
            try:
                return await self._errands.run(_One(native, request, limits=limits or self.limits, host=host))
            finally:
                native.release()


class _WatchedState(CallState):
    """Remembers what host calls were refused for."""

    _reply: bytes | None = None

    def __init__(self, *, limits: Limits, native: NativeModule, host: Capabilities | None) -> None:
        super().__init__(limits=limits, declared=native.declared, capabilities=host, names=native.names)
        self.kinds: list[str] = []

    @property
    def reply(self) -> bytes | None:
        return self._reply

    @reply.setter
    def reply(self, reply: bytes | None) -> None:
        self._reply = reply
        if reply is not None and len(self.kinds) < _HOST_KINDS_KEPT:
            told = plain.decode(reply, max_bytes=len(reply))
            if "error" in told:
                self.kinds.append(told["error"]["kind"])


class _One:
    def __init__(self, native: NativeModule, request: bytes, *, limits: Limits, host: Capabilities | None) -> None:
        self._limits = limits
        self._request = request
        self._state = _WatchedState(limits=limits, native=native, host=host)
        self.call = GuestCall(native.linked.owner, native.linked, self._state, deadline_ms=limits.deadline_ms)

    def cancel(self) -> None:
        self.call.cancel()

    def close(self) -> None:
        """Nothing of it is left behind where no thread could be had."""

    def in_thread(self) -> Ended:
        call, answer = self.call, b""
        outcome: Outcome
        try:
            answer = call.run(self._request)
            outcome = parse_answer(answer, limits=self._limits)
        except (CallFailed, BadAnswer, Raised) as error:
            outcome = error.with_traceback(None)
        finally:
            call.finish()
        return Ended(
            outcome=outcome,
            answer=answer,
            stage=call.stage,
            fuel_used=call.fuel_used,
            log=call.log,
            host_calls=self._state.host_calls,
            host_kinds=tuple(self._state.kinds),
        )
