"""Who cancels a call, or goes, stops the guest that answers it."""

from __future__ import annotations

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from rho_wasm.events import ToolFinished, ToolRunning
from rho_wasm.host import Host
from rho_wasm.limits import Limits
from rho_wasm.server import EventFeed, McpServer
from tests.dynamic.guests import SPINS, artifact
from tests.helpers import OBJECT, Events, Waiting, until
from tests.server.serving import NEWEST, OLDER, client_of, connected, server_of, text_of

pytestmark = pytest.mark.anyio

VERSIONS = pytest.mark.parametrize("version", [NEWEST, OLDER])
LONG = Limits(fuel=10**15, deadline_ms=60_000)


@VERSIONS
async def test_a_cancelled_call_stops_a_guest_that_spins(version: str) -> None:
    events = Events()
    feed = EventFeed(events.append)
    async with Host.open(":memory:", core=[], limits=LONG, on_event=feed) as host:
        spin = artifact({"name": "spin", "description": "Spins.", "input_schema": OBJECT}, body=SPINS)
        await host.source.activate(await host.source.stage(add=[spin], author="model"))
        async with client_of(McpServer(host.runner, feed=feed), version) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "spin")
                await until(lambda: bool(events.of(ToolRunning)))
                group.cancel_scope.cancel()
            await until(lambda: bool(events.of(ToolFinished)))
            (ended,) = events.of(ToolFinished)
            assert ended.result.reason == "cancelled"
            # The connection goes on.
            assert [tool.name for tool in (await client.list_tools()).tools] == ["spin"]


@VERSIONS
async def test_a_connection_that_closes_stops_its_calls(version: str) -> None:
    waiting = Waiting()
    server = server_of(waiting.tool)
    with anyio.fail_after(60):
        async with client_of(server, version) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "waiting")
            await waiting.began.wait()
            group.cancel_scope.cancel()
    assert waiting.runs == 1


async def test_only_the_calls_own_connection_cancels_it() -> None:
    waiting = Waiting()
    server = server_of(waiting.tool)
    async with client_of(server, OLDER) as client, connected(server) as (_, write):
        results: list[str] = []

        async def call() -> None:
            results.append(text_of(await client.call_tool("waiting")))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await waiting.began.wait()
            hello = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            await write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=0, method="initialize", params=hello)))
            for number in range(1, 20):
                await write.send(
                    SessionMessage(
                        JSONRPCNotification(
                            jsonrpc="2.0", method="notifications/cancelled", params={"requestId": number}
                        )
                    )
                )
            waiting.let_go.set()
        assert results == ["done"]
