"""Who is let in, what may be told of it, and how much a message may be: without a socket."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from rho_wasm.server.bodies import MAX_PARTS, BoundedBodies, is_dense
from rho_wasm.server.door import FrontDoor
from rho_wasm.server.rare_log import FewOfEach, few_lines
from rho_wasm.server.session_desk import SessionDesk

pytestmark = pytest.mark.anyio

Headers = Sequence[tuple[str, str]]


async def status_of(app: Any, headers: Headers, *, body: bytes = b"", peer: str = "127.0.0.1", **more: Any) -> int:
    """The status that ``app`` answers one request with."""
    statuses: list[int] = []
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": raw, "client": (peer, 1), **more}
    await app(scope, receive, send)
    return statuses[0]


async def everything(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:65535", "[::1]", "[::1]:3", "tools.example"])
async def test_hosts_of_its_own_are_let_in_on_any_port(host: str) -> None:
    assert await status_of(FrontDoor(everything, names=["Tools.example"]), [("host", host)]) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "localhost:evil.example",
        "localhost:80@evil.example",
        "localhost:",
        "localhost:123456",
        "localhost:80:80",
        "a@localhost",
        "localhost ",
        "[::1]evil.example",
        "",
    ],
)
async def test_a_host_is_read_exactly(host: str) -> None:
    assert await status_of(FrontDoor(everything), [("host", host)]) == 421


async def test_two_hosts_or_none_are_none_of_its_own() -> None:
    assert await status_of(FrontDoor(everything), [("host", "localhost"), ("host", "localhost")]) == 421
    assert await status_of(FrontDoor(everything), []) == 421


@pytest.mark.parametrize("origin", ["http://localhost", "https://127.0.0.1:9", "HTTP://LOCALHOST", "http://[::1]:3"])
async def test_pages_of_its_own_are_let_in(origin: str) -> None:
    assert await status_of(FrontDoor(everything), [("host", "localhost"), ("origin", origin)]) == 200


@pytest.mark.parametrize(
    "origins",
    [
        ["http://evil.example"],
        ["http://localhost:80.evil.example"],
        ["http://localhost:80@evil.example"],
        ["http://localhost/"],
        ["null"],
        ["file://localhost"],
        [""],
        ["http://localhost", "http://evil.example"],
        ["http://localhost", "http://localhost"],
    ],
)
async def test_an_origin_is_read_exactly(origins: list[str]) -> None:
    headers = [("host", "localhost"), *(("origin", origin) for origin in origins)]
    assert await status_of(FrontDoor(everything), headers) == 403


async def test_a_message_of_many_parts_is_refused_before_it_is_parsed() -> None:
    app = BoundedBodies(everything, max_bytes=1_000_000, all_bytes=2_000_000, seconds=30)
    assert await status_of(app, [], body=b"[" * MAX_PARTS) == 200
    assert await status_of(app, [], body=b"[]," * (MAX_PARTS // 2 + 1)) == 413
    assert await status_of(app, [], body=b" " * 1_000_001) == 413
    assert await status_of(app, [("content-length", "4000001")]) == 413
    assert is_dense(b'{"a":1,' * 33_400)
    assert not is_dense(b'"' * 1_000_000)


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    statuses: list[int] = []

    async def receive() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    await BoundedBodies(everything, max_bytes=10, all_bytes=10, seconds=0)(
        {"type": "http", "headers": []}, receive, send
    )
    assert statuses[0] == 408


async def test_where_bodies_take_too_much_together_the_one_that_took_longest_ends() -> None:
    app = BoundedBodies(everything, max_bytes=100, all_bytes=150, seconds=60)
    statuses: dict[int, int] = {}

    async def asks(number: int, end: anyio.Event) -> None:
        parts = [b"x" * 60, b"x"]

        async def receive() -> Message:
            if len(parts) == 1:
                await end.wait()
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message: Message) -> None:
            statuses.setdefault(number, message.get("status", 0))

        await app({"type": "http", "headers": []}, receive, send)

    end = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(asks, number, end)
            await anyio.wait_all_tasks_blocked()
        assert statuses == {0: 503}
        end.set()
    assert statuses == {0: 503, 1: 200, 2: 200}
    statuses.clear()
    async with anyio.create_task_group() as tasks:
        for number in range(2):
            tasks.start_soon(asks, number, end)
    assert statuses == {0: 200, 1: 200}


async def test_long_bodies_that_end_together_are_parsed_one_by_one_with_turns_of_the_loop_between() -> None:
    told: list[int | str] = []

    async def parses(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(len((await receive())["body"]))

    app = BoundedBodies(parses, max_bytes=1_000_000, all_bytes=10_000_000, seconds=60)

    async def asks(size: int) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": b"x" * size, "more_body": False}

        async def send(message: Message) -> None:
            raise AssertionError

        await app({"type": "http", "headers": []}, receive, send)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(asks, 100_000)
        tasks.start_soon(asks, 5)
        while len(told) < 6:
            before = len(told)
            await anyio.lowlevel.checkpoint()
            assert sum(size == 100_000 for size in told[before:]) <= 1
    assert told.index(5) < 3


def test_few_log_lines_of_a_kind_are_written() -> None:
    few = FewOfEach()

    def written(text: str, *args: Any) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, args, None)
        return record.getMessage() if few.filter(record) else None

    lines = [written("refused: %s", number) for number in range(1_000)]
    assert lines[:2] == ["refused: 0", "refused: 1"]
    assert [line for line in lines if line is not None][-1] == (
        "refused: 9 (more lines like this are left out for a minute)"
    )
    assert written("other: %s", 1) == "other: 1"


def test_every_logger_of_what_a_server_is_made_of_writes_few_lines_while_one_serves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = ["rho_wasm.server", "uvicorn.error", "mcp.server.runner", "mcp.server.request_state", "mcp.shared.any"]

    def lines() -> list[int]:
        caplog.clear()
        for name in names:
            for number in range(100):
                logging.getLogger(name).warning(f"{name} dropped %r", number)
        return [sum(record.name == name for record in caplog.records) for name in names]

    with few_lines():
        with few_lines():
            assert lines() == [10] * 5
        assert lines() == [0] * 5
    assert lines() == [100] * 5


class Sessions:
    """The SDK's part of sessions, as the protocol has it: opened without an id, ended by DELETE."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.made = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        status = 200
        if scope["path"] != "/mcp":
            status = 404
        elif scope["method"] == "DELETE" and own in self.open:
            self.open.remove(own)
        elif not own:
            self.made += 1
            own = f"s{self.made}"
            self.open.append(own)
        elif own not in self.open:
            status = 404
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"mcp-session-id", own.encode("ascii"))]}
        )
        if own == "s1" and scope["method"] == "GET":
            assert await status_of(self.desk, [], peer="b") == 200
            assert await status_of(self.desk, [], peer="b") == 200

    desk: SessionDesk


async def test_the_session_that_was_idle_for_longest_makes_room() -> None:
    sessions = Sessions()
    desk = sessions.desk = SessionDesk(sessions, path="/mcp", sessions=8, idle_s=1_800)
    assert [await status_of(desk, [], peer="a") for _ in range(2)] == [200, 200]
    assert await status_of(desk, [("mcp-session-id", "s1")], peer="a") == 200
    assert await status_of(desk, [], peer="a") == 200
    assert sessions.open == ["s1", "s3"]
    # Others have their own share, and the newest protocol has no sessions.
    assert await status_of(desk, [], peer="c") == 200
    assert sessions.open == ["s1", "s3", "s4"]
    assert await status_of(desk, [("mcp-protocol-version", "2026-07-28")], peer="c") == 200


async def test_a_session_with_a_stream_open_is_not_ended_for_another() -> None:
    sessions = Sessions()
    desk = sessions.desk = SessionDesk(sessions, path="/mcp", sessions=2, idle_s=1_800)
    assert await status_of(desk, [], peer="a") == 200
    assert await status_of(desk, [("mcp-session-id", "s1")], peer="a", method="GET") == 200
    assert sessions.open[0] == "s1"


async def test_a_request_to_another_path_neither_ends_a_session_nor_makes_room() -> None:
    sessions = Sessions()
    desk = sessions.desk = SessionDesk(sessions, path="/mcp", sessions=4, idle_s=1_800)
    assert await status_of(desk, [], peer="a") == 200
    for method in ("POST", "DELETE"):
        for headers in ([], [("mcp-session-id", "s1")]):
            assert await status_of(desk, headers, peer="a", method=method, path="/other") == 404
    assert sessions.open == ["s1"]
    # It is still known, so that it makes room where its share is full.
    assert await status_of(desk, [], peer="a") == 200
    assert sessions.open == ["s2"]
