"""Servers on loopback that answer exactly the bytes that a test says, and ``http.fetch`` against them."""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSListener

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities import CapabilityContext
from rho_wasm.capabilities.http import FetchArguments, HttpFetch
from rho_wasm.capabilities.secrets import Secrets
from rho_wasm.errors import CapabilityError
from rho_wasm.grants import HttpBounds

__all__ = ["Asked", "Server", "context_of", "fetch", "granted", "ok", "redirect", "refusal", "serving"]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Asked, anyio.abc.ByteStream], Awaitable[None]]


@dataclass
class Server:
    port: int
    scheme: str
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(
    answer: bytes | Sequence[bytes] | Answer, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Server]:
    """A server that answers each connection with ``answer``: bytes, the bytes of each request in turn, or a function.
    Each connection has one request."""
    async with await anyio.create_tcp_listener(local_host=host) as listener, anyio.create_task_group() as tasks:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        server = Server(port, "http" if tls is None else "https")

        async def handle(stream: anyio.abc.ByteStream) -> None:
            async with stream:
                try:
                    asked = await _read(stream)
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return
                server.asked.append(asked)
                try:
                    if callable(answer):
                        await answer(asked, stream)
                    else:
                        await stream.send(answer if isinstance(answer, bytes) else answer[len(server.asked) - 1])
                except anyio.BrokenResourceError:
                    pass  # the client had enough

        if tls is None:
            tasks.start_soon(listener.serve, handle)
        else:
            tasks.start_soon(TLSListener(listener, tls, standard_compatible=False).serve, handle)
        yield server
        tasks.cancel_scope.cancel()


async def _read(stream: anyio.abc.ByteStream) -> Asked:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (entry.partition(":") for entry in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    return Asked(line, headers, body)


def ok(body: bytes = b"hello", *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def redirect(location: str, status: int = 302) -> bytes:
    return ok(b"", f"Location: {location}", status=f"{status} Elsewhere")


def granted(*hosts: str, **bounds: Any) -> HttpBounds:
    """Bounds of these hosts, loopback opened unless said otherwise."""
    return HttpBounds.model_validate({"networks": ["127.0.0.0/8", "::1/128"], **bounds, "hosts": list(hosts)})


def context_of(bounds: HttpBounds) -> CapabilityContext:
    call = ToolCall(id="1", name="weather", arguments={})
    return CapabilityContext(
        capability="http.fetch",
        tool="weather",
        artifact="0" * 64,
        generation=1,
        call=call,
        session_id=None,
        request_id=None,
        bounds=bounds,
        remaining_ms=math.inf,
        context=ToolContext(call=call),
        used={},
        log=lambda level, text: None,
    )


async def fetch(
    arguments: dict[str, Any], bounds: HttpBounds, *, secrets: Secrets | None = None, **parts: Any
) -> dict[str, Any]:
    """One fetch, of a call of its own. ``parts``: resolve, network, ssl_context, or the ``context`` of a call."""
    context = parts.pop("context", None) or context_of(bounds)
    fetching = HttpFetch(Secrets() if secrets is None else secrets, **parts)
    return await fetching(FetchArguments.model_validate(arguments), context)


async def refusal(arguments: dict[str, Any], bounds: HttpBounds, **parts: Any) -> CapabilityError:
    """The error that the guest reads."""
    with pytest.raises(CapabilityError) as refused:
        await fetch(arguments, bounds, **parts)
    return refused.value
