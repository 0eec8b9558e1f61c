"""The :class:`ToolResult` of a call: made of the handler's answer, or of the error that stood in its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from rho_wasm.builtin.outputs import Outputs
from rho_wasm.calls import ToolContext
from rho_wasm.errors import PlainError, ToolError
from rho_wasm.rendering import cut_text, error_text, printed_name, value_text
from rho_wasm.results import (
    KINDS,
    AskUser,
    CallLog,
    Failed,
    Halt,
    HandlerResult,
    Image,
    Kind,
    LogLine,
    Ok,
    Status,
    ToolResult,
)
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert, type_name

__all__ = ["Advise", "answered", "not_answered", "with_notes"]


class Advise(Protocol):
    """Who says more to a model of a call that failed. On the event loop, so at once; raises nothing."""

    def __call__(self, result: ToolResult, context: ToolContext) -> ToolResult:
        """``result``, which is an error, with what is added to its text."""

    def absent(self, name: str) -> str | None:
        """Why there is no tool of that name any more; None for what never was."""


_WARNING = 30


def answered(
    answer: HandlerResult,
    tool: Tool,
    context: ToolContext,
    *,
    generation: int | None,
    duration_ms: float,
    max_chars: int,
    outputs: Outputs,
) -> ToolResult:
    """The result of a call that its handler answered.

    Raises :class:`ToolError` (``invalid_return``) for a value that no text can be made of.
    """
    status: Status = "ok"
    kind: Kind = "ok"
    reason = halt_reason = options = details = None
    images: tuple[Image, ...] = ()
    if isinstance(answer, Ok):
        value, images, details = answer.value, tuple(answer.images), answer.details
    elif isinstance(answer, Failed):
        status, kind, reason = "error", "failed", "failed"
        value, details = answer.reason, answer.details
    elif isinstance(answer, AskUser):
        status, value, options = "ask_user", answer.question, answer.options
    elif isinstance(answer, Halt):
        status, value, halt_reason = "halt", answer.value, answer.reason
    else:
        raise ToolError("invalid_return", tool=tool.name, detail=f"the executor answered a {type_name(answer)}")
    try:
        text, notes = value_text(answer)
    except PlainError as error:
        raise ToolError("invalid_return", tool=tool.name, detail=inert(str(error))) from None
    text, output_id = cut_text(
        text, max_chars=max_chars, outputs=outputs, session_id=context.session_id, trusted=not tool.untrusted
    )
    meter = context.meter
    log = meter.log
    if notes:
        log = CallLog((*log.lines, *(LogLine(_WARNING, note) for note in notes)), log.dropped_bytes)
    return ToolResult(
        call_id=context.call.id,
        tool=tool.name,
        status=status,
        kind=kind,
        reason=reason,
        value=value,
        options=options,
        text=text,
        images=images,
        details=details,
        fuel_used=meter.fuel_used,
        duration_ms=duration_ms,
        generation=meter.generation if meter.generation is not None else generation,
        log=log,
        backtrace=meter.backtrace,
        output_id=output_id,
        halt_reason=halt_reason,
    )


def not_answered(
    error: ToolError, context: ToolContext, *, generation: int | None, duration_ms: float = 0.0
) -> ToolResult:
    """The result of a call that was refused, crashed, or met a fault of the host."""
    call, meter = context.call, context.meter
    known = error.reason in KINDS
    for number in (meter.generation, error.generation):
        if number is not None:
            generation = number
    return ToolResult(
        call_id=call.id,
        tool=printed_name(call),
        status="error",
        kind=KINDS[error.reason] if known else "crashed",
        reason=error.reason if known else "handler_raised",
        text=error_text(printed_name(call), error),
        fuel_used=meter.fuel_used,
        duration_ms=duration_ms,
        generation=generation,
        log=meter.log,
        backtrace=error.backtrace or meter.backtrace,
    )


def with_notes(result: ToolResult, notes: Iterable[str]) -> ToolResult:
    """``result`` with the host's last line, outside the tool's text: how the call's arguments were read.

    The log has the notes in any case. A question (a person reads it) and a halt's value stay as they are.
    """
    lines = [LogLine(_WARNING, note) for note in notes]
    log = CallLog((*result.log.lines, *lines), result.log.dropped_bytes)
    if result.status not in ("ok", "error"):
        return replace(result, log=log)
    said = "; ".join(line.text for line in lines)
    return replace(result, log=log, text=f"{result.text}\n\n[arguments repaired: {said}]")
