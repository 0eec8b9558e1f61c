"""Servers for these tests, and clients of each version of the protocol, in memory and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import CallToolResult, TextContent

from rho_wasm.host import Host
from rho_wasm.limits import Limits
from rho_wasm.policy import Policy
from rho_wasm.runner import ToolRunner
from rho_wasm.server import EventFeed, McpServer
from rho_wasm.server.http import serve_http
from rho_wasm.tools import Tool
from tests.helpers import runner_of

NEWEST = "2026-07-28"
OLDER = "2025-11-25"


@asynccontextmanager
async def client_of(server: McpServer, version: str, **options: Any) -> AsyncIterator[Client]:
    """The SDK's client, over streams in memory: what it sends is framed, so it can be cancelled and notified."""
    mode = "legacy" if version == OLDER else version
    async with Client(connected(server), mode=mode, **options) as client:
        yield client


@asynccontextmanager
async def connected(server: McpServer) -> AsyncIterator[Any]:
    """The client's ends of a connection to ``server``, which is served until they are closed."""
    ended = anyio.Event()

    async def serve() -> None:
        await server.run(reading, writing, server.create_initialization_options())
        ended.set()

    async with create_client_server_memory_streams() as (ends, (reading, writing)), anyio.create_task_group() as group:
        group.start_soon(serve)
        try:
            yield ends
        finally:
            # A server ends when its client has closed, whatever it is doing.
            with anyio.CancelScope(shield=True), anyio.fail_after(60):
                await ends[1].aclose()
                await writing.aclose()
                await ended.wait()


def server_of(*tools: Tool, **options: Any) -> McpServer:
    """A server of these core tools."""
    return server_on(runner_of(*tools), **options)


def server_on(runner: ToolRunner, **options: Any) -> McpServer:
    return McpServer(runner, **options)


@asynccontextmanager
async def host_server(
    store: Any = ":memory:",
    *,
    core: Iterable[Tool] = (),
    limits: Limits | None = None,
    policy: Policy | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Host, McpServer]]:
    """A host and a server of it, which hears its events."""
    feed = EventFeed()
    async with Host.open(store, core=core, limits=limits, policy=policy, on_event=feed) as host:
        yield host, McpServer(host.runner, feed=feed, **options)


@asynccontextmanager
async def over_http(server: McpServer, **options: Any) -> AsyncIterator[str]:
    """The URL of ``server``, on a free port."""
    ready = anyio.Event()
    urls: list[str] = []

    def on_ready(url: str) -> None:
        urls.append(url)
        ready.set()

    async def serve() -> None:
        await serve_http(server, on_ready=on_ready, **options)

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        with anyio.fail_after(60):
            await ready.wait()
        yield urls[0]
        group.cancel_scope.cancel()


def text_of(result: CallToolResult) -> str:
    """The text of a result's first block."""
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


async def names_of(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]
