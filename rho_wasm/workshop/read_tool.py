"""``read_tool``: the source of a tool that was written, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.to_thread

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.generation import Generation
from rho_wasm.errors import RhoError
from rho_wasm.plain import json_text
from rho_wasm.rendering import model_text
from rho_wasm.results import Failed, Ok
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert
from rho_wasm.workshop import schemas
from rho_wasm.workshop.bench import Bench
from rho_wasm.workshop.telling import refusal, shown
from rho_wasm.workshop.test_tool import chosen

__all__ = ["read_tool"]


def read_tool(bench: Bench) -> Tool:
    """The tool. Only of tools of generations: the host's own have no source that is a model's business."""

    async def read(arguments: Mapping[str, Any], context: ToolContext) -> Ok | Failed:
        name = arguments["name"]
        try:
            generation = await chosen(bench, name, arguments.get("candidate"), context)
            artifact = await bench.artifact(generation, name)
            authors = await anyio.to_thread.run_sync(_authors, bench, generation, name)
        except RhoError as error:
            return refusal(error, f"{inert(name, limit=100)} was not read")
        states = {"candidate": "candidate", "live": "live in generation"}
        state = states.get(generation.state, "withdrawn, was in generation")
        own = all(bench.authors.own(author, context.session_id) for author in authors)
        declaration = artifact.manifest.tool(name)
        told = {
            "tool": name,
            "language": inert(artifact.language or artifact.manifest.language or "not known", limit=64),
            "state": f"{state} {generation.number}",
            "artifact": artifact.sha256,
            "provenance": artifact.provenance,
            "authors": [inert(author, limit=128) for author in authors],
            "may_change": own,
            "capabilities": [inert(each, limit=128) for each in artifact.manifest.capabilities],
            "declares": None if declaration is None else shown(declaration.as_plain()),
        }
        head, _ = json_text(told)
        if artifact.source is None:
            return Ok(f"{head}\n\nIts source is not kept here.", details=told)
        lines = artifact.source.count("\n") + 1
        # The rule is the host's, and stands before what somebody else wrote.
        source = model_text(artifact.source, trusted=False)
        return Ok(f"{head}\n\nIts source, {lines} lines, as its author wrote it:\n{source}", details=told)

    return Tool(
        name="read_tool",
        description=(
            "Shows the source of a tool that was written here, what it declares, its author and its generation. "
            "Without candidate: your latest candidate with that tool, else the live one."
        ),
        input_schema=schemas.arguments({"name": schemas.TOOL_NAME, "candidate": schemas.CANDIDATE}, "name"),
        read_only=True,
        idempotent=True,
        handler=read,
    )


def _authors(bench: Bench, generation: Generation, name: str) -> list[str]:
    """Who brought that version."""
    return sorted(bench.store.authorship.brought_by(generation.key(name))) or [generation.author]
