"""``python -m tests.benchmarks.bare_mcp KIND [--http]``: a server of the ``mcp`` SDK with one Python function.

``mcpserver`` has it as its documentation shows; ``lowlevel`` is the layer below, without a check of the arguments.
It stands apart from the other peers, so that it imports nothing of theirs.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

__all__ = ["main"]


def _mcpserver() -> MCPServer:
    server = MCPServer("bare", log_level="WARNING")

    @server.tool(structured_output=False)
    def echo(text: str) -> str:
        """A benchmark."""
        return text

    return server


def _lowlevel() -> Server[Any]:
    async def listed(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[Tool(name="echo", description="A benchmark.", input_schema={"type": "object"})],
            ttl_ms=0,
            cache_scope="private",
        )

    async def called(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=(params.arguments or {})["text"])])

    return Server("bare", on_list_tools=listed, on_call_tool=called)


async def _over_stdio(server: MCPServer | Server[Any]) -> None:
    if isinstance(server, MCPServer):
        await server.run_stdio_async()
        return
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _over_http(server: MCPServer | Server[Any]) -> None:
    """On a free port, whose URL is printed as ours is."""
    # Without the protocol's number the event loop would leave Nagle's algorithm on, and answers would wait for it.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1_024)
        config = uvicorn.Config(server.streamable_http_app(), http="h11", log_level="warning", timeout_keep_alive=75)
        print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"}), flush=True)
        uvicorn.Server(config).run(sockets=[listening])


def main(kind: str, *options: str) -> None:
    server = _mcpserver() if kind == "mcpserver" else _lowlevel()
    if "--http" in options:
        _over_http(server)
    else:
        anyio.run(_over_stdio, server)


if __name__ == "__main__":
    main(*sys.argv[1:])
