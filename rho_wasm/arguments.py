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

__all__ = ["checked_arguments"]

_BOUNDS = Limits()


async def checked_arguments(arguments: Any, schema: ArgumentSchema, *, tool: str, in_order: bool = False) -> Copied:
    """A private copy of ``arguments``: what the handler does to it changes nothing else.

    ``in_order``: as :func:`rho_wasm.plain.copied` has it.

    Where the check takes longer than the event loop may wait, a thread makes it.

    Raises :class:`ToolError` (``invalid_arguments``) unless they are a map of plain data within ``request_bytes``,
    ``depth`` and ``items`` of :class:`Limits` that is valid against ``schema``; its detail says what is wanted.
    """
    if type(arguments) is FrozenMap:
        arguments = thaw(arguments)
    try:
        if type(arguments) is not dict:
            raise NotPlain("$", type_name(arguments), "arguments are a map with text keys")
        copy = copied(
            arguments,
            max_bytes=_BOUNDS.request_bytes,
            max_depth=_BOUNDS.depth,
            max_items=_BOUNDS.items,
            in_order=in_order,
        )
    except PlainError as error:
        raise ToolError("invalid_arguments", tool=tool, detail=inert(str(error))) from None
    size = (copy.items, copy.chars)
    problems = schema.problems_at_once(copy.value, size=size)
    if problems is None:
        problems = await anyio.to_thread.run_sync(partial(schema.problems, copy.value, size=size))
    if problems:
        raise ToolError("invalid_arguments", tool=tool, detail="; ".join(problems))
    return copy
