"""What a handler may answer, and what a caller gets back."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = [
    "KINDS",
    "NOTHING_LOGGED",
    "AskUser",
    "CallLog",
    "Failed",
    "Halt",
    "HandlerResult",
    "Image",
    "Kind",
    "LogLine",
    "Ok",
    "Status",
    "ToolResult",
]

Status: TypeAlias = Literal["ok", "error", "ask_user", "halt"]
Kind: TypeAlias = Literal["ok", "failed", "refused", "crashed", "host"]

KINDS: Mapping[str, Kind] = {
    "failed": "failed",
    # Nothing ran.
    "not_found": "refused",
    "invalid_arguments": "refused",
    "blocked": "refused",
    "gate_failed": "refused",
    "quarantined": "refused",
    # The tool's fault. For a dynamic tool each is a strike.
    "handler_raised": "crashed",
    "handler_exit": "crashed",
    "invalid_return": "crashed",
    "deadline": "crashed",
    "killed": "crashed",
    "trapped": "crashed",
    "out_of_fuel": "crashed",
    "out_of_memory": "crashed",
    "bad_answer": "crashed",
    "too_many_host_calls": "crashed",
    # Nobody's, or the host's.
    "cancelled": "host",
    "overloaded": "host",
    "capability_fault": "host",
}
"""The kind of every reason. Strikes and ``on_tool_error`` look at ``crashed`` alone."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model: png, jpeg, webp or gif, told by its first bytes; ``mime_type`` must agree."""

    mime_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Ok:
    """The handler's answer. ``images`` go to the model beside the text, ``details`` to the host's screens only."""

    value: Any
    images: tuple[Image, ...] = ()
    details: Any = None


class Failed(Exception):
    """The handler *reports* a failure, which the model reads as it is. It did not crash: no strike, no retry.

    ``raise Failed(reason)`` equals returning it. ``reason`` and ``details`` are values as in :class:`Ok`.
    """

    reason: Any
    details: Any

    def __init__(self, reason: Any, *, details: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = details

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.reason == other.reason and self.details == other.details)

    __hash__ = Exception.__hash__

    def __repr__(self) -> str:
        return f"Failed({self.reason!r}" + (f", details={self.details!r})" if self.details is not None else ")")


@dataclass(frozen=True, slots=True)
class AskUser:
    """The loop stops and asks a person. The answer becomes this call's result; the tool is not called again."""

    question: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Halt:
    """The loop ends here, with ``reason`` for the caller and ``value`` as the outcome."""

    reason: str
    value: Any = None


HandlerResult: TypeAlias = Ok | Failed | AskUser | Halt


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a call's log: a level as in :mod:`logging` (10, 20, 30, 40) and inert text."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class CallLog:
    """What a call logged, bounded by ``Limits.log_bytes``; ``dropped_bytes`` counts what did not fit."""

    lines: tuple[LogLine, ...] = ()
    dropped_bytes: int = 0

    def __iter__(self) -> Iterator[LogLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "lines": [{"level": line.level, "text": line.text} for line in self.lines],
            "dropped_bytes": self.dropped_bytes,
        }


NOTHING_LOGGED = CallLog()


@dataclass(frozen=True, init=False, kw_only=True)
class ToolResult:
    """The end of one call, whatever happened.

    ``status`` says what a loop does next, ``kind`` whose doing it was, ``reason`` the machine word (None for ok,
    ask_user and halt). ``text`` is what the model reads, ``value`` what the handler answered (the reason of a
    ``Failed``, the value of a ``Halt``), ``options`` those of an ``AskUser``. ``fuel_used`` is None for host
    tools, and where a guest was stopped at its deadline: then nobody knows. ``duration_ms`` counts from the moment that
    the gate allowed the call. ``backtrace`` names a guest's functions where it crashed, innermost first (of what was
    raised in Python last). ``output_id`` is set where the text was cut and kept whole.
    """

    call_id: str
    tool: str
    status: Status
    kind: Kind
    reason: str | None = None
    value: Any = None
    options: Mapping[str, Any] | None = None
    text: str = ""
    images: tuple[Image, ...] = ()
    details: Any = None
    fuel_used: int | None = None
    duration_ms: float = 0.0
    generation: int | None = None
    log: CallLog = NOTHING_LOGGED
    backtrace: tuple[str, ...] = ()
    output_id: str | None = None
    halt_reason: str | None = None

    # Every call makes one: all fields at once, where a frozen dataclass would set them one by one.
    def __init__(
        self,
        *,
        call_id: str,
        tool: str,
        status: Status,
        kind: Kind,
        reason: str | None = None,
        value: Any = None,
        options: Mapping[str, Any] | None = None,
        text: str = "",
        images: tuple[Image, ...] = (),
        details: Any = None,
        fuel_used: int | None = None,
        duration_ms: float = 0.0,
        generation: int | None = None,
        log: CallLog = NOTHING_LOGGED,
        backtrace: tuple[str, ...] = (),
        output_id: str | None = None,
        halt_reason: str | None = None,
    ) -> None:
        self.__dict__.update(
            call_id=call_id,
            tool=tool,
            status=status,
            kind=kind,
            reason=reason,
            value=value,
            options=options,
            text=text,
            images=images,
            details=details,
            fuel_used=fuel_used,
            duration_ms=duration_ms,
            generation=generation,
            log=log,
            backtrace=backtrace,
            output_id=output_id,
            halt_reason=halt_reason,
        )

    @property
    def ok(self) -> bool:
        """True unless the call failed, crashed or was refused."""
        return self.status != "error"

    def as_json(self) -> dict[str, Any]:
        """The object that ``call --json`` prints. Bytes inside become base64url, NaN and infinities null."""
        from rho_wasm.plain import jsonable

        images = [
            {"mime_type": image.mime_type, "data": base64.urlsafe_b64encode(image.data).decode().rstrip("=")}
            for image in self.images
        ]
        return {
            "status": self.status,
            "kind": self.kind,
            "reason": self.reason,
            "text": self.text,
            "value": jsonable(self.value),
            "options": jsonable(self.options),
            "details": jsonable(self.details),
            "images": images,
            "fuel_used": self.fuel_used,
            "duration_ms": round(self.duration_ms, 3),
            "generation": self.generation,
            "log": self.log.as_json(),
            "backtrace": list(self.backtrace),
            "output_id": self.output_id,
            "halt_reason": self.halt_reason,
        }
