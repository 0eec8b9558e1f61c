"""The server over HTTP, with real sockets on loopback: the SDK's client, and what is refused at the door."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from rho_wasm.builtin import todo
from rho_wasm.events import ToolFinished, ToolRunning
from rho_wasm.host import Host
from rho_wasm.registry import ToolRegistry
from rho_wasm.runner import ToolRunner
from rho_wasm.server import EventFeed, McpServer
from rho_wasm.server.door import FrontDoor, is_loopback
from rho_wasm.server.http import HttpLimits, NeedsToken, serve_http
from tests.dynamic.guests import SPINS, artifact
from tests.helpers import OBJECT, Events, echo, until
from tests.server.serving import NEWEST, OLDER, host_server, names_of, over_http, server_of, text_of
from tests.server.test_asking import Asking, Person
from tests.server.test_cancelling import LONG
from tests.server.test_changes import Heard

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

VERSIONS = pytest.mark.parametrize("version", [NEWEST, OLDER])
TOKEN = "t" * 32


@pytest.fixture
def anyio_backend() -> str:
    """Uvicorn runs on asyncio alone."""
    return "asyncio"


def client_at(url: str, version: str, **options: Any) -> Client:
    return Client(url, mode="legacy" if version == OLDER else version, **options)


def initialize(version: str = OLDER) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


async def posted(url: str, body: Any = None, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    sent = {"accept": "application/json, text/event-stream", "content-type": "application/json", **(headers or {})}
    content = body if isinstance(body, bytes) else json.dumps(initialize() if body is None else body).encode()
    async with httpx2.AsyncClient(timeout=60) as http:
        raw = {name.encode(): value.encode("latin-1") for name, value in sent.items()}
        return await http.post(url, content=content, headers=raw)


@VERSIONS
async def test_the_sdks_client_lists_calls_and_hears_of_changes(version: str) -> None:
    heard = Heard()
    registry = ToolRegistry([echo()])
    server = McpServer(ToolRunner(registry))
    async with over_http(server) as url, client_at(url, version, message_handler=heard) as client:
        assert client.protocol_version == version
        assert await names_of(client) == ["echo"]
        assert (await client.call_tool("echo", {"a": [1]})).structured_content == {"a": [1]}
        if version == NEWEST:
            async with client.listen(tools_list_changed=True) as events:
                registry.register(echo("later"))
                with anyio.fail_after(60):
                    await anext(aiter(events))
        else:
            # It is told on a stream that it opens beside, at some time after it was greeted.
            with anyio.fail_after(60):
                number = 0
                while not heard.times:
                    registry.register(echo(f"later{number}"))
                    number += 1
                    await server.changes.look()
                    await anyio.sleep(0.01)
        assert "later" in (await names_of(client))[1]


@VERSIONS
async def test_a_question_finds_its_person(version: str) -> None:
    asking, person = Asking(), Person()
    async with (
        over_http(server_of(asking.tool)) as url,
        client_at(url, version, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("ask")
    assert (str(result.content[0]).count("'b'"), asking.calls, len(person.asked)) == (1, 1, 1)


@VERSIONS
async def test_a_client_that_goes_stops_a_guest_that_spins(version: str) -> None:
    events = Events()
    feed = EventFeed(events.append)
    async with Host.open(":memory:", core=[], limits=LONG, on_event=feed) as host:
        spin = artifact({"name": "spin", "description": "Spins.", "input_schema": OBJECT}, body=SPINS)
        await host.source.activate(await host.source.stage(add=[spin], author="model"))
        async with over_http(McpServer(host.runner, feed=feed)) as url, client_at(url, version) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "spin")
                await until(lambda: bool(events.of(ToolRunning)))
                group.cancel_scope.cancel()
            await until(lambda: bool(events.of(ToolFinished)))
    assert events.of(ToolFinished)[0].result.reason == "cancelled"


async def test_outputs_of_one_older_session_are_unknown_to_another() -> None:
    async with over_http(server_of(todo())) as url, client_at(url, OLDER) as first, client_at(url, OLDER) as second:
        await first.call_tool("todo", {"items": [{"text": "mine"}]})
        assert "mine" in str(await first.call_tool("todo"))
        assert "mine" not in str(await second.call_tool("todo"))


async def test_requests_for_other_names_or_from_foreign_pages_are_refused() -> None:
    expected: list[tuple[Mapping[str, str], int]] = [
        ({}, 200),
        ({"host": "localhost:1"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "tools.example"}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "https://tools.example"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"content-type": "text/plain"}, 400),
        ({"accept": "text/html"}, 406),
    ]
    async with over_http(server_of(echo()), names=["tools.example"]) as url:
        assert [(headers, (await posted(url, headers=headers)).status_code) for headers, _ in expected] == expected


async def test_with_a_token_nobody_comes_in_without_it() -> None:
    async with over_http(server_of(echo()), token=TOKEN) as url:
        for wrong in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer \xe9"):
            refused = await posted(url, headers={"authorization": wrong} if wrong else {})
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await posted(f"{url}/else")).status_code == 401
        assert (await posted(url, headers={"authorization": f"bearer {TOKEN}"})).status_code == 200
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=60) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport) as client:
                assert await names_of(client) == ["echo"]


async def test_bodies_sessions_and_headers_are_bounded() -> None:
    limits = HttpLimits(body_bytes=10_000, sessions=2, headers_bytes=4_096)
    async with over_http(server_of(echo()), limits=limits) as url:
        assert (await posted(url, b"x" * 10_001)).status_code == 413
        # It may hear of that, or find that nobody reads on.
        with suppress(httpx2.TransportError):
            assert (await posted(url, headers={"x-much": "x" * 200_000})).status_code == 400
        assert [(await posted(url)).status_code for _ in range(3)] == [200] * 3
        # The newest version has no sessions to run out of.
        async with client_at(url, NEWEST) as client:
            assert await names_of(client) == ["echo"]


@VERSIONS
async def test_what_is_no_message_is_refused_and_breaks_nothing(version: str) -> None:
    wrong = [b"", b"{", b"[]", b'{"id": 1}', b"[" * 100_000, b'{"a": 1' + b"0" * 5_000 + b"}", b"\xff\xfe"]
    async with over_http(server_of(echo())) as url:
        for body in wrong:
            assert (await posted(url, body, {"mcp-protocol-version": version})).status_code in (400, 404)
        async with client_at(url, NEWEST) as client:
            assert await names_of(client) == ["echo"]


async def test_a_server_that_ends_ends_subscriptions_in_order() -> None:
    ready = anyio.Event()
    urls: list[str] = []
    scope = anyio.CancelScope()

    def on_ready(url: str) -> None:
        urls.append(url)
        ready.set()

    async def serve() -> None:
        with scope:
            await serve_http(server_of(echo()), on_ready=on_ready)

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        await ready.wait()
        async with client_at(urls[0], NEWEST) as client, client.listen(tools_list_changed=True) as events:
            scope.cancel()
            with anyio.fail_after(60):
                assert [event async for event in events] == []


async def test_an_address_that_others_reach_needs_a_token() -> None:
    server = server_of(echo())
    with pytest.raises(NeedsToken):
        await serve_http(server, host="0.0.0.0")
    with pytest.raises(ValueError, match="at least 32"):
        FrontDoor(server.streamable_http_app(), token="short")
    async with over_http(server_of(echo()), host="0.0.0.0", token=TOKEN) as url:
        there = url.replace("0.0.0.0", "127.0.0.1")
        assert (await posted(there)).status_code == 401
        assert (await posted(there, headers={"authorization": f"Bearer {TOKEN}"})).status_code == 200


def test_loopback_is_told_by_the_address_and_never_by_a_name() -> None:
    assert [is_loopback(each) for each in ("127.0.0.1", "127.9.9.9", "::1")] == [True] * 3
    assert [is_loopback(each) for each in ("0.0.0.0", "::", "localhost", "10.0.0.1", "")] == [False] * 5


async def test_hundreds_of_calls_of_many_clients_at_once_are_all_answered() -> None:
    answered = 0

    async def one(client: Client) -> None:
        nonlocal answered
        result = await client.call_tool("answer")
        assert text_of(result) == "done"
        answered += 1

    async def many(url: str) -> None:
        async with client_at(url, NEWEST) as client, anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one, client)

    async with host_server() as (host, server), over_http(server) as url:
        await host.source.activate(await host.source.stage(add=[artifact("answer")], author="model"))
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(many, url)
    assert answered == 200
