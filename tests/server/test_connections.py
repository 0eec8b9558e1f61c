"""Connections that send nothing, or never a whole request: others are served all the same."""

from __future__ import annotations

import json
import select
import socket
from contextlib import ExitStack
from typing import Any

import anyio.to_thread
import pytest

from rho_wasm.results import Image, Ok
from rho_wasm.server.connections import room_for
from rho_wasm.server.http import HttpLimits
from rho_wasm.tools import Tool
from tests.helpers import OBJECT, echo
from tests.server.serving import NEWEST, over_http, server_of
from tests.server.test_http import TOKEN, posted

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """Uvicorn runs on asyncio alone."""
    return "asyncio"


def opened(stack: ExitStack, url: str, sent: bytes = b"") -> socket.socket:
    host, port = url.split("/")[2].split(":")
    connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
    connection.sendall(sent)
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Waits until the server closes it."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


async def test_idle_connections_take_nobodys_place() -> None:
    limits = HttpLimits(concurrency=40, strangers=10)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with over_http(server_of(echo()), limits=limits, token=TOKEN) as url:
        with ExitStack() as stack:
            strangers = [await anyio.to_thread.run_sync(opened, stack, url) for _ in range(100)]
            assert (await posted(url, headers=headers)).status_code == 200
            assert await anyio.to_thread.run_sync(is_closed, strangers[0])


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 1_000])
async def test_a_request_that_does_not_come_is_not_waited_for(sent: bytes) -> None:
    async with over_http(server_of(echo()), limits=HttpLimits(request_s=0.2)) as url:
        with ExitStack() as stack:
            connection = await anyio.to_thread.run_sync(opened, stack, url, sent)
            assert await anyio.to_thread.run_sync(is_closed, connection)


async def test_a_second_request_has_a_deadline_too() -> None:
    first = b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def used(stack: ExitStack, url: str) -> bool:
        connection = opened(stack, url, first)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 404")
        connection.sendall(b"GET /")
        return is_closed(connection)

    # The first request has to come within it too, from a thread that may be kept waiting.
    async with over_http(server_of(echo()), limits=HttpLimits(request_s=2)) as url:
        with ExitStack() as stack:
            assert await anyio.to_thread.run_sync(used, stack, url)


async def test_a_connection_that_rests_makes_room_for_the_next() -> None:
    request = b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def used(stack: ExitStack, url: str) -> socket.socket:
        connection = opened(stack, url, request)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 404")
        return connection

    async with over_http(server_of(echo()), limits=HttpLimits(concurrency=4)) as url:
        with ExitStack() as stack:
            resting = [await anyio.to_thread.run_sync(used, stack, url) for _ in range(8)]
            assert await anyio.to_thread.run_sync(is_closed, resting[0])
            assert (await posted(url)).status_code == 200


def answer_of(connection: socket.socket) -> bytes:
    """All that the server sends until it ends the connection, in order: no byte of it is lost."""
    told = b""
    while part := connection.recv(65_536):
        told += part
    return told


async def test_who_is_refused_hears_it_while_sending_and_is_not_parsed_any_more() -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

    def told(stack: ExitStack, url: str) -> list[bytes]:
        token = b"\r\nAuthorization: Bearer " + TOKEN.encode()
        tiny = b"1\r\n \r\n" * 50_000
        strangers = head + (b"3e8\r\n" + b" " * 1_000 + b"\r\n") * 1_000
        guests = head.replace(b"\r\nTransfer", token + b"\r\nTransfer") + tiny
        lines = head[:-2] + b"a:\r\n" * 10_000 + b"\r\n"
        # Each hears its answer before the next one comes: the server waits for nobody for long.
        return [answer_of(opened(stack, url, sent)) for sent in (strangers, guests, lines)]

    async with over_http(server_of(echo()), token=TOKEN) as url:
        with ExitStack() as stack:
            stranger, guest, lines = await anyio.to_thread.run_sync(told, stack, url)
    assert stranger.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in stranger.lower()
    assert stranger.count(b"HTTP/1.1") == 1
    assert guest.startswith(b"HTTP/1.1 400")
    assert b"too many chunks" in guest
    assert lines.startswith(b"HTTP/1.1 400")


async def test_a_body_in_honest_chunks_is_answered() -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "padding": "x" * 500_000}).encode()
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(part), part) for part in (body[at : at + 1_000] for at in range(0, len(body), 1_000))
    )
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Accept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    def told(stack: ExitStack, url: str) -> bytes:
        return answer_of(opened(stack, url, head + chunks + b"0\r\n\r\n"))

    async with over_http(server_of(echo())) as url:
        with ExitStack() as stack:
            # Read whole and parsed: the SDK itself has something to say of it.
            assert b'"jsonrpc"' in await anyio.to_thread.run_sync(told, stack, url)


def is_reset(connection: socket.socket) -> bool:
    """Waits, and reads nothing, until the server resets it."""
    polled = select.poll()
    polled.register(connection, select.POLLERR)
    return bool(polled.poll(60_000))


@pytest.mark.parametrize("limits", [HttpLimits(unread_s=0.2), HttpLimits(unsent_bytes=1_000_000)])
async def test_answers_that_nobody_reads_are_let_go(limits: HttpLimits) -> None:
    async def picture(arguments: Any, context: Any) -> Ok:
        return Ok("", images=(Image("image/png", b"\x89PNG\r\n\x1a\n" + bytes(8_000_000)),))

    meta = {"io.modelcontextprotocol/protocolVersion": NEWEST, "io.modelcontextprotocol/clientCapabilities": {}}
    call = {"name": "picture", "arguments": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {NEWEST}\r\n"
        "Mcp-Method: tools/call\r\nMcp-Name: picture\r\n\r\n"
    )
    tool = Tool(name="picture", description="", input_schema=OBJECT, handler=picture)
    async with over_http(server_of(tool, echo()), limits=limits) as url:
        with ExitStack() as stack:
            connection = await anyio.to_thread.run_sync(opened, stack, url, head.encode() + body)
            assert await anyio.to_thread.run_sync(is_reset, connection)
            assert (await posted(url)).status_code == 200


def test_the_process_keeps_descriptors_for_itself() -> None:
    assert room_for(8) == 8
    assert 0 < room_for(10**9) < 10**9
