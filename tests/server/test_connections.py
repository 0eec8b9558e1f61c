"""Connections that send nothing, or never a whole request: others are served all the same."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import anyio.to_thread
import pytest

from rho_wasm.server.connections import room_for
from rho_wasm.server.http import HttpLimits
from tests.helpers import echo
from tests.server.serving import over_http, server_of
from tests.server.test_http import TOKEN, posted

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """Uvicorn runs on asyncio alone."""
    return "asyncio"


def opened(stack: ExitStack, url: str, sent: bytes = b"") -> socket.socket:
    host, port = url.split("/")[2].split(":")
    connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
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

    async with over_http(server_of(echo()), limits=HttpLimits(request_s=0.2)) as url:
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


def test_the_process_keeps_descriptors_for_itself() -> None:
    assert room_for(8) == 8
    assert 0 < room_for(10**9) < 10**9
