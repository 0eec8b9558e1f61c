"""A server with the tools that the conformance suite calls, over HTTP until standard input closes: prints its URL.

Those among them that a host of this kind can have: its tools answer text, images, errors, progress and questions.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import anyio
import anyio.to_thread

from rho_wasm.calls import ToolContext
from rho_wasm.events import ToolProgress
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import AskUser, Failed, Image, Ok
from rho_wasm.runner import ToolRunner
from rho_wasm.server import EventFeed, McpServer
from rho_wasm.server.http import serve_http
from rho_wasm.testing import FakeSource
from rho_wasm.tools import Tool, tool

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
    },
    "required": ["region"],
}


def answer(arguments: Any) -> Ok:
    return Ok(dict(arguments))


def tools(feed: EventFeed) -> list[Tool]:
    """The tools; ``feed`` hears of their progress."""

    @tool
    def test_simple_text() -> str:
        """Answers a text."""
        return "This is a simple text response for testing."

    @tool
    def test_image_content() -> Ok:
        """Answers a picture."""
        return Ok("a red pixel", (Image("image/png", PNG),))

    @tool
    def test_error_handling() -> Failed:
        """Fails."""
        return Failed("This tool intentionally returns an error for testing")

    @tool
    async def test_tool_with_progress(context: ToolContext) -> str:
        """Says how far it is."""
        for done in (0.0, 50.0, 100.0):
            feed(ToolProgress(call=context.call, tool=context.call.name, done=done, total=100.0))
            await anyio.sleep(0.01)
        return "all of it"

    @tool
    def test_elicitation(message: str) -> AskUser:
        """Asks a person."""
        return AskUser(message)

    @tool
    def test_input_required_result_elicitation() -> AskUser:
        """Asks a person too."""
        return AskUser("What is your name?")

    @tool
    def test_input_required_result_tampered_state() -> AskUser:
        """Asks, and its state is not to be altered."""
        return AskUser("Sure?", {"yes": "", "no": ""})

    @tool
    def test_trigger_tool_change(context: ToolContext) -> str:
        """Changes the tools."""
        registry: ToolRegistry = context.registry
        registry.register(test_simple_text.replace(name=f"changed_{context.call.id}"))
        return "changed"

    return [
        test_simple_text,
        test_image_content,
        test_error_handling,
        test_tool_with_progress,
        test_elicitation,
        test_input_required_result_elicitation,
        test_input_required_result_tampered_state,
        test_trigger_tool_change,
        Tool(name="test_custom_headers", description="Takes headers.", input_schema=HEADERS, handler=answer),
    ]


async def main() -> None:
    feed = EventFeed()
    # No API of a model takes such a schema at its top, so no core tool may have it; a source's is passed on as it is.
    odd = Tool(name="json_schema_2020_12_tool", description="Takes much.", input_schema=SCHEMA_2020_12, handler=answer)
    registry = ToolRegistry(tools(feed), sources=[FakeSource(odd)])
    server = McpServer(ToolRunner(registry, on_event=feed), feed=feed)
    async with anyio.create_task_group() as group:

        def say(url: str) -> None:
            print(url, flush=True)

        async def serve() -> None:
            await serve_http(server, on_ready=say)

        group.start_soon(serve)
        await anyio.to_thread.run_sync(sys.stdin.read)
        group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
