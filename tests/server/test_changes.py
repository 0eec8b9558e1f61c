"""Clients hear of changes: on the newest version by a subscription, on older ones by a notification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification

from rho_wasm.host import Host
from rho_wasm.registry import ToolRegistry
from rho_wasm.runner import ToolRunner
from rho_wasm.server import EventFeed, McpServer
from rho_wasm.testing import guest
from tests.helpers import Events, echo, until
from tests.server.serving import NEWEST, OLDER, client_of, host_server, names_of, server_of, text_of

pytestmark = pytest.mark.anyio


class Heard:
    """How often a client of an older version was told, and a handler that counts it."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self, message: Any) -> None:
        self.times += isinstance(message, ToolListChangedNotification)


async def switched(host: Host, *names: str) -> None:
    await host.source.activate(await host.source.stage(add=[guest(name) for name in names], author="model"))


async def test_a_switch_and_a_rollback_reach_subscribers_of_the_newest_version() -> None:
    async with (
        host_server() as (host, server),
        client_of(server, NEWEST) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        assert events.honored.tools_list_changed
        await switched(host, "new")
        with anyio.fail_after(60):
            assert isinstance(await anext(aiter(events)), ToolsListChanged)
        assert await names_of(client) == ["new"]
        await host.source.rollback()
        with anyio.fail_after(60):
            assert isinstance(await anext(aiter(events)), ToolsListChanged)
        assert await names_of(client) == []


async def test_a_switch_reaches_clients_of_older_versions_that_are_told_so_when_they_come() -> None:
    heard = Heard()
    async with host_server() as (host, server), client_of(server, OLDER, message_handler=heard) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        await anyio.wait_all_tasks_blocked()
        await switched(host, "new")
        await until(lambda: heard.times == 1)
        assert await names_of(client) == ["new"]


async def test_what_no_event_tells_of_is_seen_all_the_same_and_told_once_to_each() -> None:
    first, second = Heard(), Heard()
    registry = ToolRegistry([])
    server = McpServer(ToolRunner(registry))
    async with (
        client_of(server, OLDER, message_handler=first),
        client_of(server, OLDER, message_handler=second),
        client_of(server, NEWEST) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        await anyio.wait_all_tasks_blocked()
        registry.register(echo("registered"))
        await server.changes.look()
        await server.changes.look()
        with anyio.fail_after(60):
            await anext(aiter(events))
        await until(lambda: (first.times, second.times) == (1, 1))
        await anyio.wait_all_tasks_blocked()
        assert (first.times, second.times) == (1, 1)


async def test_a_client_is_told_as_long_as_its_connection_lasts_and_leaves_nothing_behind() -> None:
    registry = ToolRegistry([])
    server = McpServer(ToolRunner(registry))
    for _ in range(3):
        heard = Heard()
        async with client_of(server, OLDER, message_handler=heard):
            await anyio.wait_all_tasks_blocked()
        registry.register(echo("more"))
        await server.changes.look()
        assert heard.times == 0


@pytest.mark.slow
async def test_a_switch_by_another_host_on_the_store_is_told_within_a_second_or_so(tmp_path: Path) -> None:
    async with (
        host_server(tmp_path / "store") as (_, server),
        Host.open(tmp_path / "store", core=[]) as other,
        client_of(server, NEWEST) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        await switched(other, "elsewhere")
        with anyio.fail_after(60):
            await anext(aiter(events))
        assert await names_of(client) == ["elsewhere"]


async def test_an_eager_client_that_lists_once_learns_of_new_tools_and_calls_them() -> None:
    async with host_server(core=[echo()], eager=True) as (host, server), client_of(server, OLDER) as client:
        assert await names_of(client) == ["call_tool", "echo"]
        await switched(host, "word_count")
        result = await client.call_tool("echo", {"a": 1})
        assert result.structured_content == {"a": 1}
        assert len(result.content) == 2
        assert '"name": "word_count"' in str(result.content[1])
        called = await client.call_tool("call_tool", {"name": "word_count"})
        assert (str(called.content[0]).count("done"), len(called.content)) == (1, 1)
        missed = await client.call_tool("call_tool", {"name": "nothing", "arguments": {}})
        assert missed.is_error
        assert "there are: echo, word_count" in str(missed.content[0])


async def test_call_tool_takes_a_name_and_an_object_and_nothing_else() -> None:
    async with client_of(server_of(echo(), eager=True), NEWEST) as client:
        for wrong in ({}, {"name": 1}, {"name": "echo", "arguments": []}, {"name": "echo", "more": 1}):
            result = await client.call_tool("call_tool", wrong)
            assert result.is_error
            assert "call_tool takes" in str(result.content[0])


async def test_arguments_that_come_through_call_tool_as_text_are_read_as_any_others() -> None:
    async with client_of(server_of(echo(), eager=True), NEWEST) as client:
        for given, meant in (('{"a": 1}', {"a": 1}), ('```json\n{"a": 1,}\n```', {"a": 1}), (None, {})):
            result = await client.call_tool("call_tool", {"name": "echo", "arguments": given})
            assert result.structured_content == meant
        cut_off = await client.call_tool("call_tool", {"name": "echo", "arguments": '{"a": '})
        assert cut_off.is_error
        assert "echo was not run (invalid_arguments)" in text_of(cut_off)


async def test_a_feed_tells_everybody_and_one_that_raises_keeps_it_from_nobody() -> None:
    heard: Events = Events()

    def raising(event: Any) -> None:
        raise RuntimeError

    feed = EventFeed(raising, heard.append)
    leave = feed.subscribe(heard.append)
    runner = ToolRunner(ToolRegistry([echo()]), on_event=feed)
    async with Client(McpServer(runner, feed=feed)) as client:
        await client.call_tool("echo")
        assert len(heard) == 4
        leave()
        leave()
        await client.call_tool("echo")
    assert len(heard) == 6
