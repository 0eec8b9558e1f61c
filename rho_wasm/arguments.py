"""The arguments of one call: plain, bounded, valid against the tool's schema, and copied."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio.to_thread

from rho_wasm.errors import NotPlain, PlainError, ToolError
from rho_wasm.frozen import FrozenMap, thaw
from rho_wasm.limits import Limits
from rho_wasm.plain import Copied, copied
from rho_wasm.schema import ArgumentSchema
from rho_wasm.untrusted import inert, type_name

__all__ = ["check_in_thread", "copied_arguments"]

_BOUNDS = Limits()
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
        raise ToolError("invalid_arguments", tool=tool, detail=inert(str(error))) from None
    problems = schema.problems_at_once(copy.value, size=(copy.items, copy.chars))
    if problems:
        raise _invalid(problems, tool)
    return copy, problems is not None


async def check_in_thread(copy: Copied, schema: ArgumentSchema, *, tool: str) -> None:
    """Raises :class:`ToolError` (``invalid_arguments``) where a copy is not valid against ``schema``."""
    size = (copy.items, copy.chars)
    problems = await anyio.to_thread.run_sync(partial(schema.problems, copy.value, size=size))
    if problems:
        raise _invalid(problems, tool)


def _invalid(problems: tuple[str, ...], tool: str) -> ToolError:
    return ToolError("invalid_arguments", tool=tool, detail="; ".join(problems))
