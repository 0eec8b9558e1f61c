"""MCP over streamable HTTP, for clients on this machine, and for others that have the server's token."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import uvicorn

from rho_wasm.server.door import FrontDoor, is_loopback, security_for
from rho_wasm.server.server import McpServer

__all__ = ["HttpLimits", "NeedsToken", "serve_http"]

PATH = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds of the server. What is over them is refused with a status that says so."""

    body_bytes: int = 4 * 1024 * 1024
    """Of one request: 413. A guest takes 1 MiB of arguments at most."""
    sessions: int = 1_000
    """Open sessions of older clients: 503. The newest protocol has none."""
    session_idle_s: float = 1_800.0
    """After which an older client's session ends: 404, and it opens another."""
    concurrency: int = 4_096
    """Connections and requests at once: 503."""
    headers_bytes: int = 64 * 1024
    """Of headers that have not come whole yet: 400."""
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
    with _bound(host, port) as listening:
        address, number = listening.getsockname()[:2]
        if token is None and not is_loopback(address):
            raise NeedsToken(address)
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=bounds.body_bytes,
            session_idle_timeout=bounds.session_idle_s,
            max_sessions=bounds.sessions,
            transport_security=(security := security_for([*names, _in_url(host)])),
        )
        serving = _Uvicorn(
            uvicorn.Config(
                FrontDoor(app, security=security, token=token),
                http="h11",
                ws="none",
                lifespan="off",  # The session manager is entered here, so that it ends when the server did.
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=bounds.concurrency,
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
        listening.listen(1_024)
        listening.setblocking(False)
        yield listening


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
