"""The capabilities of one call: what was granted answers, within its bounds, and the rest is denied."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel

from rho_wasm import plain
from rho_wasm.calls import ToolContext
from rho_wasm.capabilities.capability import Capability, CapabilityContext
from rho_wasm.capabilities.in_thread import charged_in_thread
from rho_wasm.counting import ITEMS_AT_ONCE
from rho_wasm.errors import CapabilityError, PlainError, TooLarge
from rho_wasm.events import CapabilityFailed
from rho_wasm.grants import Bounds
from rho_wasm.host_threads import on_behalf_of
from rho_wasm.limits import Limits
from rho_wasm.results import CallLog
from rho_wasm.sandbox.log import LogBuffer
from rho_wasm.sandbox.state import LATER
from rho_wasm.untrusted import exception_text, exception_trace

__all__ = ["Granted", "GrantedCapabilities", "TellFailure"]

TellFailure: TypeAlias = Callable[[CapabilityFailed, bool], None]
"""Takes an event, and whether this is the event loop's thread."""

_log = logging.getLogger("rho_wasm")
_SEED_BYTES: Final = 32
_FAILURES_TOLD: Final = 8
"""In one call: a guest can ask again and again for what fails."""
_TRACE_LINES: Final = 12


class Granted(NamedTuple):
    """One capability that a version has, and the bounds within which it has it."""

    capability: Capability
    bounds: Bounds


class GrantedCapabilities:
    """Answers the host calls of one call of one version (:class:`rho_wasm.sandbox.state.Capabilities`).

    A guest that guesses learns nothing: what there is and was not granted, and what there is not, are denied alike.
    ``granted`` is what it has, by name. With ``clock.now`` among it the guest's own clock begins at ``clock_ns()``, and
    with ``random.bytes`` its own randomness is what the operating system gives. A capability that fails (it raises
    what is no :class:`CapabilityError`, answers what it must not, or says that the fault is the host's) is logged, and
    told to ``failed``.
    """

    __slots__ = (
        "_artifact",
        "_checked",
        "_context",
        "_failed",
        "_failures",
        "_generation",
        "_granted",
        "_limits",
        "_lines",
        "_siblings",
        "_tool",
        "_used",
        "clock_ns",
        "seed",
    )

    def __init__(
        self,
        granted: Mapping[str, Granted],
        *,
        tool: str,
        artifact: str,
        generation: int,
        context: ToolContext,
        limits: Limits,
        clock_ns: Callable[[], int] = time.time_ns,
        failed: TellFailure | None = None,
        siblings: tuple[str, ...] = (),
    ) -> None:
        self._granted = granted
        self._tool = tool
        self._artifact = artifact
        self._generation = generation
        self._siblings = siblings
        self._context = context
        self._limits = limits
        self._lines: LogBuffer | None = None
        self._used: dict[str, int] = {}
        self._checked: tuple[dict[str, Any], BaseModel] | None = None
        """What was checked for an answer that is awaited: arguments that are long are checked in a thread."""
        self._failed = failed
        self._failures = 0
        context.meter.call_depth = limits.host_call_depth
        self.clock_ns = clock_ns() if "clock.now" in granted else None
        self.seed = os.urandom(_SEED_BYTES) if "random.bytes" in granted else None

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        """What a capability that need not wait answers; ``LATER`` of the others, whose arguments are checked already.

        Raises :class:`CapabilityError`.
        """
        asked = self._asked(capability)
        now = asked.capability.now
        try:
            checked = asked.capability.check.made(arguments, capability=capability)
            if now is None:
                self._checked = arguments, checked
                return LATER
            return self._plain(now(checked, self._told(capability, asked, remaining_ms)))
        except (Exception, SystemExit) as error:
            self._report(capability, error, in_loop=False)
            raise

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        """The same for every capability. Raises :class:`CapabilityError`, and whatever the capability raises."""
        asked = self._asked(capability)
        before, self._checked = self._checked, None
        if before is not None and before[0] is arguments:
            checked = before[1]
        else:
            checked = asked.capability.check.made(arguments, capability=capability)
        context = self._told(capability, asked, remaining_ms)
        try:
            if asked.capability.later is None:
                assert asked.capability.now is not None, "one of the two answers"
                return self._plain(asked.capability.now(checked, context))
            with on_behalf_of(self._artifact):
                return await self._plain_later(await asked.capability.later(checked, context))
        except (Exception, SystemExit) as error:
            self._report(capability, error, in_loop=True)
            raise

    def finish(self, log: CallLog) -> CallLog:
        """``log``, the guest's own, with the lines of the capabilities after it: within ``log_bytes`` all together."""
        if self._lines is None:
            return log
        room = self._limits.log_bytes - sum(len(line.text) for line in log.lines)
        added = self._lines.finish()
        kept, dropped = [], log.dropped_bytes + added.dropped_bytes
        for line in added.lines:
            room -= len(line.text)
            if room >= 0:
                kept.append(line)
            else:
                dropped += len(line.text)
        return CallLog(lines=(*log.lines, *kept), dropped_bytes=dropped)

    def _asked(self, capability: str) -> Granted:
        asked = self._granted.get(capability)
        if asked is None:
            raise CapabilityError.not_granted(capability)
        return asked

    def _told(self, capability: str, asked: Granted, remaining_ms: float) -> CapabilityContext:
        context = self._context
        return CapabilityContext(
            capability=capability,
            tool=self._tool,
            artifact=self._artifact,
            generation=self._generation,
            call=context.call,
            session_id=context.session_id,
            request_id=context.request_id,
            bounds=asked.bounds,
            remaining_ms=remaining_ms,
            context=context,
            used=self._used,
            log=self._log,
            siblings=self._siblings,
        )

    def _report(self, capability: str, error: BaseException, *, in_loop: bool) -> None:
        if isinstance(error, CapabilityError) and not error.fault:
            return
        self._failures += 1
        if self._failures > _FAILURES_TOLD:
            return
        told = exception_text(error)
        if error.__cause__ is not None:
            told += f", because of {exception_text(error.__cause__)}"
        # Guests' text may be in any exception, so its lines are made here, and not by whoever formats the record.
        trace = "".join(f"\n  in {line}" for line in exception_trace(error, lines=_TRACE_LINES))
        _log.error("the capability %s failed in a call of %s: %s%s", capability, self._tool, told, trace)
        if self._failed is not None:
            context = self._context
            event = CapabilityFailed(
                call=context.call, tool=self._tool, capability=capability, error=told, session_id=context.session_id
            )
            self._failed(event, in_loop)

    def _log(self, level: int, text: str) -> None:
        if self._lines is None:
            self._lines = LogBuffer(self._limits.log_bytes)
        # A line of what is longer than all may be is not made bytes first.
        shown = text[: self._lines.room + 1]
        self._lines.line(level, shown.encode("utf-8", "replace"), dropped=len(text) - len(shown))

    async def _plain_later(self, answer: Any) -> Any:
        limits = self._limits
        try:
            return plain.plain(answer, max_depth=limits.depth, max_items=min(limits.items, ITEMS_AT_ONCE), named=False)
        except PlainError:
            return await charged_in_thread(self._context.meter, self._plain, answer)

    def _plain(self, answer: Any) -> Any:
        try:
            return plain.plain(answer, max_depth=self._limits.depth, max_items=self._limits.items, named=False)
        except TooLarge as error:
            raise CapabilityError("quota", f"the reply is more than a guest can be given: {error}") from None
        except PlainError as error:
            raise RuntimeError("the capability answered what cannot be made plain") from error
