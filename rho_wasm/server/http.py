"""MCP over streamable HTTP, for clients on this machine, and for others that have the server's token."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from rho_wasm.server.bodies import BoundedBodies
from rho_wasm.server.connections import Connection, Connections, room_for
from rho_wasm.server.door import FrontDoor, is_loopback
from rho_wasm.server.outgoing import Unsent
from rho_wasm.server.rare_log import few_lines
from rho_wasm.server.server import McpServer
from rho_wasm.server.session_desk import SessionDesk

__all__ = ["HttpLimits", "NeedsToken", "serve_http"]

PATH = "/mcp"

_ACCEPTED_AT_ONCE = 64
"""Before those that came are counted, so at most some hundreds are over the bound for a moment."""
_WAITING = 1_024
"""Connections that the system keeps while the event loop is busy, or not ready yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds of the server. What is over them is refused with a status that says so."""

    body_bytes: int = 1_280 * 1024
    """Of one request: 413, as for more than 100,000 values. A guest takes 1 MiB of arguments at most."""
    bodies_bytes: int = 128 * 1024 * 1024
    """Of bodies that are coming or waiting to be parsed, all together: 503 to the one that has taken longest."""
    body_s: float = 30.0
    """In which a request comes whole, from its headers on: 408."""
    sessions: int = 1_000
    """Open sessions of older clients, a quarter of them from one address: the one that was idle for longest ends, and
    where none is idle 503. The newest protocol has none."""
    session_idle_s: float = 1_800.0
    """After which an older client's session ends: 404, and it opens another."""
    concurrency: int = 4_096
    """Connections at once, fewer where the process may not have as many descriptors. An idle one makes room for the
    next; where none is idle, the next is closed."""
    strangers: int = 1_024
    """Of them those that sent no request yet that was let in, half of all at most: the oldest makes room for the next.
    As many honest clients may come in one moment."""
    request_s: float = 10.0
    """From being accepted, or from the first byte of a request, until it is let in. Then the connection is closed."""
    headers_bytes: int = 64 * 1024
    """Of headers that have not come whole yet: 400, as for more than 128 lines of them, or a body in tiny chunks."""
    unsent_bytes: int = 128 * 1024 * 1024
    """Of answers that clients have not taken yet, of all connections: the one that waits for longest is closed."""
    unread_s: float = 30.0
    """After which a connection is closed that takes nothing of its answer."""
    keep_alive_s: int = 75
    """How long a connection without a request stays open: longer than clients keep one to use it again."""
    close_s: int = 3
    """How long requests that are being answered may go on when the server ends."""


class NeedsToken(Exception):
    """An address that others than this machine reach, and no token."""


async def serve_http(
    server: McpServer,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    names: Sequence[str] = (),
    limits: HttpLimits | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serves at ``http://host:port/mcp`` until it is cancelled. On asyncio only, which uvicorn needs.

    Port 0 is a free one: ``on_ready`` is called with the URL once connections are accepted. ``names`` are those by
    which clients reach the server, beside loopback names and ``host`` itself. ``token`` is at least 32 characters.

    Raises :class:`NeedsToken` for an address that is not loopback without a token, ValueError for a short token,
    OSError where the address cannot be taken.
    """
    bounds = limits or HttpLimits()
    with _bound(host, port) as listening, few_lines():
        address, number = listening.getsockname()[:2]
        if token is None and not is_loopback(address):
            raise NeedsToken(address)
        sdk = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=bounds.body_bytes,
            session_idle_timeout=bounds.session_idle_s,
            max_sessions=2 * bounds.sessions,  # The desk has its own count, and ends one before it opens another.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # The door's.
        )
        desk = SessionDesk(sdk, path=PATH, sessions=bounds.sessions, idle_s=bounds.session_idle_s)
        app = BoundedBodies(desk, max_bytes=bounds.body_bytes, all_bytes=bounds.bodies_bytes, seconds=bounds.body_s)
        room = room_for(bounds.concurrency)
        unsent = Unsent(most=bounds.unsent_bytes, seconds=bounds.unread_s)
        connections = Connections(room=room, strangers=bounds.strangers, request_s=bounds.request_s, unsent=unsent)
        serving = _Uvicorn(
            uvicorn.Config(
                FrontDoor(app, names=[*names, _in_url(host)], token=token),
                http=cast(Any, partial(Connection, connections=connections)),
                ws="none",
                lifespan="off",  # The session manager is entered here, so that it ends when the server did.
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_ACCEPTED_AT_ONCE,
                limit_concurrency=2 * room,  # Of requests whose connection is gone, too.
                h11_max_incomplete_event_size=bounds.headers_bytes,
                timeout_keep_alive=bounds.keep_alive_s,
                timeout_graceful_shutdown=bounds.close_s,
            ),
            before_end=server.listeners.close,
        )
        async with server.session_manager.run(), anyio.create_task_group() as group:
            ended = anyio.Event()

            async def serve() -> None:
                try:
                    # Cancelled it would leave its connections; it is told to end instead.
                    with anyio.CancelScope(shield=True):
                        await serving.serve(sockets=[listening])
                finally:
                    ended.set()

            group.start_soon(serve)
            try:
                if on_ready is not None:
                    on_ready(f"http://{_in_url(host)}:{number}{PATH}")
                await ended.wait()
            finally:
                serving.should_exit = True


class _Uvicorn(uvicorn.Server):
    """Uvicorn that leaves signals to whoever runs it, and ends streams without end before it waits for them."""

    def __init__(self, config: uvicorn.Config, *, before_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._before_end = before_end

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_WAITING)  # Asyncio takes one number for this and for how many it accepts at once.

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._before_end()
        await super().shutdown(sockets)


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # Connections that come before uvicorn is ready wait.
        listening.listen(_WAITING)
        listening.setblocking(False)
        yield listening


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
