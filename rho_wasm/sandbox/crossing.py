"""Requests and answers between values and bytes: small ones on the event loop's thread, the others in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rho_wasm import envelope, plain
from rho_wasm.arguments_error import arguments_error
from rho_wasm.counting import ITEMS_AT_ONCE
from rho_wasm.errors import PlainError, ToolError
from rho_wasm.limits import Limits
from rho_wasm.results import HandlerResult
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.untrusted import inert, type_name

__all__ = ["BYTES_AT_ONCE", "as_tool_error", "blamed", "encode", "encode_at_once", "read_at_once"]

BYTES_AT_ONCE = 64 * 1024
"""Of plain data that is encoded or decoded on the event loop's thread."""
_FRAME_ITEMS = 15
"""Of a request at most, beside its arguments: itself, four keys with three values, and three ids with their keys."""
_TEXT = frozenset({str})
_DETAIL_CHARS = 2_000
_FOR_WANT_OF = frozenset({"trapped", "handler_raised", "handler_exit"})
"""How a guest may end that was not given what it asked for."""


def encode_at_once(request: Mapping[str, Any], *, limits: Limits, copied: plain.Copied | None = None) -> bytes | None:
    """A small request's bytes. None for any other, and for one that is wrong: :func:`encode` says what was wrong.

    ``request`` is what :func:`rho_wasm.envelope.request` made. Of most only the arguments have to be looked through,
    and not even those where they are the value that was ``copied``.
    """
    max_bytes, max_items = limits.request_bytes, limits.items
    if max_bytes > BYTES_AT_ONCE:
        max_bytes = BYTES_AT_ONCE
    if max_items > ITEMS_AT_ONCE:
        max_items = ITEMS_AT_ONCE
    # All of a request but its arguments nearly always is text.
    exact = _TEXT.issuperset(map(type, (request["tool"], *request["context"].values())))
    try:
        if copied is not None and copied.in_order and copied.depth < limits.depth and exact:
            if copied.items > max_items - _FRAME_ITEMS or copied.chars > max_bytes:
                return None
            data = plain.encode_framed(request, copied)
            return data if len(data) <= max_bytes else None
        if not exact:
            return plain.encode(request, max_bytes=max_bytes, max_depth=limits.depth, max_items=max_items)
        return plain.encode_within(
            request,
            "arguments",
            request["arguments"],
            max_bytes=max_bytes,
            max_depth=limits.depth - 1,
            max_items=max_items - _FRAME_ITEMS,
        )
    except PlainError:
        return None


def encode(request: Mapping[str, Any], *, limits: Limits) -> bytes:
    """A request's bytes within the bounds that it really has. Raises :class:`PlainError`."""
    return plain.encode(request, max_bytes=limits.request_bytes, max_depth=limits.depth, max_items=limits.items)


def read_at_once(answer: bytes, *, limits: Limits) -> HandlerResult | None:
    """The result of a small answer. None for any other, and for bytes that are wrong: ``parse_answer`` says how.

    Raises :class:`rho_wasm.envelope.BadAnswer` and :class:`rho_wasm.envelope.Raised`.
    """
    if len(answer) > BYTES_AT_ONCE:
        return None
    max_items = limits.items
    if max_items > ITEMS_AT_ONCE:
        max_items = ITEMS_AT_ONCE
    try:
        value = plain.decode(answer, max_bytes=limits.answer_bytes, max_depth=limits.depth, max_items=max_items)
    except PlainError:
        return None
    return envelope.read_answer(value, limits=limits)


def as_tool_error(error: Exception, *, tool: str, memory_refused: bool) -> ToolError:
    """What a call becomes that ended in ``error``. ``memory_refused``: ``memory.grow`` answered -1 in it."""
    if isinstance(error, CallFailed):
        return ToolError(
            error.reason,
            tool=tool,
            detail=error.detail,
            limit=error.limit,
            value=error.value,
            backtrace=error.trace,
        )
    if isinstance(error, envelope.Raised):
        reason = "out_of_memory" if memory_refused else "handler_raised"
        return ToolError(reason, tool=tool, detail=str(error), backtrace=error.trace)
    if isinstance(error, envelope.BadAnswer):
        return ToolError("bad_answer", tool=tool, detail=error.detail, limit=error.limit, value=error.value)
    if isinstance(error, PlainError):
        return arguments_error(error, tool=tool)
    # A capability of the host's, or a bug of ours.
    detail = f"a host function raised {type_name(error)}"
    return ToolError("capability_fault", tool=tool, detail=detail, cause=error)


def blamed(error: ToolError, unavailable: tuple[str, Exception] | None) -> ToolError:
    """``error``, or ``capability_fault`` where a capability was not available and the guest ended for want of it."""
    if unavailable is None or error.reason not in _FOR_WANT_OF:
        return error
    capability, cause = unavailable
    detail = f"{capability} was not available, then it ended with {error.reason}: {error.detail}"
    return ToolError(
        "capability_fault",
        tool=error.tool,
        detail=inert(detail, limit=_DETAIL_CHARS),
        backtrace=error.backtrace,
        cause=cause,
    )
