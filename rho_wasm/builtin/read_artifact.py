"""``read_artifact``: pages a text that was too long for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rho_wasm.calls import ToolContext
from rho_wasm.rendering import beginning
from rho_wasm.results import Failed, Ok
from rho_wasm.tools import Tool

__all__ = ["PAGE_CHARS", "read_artifact"]

PAGE_CHARS = 10_000
"""Characters of one page, so that a page and its notice stay below ``max_result_chars``."""


def read_artifact(*, page_chars: int = PAGE_CHARS) -> Tool:
    """The tool. ``page_chars`` bounds one page and should be well below the runner's ``max_result_chars``.

    Only outputs of the call's own session can be read: another's id is as unknown as one that never was.
    """

    def read(arguments: Mapping[str, Any], context: ToolContext) -> Ok | Failed:
        # JSON Schema counts 5.0 among the integers.
        output_id, offset = arguments["id"], int(arguments.get("offset", 0))
        text = context.registry.outputs.read(output_id, session_id=context.session_id)
        if text is None:
            return Failed(
                f"there is no output {output_id} here: it is not this session's, or was let go; run its tool again"
            )
        if offset >= len(text):
            return Failed(f"the output ends at character {len(text)}: ask for an offset below that")
        # Whose text it was is not kept, so it is taken for an agent's.
        limit = min(int(arguments.get("limit", page_chars)), page_chars)
        count, page = beginning(text[offset : offset + limit + 1], limit, trusted=False)
        end = offset + count
        rest = f'read on with {{"id": "{output_id}", "offset": {end}}}' if end < len(text) else "this is the end"
        return Ok(f"{page}\n\n[characters {offset} to {end} of {len(text)}; {rest}]")

    return Tool(
        name="read_artifact",
        description=(
            "Reads on in a tool's text that was too long to be shown whole and was kept as out_... Answers one page, "
            "which ends with the offset of the next."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "id": {"type": "string", "pattern": "^out_[0-9a-f]{32}$", "description": "The id in the notice."},
                "offset": {"type": "integer", "minimum": 0, "description": "First character; 0 is the beginning."},
                "limit": {"type": "integer", "minimum": 1, "maximum": page_chars, "description": "Characters at most."},
            },
            "required": ["id"],
            "additionalProperties": False,
        },
        read_only=True,
        idempotent=True,
        handler=read,
    )
