"""What subscribers are told: frozen dataclasses, through one callback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CoroutineType
from typing import Any, TypeAlias

from rho_wasm.calls import ToolCall
from rho_wasm.option_checks import check_function
from rho_wasm.results import ToolResult
from rho_wasm.signatures import is_async

__all__ = [
    "CapabilityFailed",
    "Event",
    "GenerationSwitched",
    "OnEvent",
    "SourceFailed",
    "StrikeCounted",
    "ToolFinished",
    "ToolLogged",
    "ToolProgress",
    "ToolQuarantined",
    "ToolRunning",
    "emit",
    "subscriber",
]

_log = logging.getLogger("rho_wasm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRunning:
    """The gate allowed ``call``; its clock starts now."""

    call: ToolCall
    tool: str
    generation: int | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """A running call said how far it is: ``done`` of ``total`` (None: unknown) and inert text."""

    call: ToolCall
    tool: str
    done: float
    total: float | None = None
    text: str = ""
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLogged:
    """A running call logged through ``log.write``: a level of 10, 20, 30 or 40, an inert message, and its fields.

    The same stands as one line in the call's log. ``fields`` are plain data whose keys and texts are inert.
    """

    call: ToolCall
    tool: str
    level: int
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """The end of ``call``, with all of ``result.details``, which the session keeps only as far as it was told to."""

    call: ToolCall
    tool: str
    result: ToolResult
    session_id: str | None = None

    @property
    def details(self) -> Any:
        return self.result.details


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSwitched:
    """Generation ``number`` is live in place of ``previous``. ``author`` is ``strikes`` for an automatic return."""

    number: int
    previous: int
    author: str
    note: str = ""
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StrikeCounted:
    """One fault of a version: the ``count``-th in the window, of ``limit`` that quarantine it."""

    tool: str
    artifact: str
    generation: int
    reason: str
    count: int
    limit: int
    session_id: str | None = None
    backtrace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolQuarantined:
    """A version reached its strikes and is no longer offered. ``replaced_by`` is the artifact offered now, if any."""

    tool: str
    artifact: str
    generation: int
    reasons: tuple[str, ...] = ()
    replaced_by: str | None = None
    backtrace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailed:
    """A source raised in ``operation`` (list, lookup, watch, done, refresh). It cost its own tools, no others."""

    source: str
    operation: str
    error: str
    tools: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFailed:
    """``capability`` failed in the host, in ``call``: the guest was told ``unavailable``, and nothing of ``error``.

    ``error`` is one inert line of what was raised. Told for the first 8 in a call, and logged. What the world does
    (a name that does not resolve, a server that is slow) is none.
    """

    call: ToolCall
    tool: str
    capability: str
    error: str
    session_id: str | None = None


Event: TypeAlias = (
    ToolRunning
    | ToolProgress
    | ToolLogged
    | ToolFinished
    | GenerationSwitched
    | StrikeCounted
    | ToolQuarantined
    | SourceFailed
    | CapabilityFailed
)
OnEvent: TypeAlias = Callable[[Event], Any]


def subscriber(on_event: OnEvent | None) -> OnEvent | None:
    """``on_event`` as it is. Raises TypeError for no function, and for an async one, which nobody would await."""
    if on_event is not None:
        check_function(on_event, "on_event is a function of an event")
    if is_async(on_event):
        raise TypeError(
            "on_event is called where nothing waits: give a function that is not async, such as a queue's put"
        )
    return on_event


def emit(on_event: OnEvent | None, event: Event) -> None:
    """Tells the subscriber. One that raises is logged and costs nothing else: no call fails because a screen did."""
    if on_event is None:
        return
    try:
        answer = on_event(event)
    except Exception as error:
        _log.error("on_event raised %s for %s", type(error).__name__, type(event).__name__)
    else:
        if type(answer) is CoroutineType:
            answer.close()
            _log.error("on_event answered a coroutine for %s, which nobody awaits", type(event).__name__)
