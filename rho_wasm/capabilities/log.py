"""``log.write {"message", "level"?, "fields"?}``: one line with fields that a program can read. Answers null.

``level`` is 10, 20, 30, 40 or debug, info, warning, error; default info. ``fields`` are plain data by name: 32 at most,
8 KiB and 256 items together. It is one capability and not one a level, so that one word in a policy grants it.

The call's log gets one line, ``message name=value ...``: a text of more than one word is in quotes, other values are
JSON. Nothing in it can begin a line of its own or reach a terminal as anything but text. The event
:class:`rho_wasm.ToolLogged` has the fields themselves; a call's events carry 64 KiB of them at most, and what it logs
beyond is in its log alone, as far as that has room.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from rho_wasm import plain
from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext
from rho_wasm.errors import CapabilityError, NotPlain, TooLarge
from rho_wasm.events import OnEvent, ToolLogged, emit
from rho_wasm.grants import NoEffect
from rho_wasm.untrusted import inert, inert_plain

__all__ = ["log_capabilities"]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_MESSAGE_CHARS, _NAME_CHARS, _VALUE_CHARS, _LINE_CHARS = 2_000, 64, 500, 4_000
_FIELD_COUNT, _FIELD_BYTES, _FIELD_DEPTH, _FIELD_ITEMS = 32, 8_192, 8, 256
_EVENT_BYTES = 64 * 1024

_BARE = re.compile(r"(?!(?:null|true|false)$)[^\W\d][\w.:/@+-]*")
"""A text that stands without quotes: one word, which reads as nothing but a text."""


class _Line(Arguments):
    message: str
    level: Literal[10, 20, 30, 40, "debug", "info", "warning", "error"] = 20
    fields: Annotated[dict[str, Any], Field(default_factory=dict, max_length=_FIELD_COUNT)]


def log_capabilities(on_event: OnEvent | None) -> tuple[Capability, ...]:
    """``log.write``, told to ``on_event`` in the event loop's thread, before the guest goes on."""

    def write(arguments: _Line, context: CapabilityContext) -> None:
        level = arguments.level if isinstance(arguments.level, int) else _LEVELS[arguments.level]
        size = _size(arguments.fields)
        fields: dict[str, Any] = inert_plain(arguments.fields, items=_FIELD_ITEMS, chars=_FIELD_BYTES)
        message = inert(arguments.message, limit=_MESSAGE_CHARS)
        context.log(level, _line(message, fields))
        told = context.used.get(context.capability, 0) + len(message) + size
        if on_event is None or told > _EVENT_BYTES:
            return
        context.used[context.capability] = told
        event = ToolLogged(
            call=context.call,
            tool=context.tool,
            level=level,
            message=message,
            fields=fields,
            session_id=context.session_id,
        )
        emit(on_event, event)

    async def write_and_tell(arguments: _Line, context: CapabilityContext) -> None:
        write(arguments, context)

    if on_event is None:
        return (Capability(name="log.write", arguments=_Line, bounds=NoEffect, now=write),)
    return (Capability(name="log.write", arguments=_Line, bounds=NoEffect, later=write_and_tell),)


def _size(fields: dict[str, Any]) -> int:
    try:
        return len(plain.encode(fields, max_bytes=_FIELD_BYTES, max_depth=_FIELD_DEPTH, max_items=_FIELD_ITEMS))
    except TooLarge as error:
        raise CapabilityError("invalid_arguments", f"fields: over {error.limit} {error.what}") from None
    except NotPlain:
        raise CapabilityError("invalid_arguments", "fields are plain data") from None


def _line(message: str, fields: dict[str, Any]) -> str:
    pairs = [f"{_shown(name, _NAME_CHARS)}={_shown(value, _VALUE_CHARS)}" for name, value in fields.items()]
    return inert(" ".join([message, *pairs]), limit=_LINE_CHARS)


def _shown(value: Any, limit: int) -> str:
    if type(value) is str and _BARE.fullmatch(value):
        return inert(value, limit=limit)
    text, _ = plain.json_text(value)
    return inert(text, limit=limit)
