"""``progress.report {"done", "total"?, "text"?}``: how far the call is, for whoever watches. Answers null.

``done`` and ``total`` are finite numbers that are not negative; a total of 0 or null is not known. Each report becomes
an event :class:`rho_wasm.ToolProgress`, told on the event loop, so that a guest which reports in a loop must not keep
it busy: a call has 20 events at once and 10 more each second. A report beyond that is not told, since a later one says
more; that all is done (``done`` reached ``total``) is told once in any case.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext
from rho_wasm.events import OnEvent, ToolProgress, emit
from rho_wasm.grants import NoEffect
from rho_wasm.untrusted import inert

__all__ = ["progress_capabilities"]

_AT_ONCE, _EVERY_NS = 20, 100_000_000
_TEXT_CHARS = 500

_SPENT = "progress.report"
"""Nanoseconds of the monotonic clock until which the events told so far would last at the steady rate."""
_ALL_DONE = "progress.report.done"

_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Report(Arguments):
    done: _Number
    total: _Number | None = None
    text: str = ""


def progress_capabilities(
    on_event: OnEvent | None, *, monotonic_ns: Callable[[], int] = time.monotonic_ns
) -> tuple[Capability, ...]:
    """``progress.report``, told to ``on_event`` in the event loop's thread, before the guest goes on."""

    async def report(arguments: _Report, context: CapabilityContext) -> None:
        done, total = arguments.done, arguments.total or None
        if on_event is None:
            return
        if not _may_tell(context.used, monotonic_ns(), all_done=total is not None and done >= total):
            return
        event = ToolProgress(
            call=context.call,
            tool=context.tool,
            done=done,
            total=total,
            text=inert(arguments.text, limit=_TEXT_CHARS),
            session_id=context.session_id,
        )
        emit(on_event, event)

    return (Capability(name="progress.report", arguments=_Report, bounds=NoEffect, later=report),)


def _may_tell(used: dict[str, int], now: int, *, all_done: bool) -> bool:
    """Whether there is an event left for it, which is then spent."""
    spent = max(now, used.get(_SPENT, 0)) + _EVERY_NS
    first_end = all_done and not used.get(_ALL_DONE)
    if not first_end and spent - now > _AT_ONCE * _EVERY_NS:
        return False
    used[_SPENT] = spent
    if all_done:
        used[_ALL_DONE] = 1
    return True
