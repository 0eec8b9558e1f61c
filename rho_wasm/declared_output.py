"""An answer against the schema that its tool declares of its answers, where it declares one."""

from __future__ import annotations

from functools import partial

import anyio.to_thread

from rho_wasm.errors import PlainError, SchemaInvalid, ToolError
from rho_wasm.offered import KnownTool
from rho_wasm.plain import jsonable
from rho_wasm.results import Ok
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert

__all__ = ["check_declared_output"]


async def check_declared_output(answer: Ok, tool: Tool, known: KnownTool) -> None:
    """Raises :class:`ToolError` (``invalid_return``) where the answer's value is not what ``tool`` declares.

    The value is looked at as JSON has it, which is what clients are shown: bytes are text. Where the check takes longer
    than the event loop may wait, a thread makes it.
    """
    try:
        schema = known.output(tool)
        value = jsonable(answer.value)
    except (SchemaInvalid, PlainError) as error:
        raise ToolError("invalid_return", tool=tool.name, detail=inert(str(error))) from None
    problems = schema.problems_at_once(value)
    if problems is None:
        problems = await anyio.to_thread.run_sync(partial(schema.problems, value))
    if problems:
        detail = f"it does not fit the tool's own output_schema: {'; '.join(problems)}"
        raise ToolError("invalid_return", tool=tool.name, detail=detail)
