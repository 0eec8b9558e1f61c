"""The arguments of one call: plain, bounded, valid against the tool's schema, and copied; mended where that is safe."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread

from rho_wasm.arguments_error import arguments_error
from rho_wasm.counting import ITEMS_AT_ONCE, items_of
from rho_wasm.errors import NotPlain, PlainError, ToolError
from rho_wasm.frozen import FrozenMap, thaw
from rho_wasm.json_arguments import Unreadable, read_object
from rho_wasm.limits import Limits
from rho_wasm.long_work import LONG_ITEMS, in_turn_in_thread
from rho_wasm.plain import Copied, copied
from rho_wasm.repair import TooMuch, repaired
from rho_wasm.schema import ArgumentSchema
from rho_wasm.tools import Tool
from rho_wasm.untrusted import type_name

__all__ = ["Mended", "check_in_thread", "copied_arguments", "guests_copy", "mended_arguments"]

_BOUNDS = Limits()
_AT_ONCE_CHARS = 64 * 1024
"""Of a text that is read on the event loop, in some milliseconds; a longer one is read in a thread."""
_AT_ONCE_LOOKS = 300
"""At arguments that are repaired on the event loop, in about a millisecond; those that take more wait for a thread."""
_BYTES, _DEPTH, _ITEMS = _BOUNDS.request_bytes, _BOUNDS.depth, _BOUNDS.items


def copied_arguments(
    arguments: Any, schema: ArgumentSchema, *, tool: str, in_order: bool = False
) -> tuple[Copied, bool]:
    """A private copy of ``arguments``: what the handler does to it changes nothing else. And whether it was checked.

    ``in_order``: as :func:`rho_wasm.plain.copied` has it.

    Where the check takes longer than the event loop may wait, it was not: then :func:`check_in_thread` does it.

    Raises :class:`ToolError` (``invalid_arguments``) unless they are a map of plain data within ``request_bytes``,
    ``depth`` and ``items`` of :class:`Limits` that is valid against ``schema``; its detail says what is wanted.
    """
    if type(arguments) is FrozenMap:
        arguments = thaw(arguments)
    try:
        if type(arguments) is not dict:
            raise NotPlain("$", type_name(arguments), "arguments are a map with text keys")
        copy = copied(arguments, max_bytes=_BYTES, max_depth=_DEPTH, max_items=_ITEMS, in_order=in_order)
    except PlainError as error:
        raise arguments_error(error, tool=tool) from None
    problems = schema.problems_at_once(copy.value, size=(copy.items, copy.chars))
    if problems:
        raise _invalid(problems, tool)
    return copy, problems is not None


async def guests_copy(
    arguments: Any, schema: ArgumentSchema, *, tool: str, in_order: bool = False
) -> tuple[Copied, bool]:
    """As :func:`copied_arguments`, of what a guest gave: in a thread where it is long, since guests ask again."""
    copy = partial(copied_arguments, arguments, schema, tool=tool, in_order=in_order)
    items = items_of(arguments, most=LONG_ITEMS)
    if items <= ITEMS_AT_ONCE:
        return copy()
    return await in_turn_in_thread(copy, long=items > LONG_ITEMS)


async def check_in_thread(copy: Copied, schema: ArgumentSchema, *, tool: str) -> None:
    """Raises :class:`ToolError` (``invalid_arguments``) where a copy is not valid against ``schema``."""
    size = (copy.items, copy.chars)
    problems = await anyio.to_thread.run_sync(partial(schema.problems, copy.value, size=size))
    if problems:
        raise _invalid(problems, tool)


@dataclass(frozen=True, slots=True)
class Mended:
    """Arguments that were put right. ``given`` stands in the call from now on, ``copy`` is the handler's own."""

    given: dict[str, Any]
    copy: Copied
    notes: tuple[str, ...]
    """What the model is told: one line for each thing that was not as it should be. Empty for a text that was JSON."""
    repaired: dict[str, Any] | None = None
    """What the schema refused, which another schema may take as it is; None where nothing but text was read."""


async def mended_arguments(
    arguments: Any, tool: Tool, schema: ArgumentSchema, refused: ToolError, *, in_order: bool = False
) -> Mended:
    """What ``arguments`` can only have been meant to be, checked like any others. Called once they were ``refused``.

    Text and None are read as :func:`rho_wasm.json_arguments.read_object` does, maps repaired as
    :func:`rho_wasm.repair.repaired` does. Raises :class:`ToolError` (``invalid_arguments``) that says what is wrong
    with what was given: not with what might have been made of it.
    """
    read: tuple[str, ...] = ()
    given = thaw(arguments) if type(arguments) is FrozenMap else arguments
    try:
        if given is None or type(given) is str:
            try:
                if given is None or len(given) <= _AT_ONCE_CHARS:
                    given, read = read_object(given)
                else:
                    given, read = await anyio.to_thread.run_sync(read_object, given)
                return Mended(given, await _checked(given, schema, tool=tool.name, in_order=in_order), read)
            except Unreadable as error:
                raise ToolError("invalid_arguments", tool=tool.name, detail=f"arguments: {error}") from None
            except ToolError as error:
                refused = error
        if type(given) is not dict or (own := _own(given)) is None:
            raise refused
        found = await _repaired(own, tool)
        if found is None:
            raise refused
        mended, notes = found
        try:
            copy = await _checked(mended, schema, tool=tool.name, in_order=in_order)
            return Mended(mended, copy, (*read, *notes), repaired=own)
        except ToolError:
            raise refused from None
    finally:
        del refused  # Its traceback holds this frame: together they would wait for a garbage collection.


async def _checked(given: dict[str, Any], schema: ArgumentSchema, *, tool: str, in_order: bool) -> Copied:
    copy, checked = copied_arguments(given, schema, tool=tool, in_order=in_order)
    if not checked:
        await check_in_thread(copy, schema, tool=tool)
    return copy


async def _repaired(own: dict[str, Any], tool: Tool) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    mend = partial(repaired, own, tool.input_schema, reads_only=tool.read_only is True)
    try:
        return mend(looks=_AT_ONCE_LOOKS)
    except TooMuch:
        pass
    try:
        return await anyio.to_thread.run_sync(mend)
    except TooMuch:
        return None


def _own(given: dict[str, Any]) -> dict[str, Any] | None:
    """A copy that a thread may read, in the order that was given; None of what is not plain."""
    try:
        copy: dict[str, Any] = copied(given, max_bytes=_BYTES, max_depth=_DEPTH, max_items=_ITEMS, in_order=True).value
    except PlainError:
        return None
    return copy


def _invalid(problems: tuple[str, ...], tool: str) -> ToolError:
    return ToolError("invalid_arguments", tool=tool, detail="; ".join(problems))
