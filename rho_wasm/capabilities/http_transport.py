"""One request over one connection to an address that was checked.

httpcore2 is the connection layer of httpx2, which continues httpx. It is used without the client above it: that one
reads URLs once more, keeps cookies, follows redirects, inflates without a bound and looks for proxies in the
environment, and each of these must be decided here. What httpcore2 asks for is an address family and bytes; both come
through :class:`CheckedBackend`, a network backend of our own.

Imported where the first request is made, since httpcore2 is an extra (``rho-wasm[http]``).
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import anyio.lowlevel
import httpcore2

from rho_wasm.capabilities.http_addresses import Address, Network, Resolver, may_reach, unwrapped
from rho_wasm.capabilities.http_content import Content
from rho_wasm.capabilities.http_head import HeadWatch, TooManyFields, TooManyInformational
from rho_wasm.capabilities.http_headers import seen
from rho_wasm.capabilities.http_urls import HttpUrl

__all__ = [
    "TRANSPORT_ERRORS",
    "AddressRefused",
    "CheckedBackend",
    "HeadersTooLarge",
    "NoConnection",
    "Response",
    "ResponseTooLarge",
    "TooManyFields",
    "TooManyInformational",
    "exchange",
]

_READ_BYTES: Final = 16 * 1024
_MOST_ATTEMPTS: Final = 4
_FRAMING_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 256
"""What a piece of the content counts for beside its bytes: a million chunks of one byte take their time to parse."""

TRANSPORT_ERRORS: Final = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    OSError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)
"""What is raised for a network or a server that does not do its part, beside this file's own."""


class AddressRefused(Exception):
    """An address of the host is not one that may be reached, or the connection did not lead to the one checked."""


class NoConnection(Exception):
    """The name has no address, or nobody answers at any. ``slow``: one of them had not answered in time."""

    def __init__(self, *, slow: bool = False) -> None:
        self.slow = slow
        super().__init__()


class HeadersTooLarge(Exception):
    """The header section is over its bound."""


class ResponseTooLarge(Exception):
    """More came than the content and its framing may have."""


class _Meter:
    """How many bytes may still be read, and what was read so far of a response's header section."""

    __slots__ = ("error", "room", "watch")

    def __init__(self, room: int, error: type[Exception]) -> None:
        self.room = room
        self.error = error
        self.watch = HeadWatch()

    def count(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise self.error


class _CountedStream(httpcore2.AsyncNetworkStream):
    """Reads in small pieces, and no more than the meter allows.

    The parser works through all that it is given without looking up, so the size of a piece bounds how long it holds
    the event loop, and :class:`HeadWatch` looks at it first.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkStream, meter: _Meter) -> None:
        self._inner = inner
        self._meter = meter

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._inner.read(min(max_bytes, _READ_BYTES), timeout)
        self._meter.count(len(data))
        self._meter.watch.see(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _CountedStream(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._meter)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to public addresses, and to those of ``networks``.

    A name is resolved once; all its addresses are checked, and one that may not be reached refuses the name. The
    connection is made to an address, never to the name, so that no second answer of a name server matters; and the
    socket must say afterwards that this is who it is connected to. The name stays what TLS verifies.
    """

    def __init__(
        self, resolve: Resolver, networks: Iterable[Network], *, inner: httpcore2.AsyncNetworkBackend | None = None
    ) -> None:
        self._resolve = resolve
        self._networks = tuple(networks)
        self._inner = httpcore2.AnyIOBackend() if inner is None else inner
        self.meter: _Meter = _Meter(0, HeadersTooLarge)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = (await self._addresses(host, port))[:_MOST_ATTEMPTS]
        share = None if timeout is None else timeout / len(addresses)
        slow = False
        for address in addresses:
            try:
                stream = await self._inner.connect_tcp(str(address), port, share, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                slow = slow or isinstance(error, httpcore2.ConnectTimeout)
                continue
            try:
                self._check_peer(stream, address, port)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await stream.aclose()
                raise
            return _CountedStream(stream, self.meter)
        raise NoConnection(slow=slow)

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
        try:
            addresses: list[Address] = [ipaddress.ip_address(host)]
        except ValueError:
            try:
                addresses = [ipaddress.ip_address(text) for text in await self._resolve(host, port)]
            except (OSError, UnicodeError, ValueError) as error:
                raise NoConnection from error
        if not addresses:
            raise NoConnection
        if not all(may_reach(address, self._networks) for address in addresses):
            raise AddressRefused
        return addresses

    def _check_peer(self, stream: httpcore2.AsyncNetworkStream, address: Address, port: int) -> None:
        peer = stream.get_extra_info("server_addr")
        try:
            same = unwrapped(ipaddress.ip_address(peer[0])) == unwrapped(address) and peer[1] == port
        except (TypeError, ValueError, IndexError):
            same = False
        if not same:
            raise AddressRefused


@dataclass(frozen=True, slots=True)
class Response:
    """``content`` is decoded; empty where it was not wanted."""

    status: int
    headers: dict[str, str]
    content: bytes


async def exchange(
    url: HttpUrl,
    method: str,
    headers: list[tuple[bytes, bytes]],
    body: bytes | None,
    *,
    backend: CheckedBackend,
    tls: Callable[[], ssl.SSLContext],
    header_bytes: int,
    content_bytes: int,
    connect_s: float,
    wanted: Callable[[int, dict[str, str]], bool],
) -> Response:
    """Asks ``url`` once. The content is read if ``wanted(status, headers)``. The caller bounds the time.

    Raises :class:`AddressRefused`, :class:`NoConnection`, :class:`HeadersTooLarge`, :class:`TooManyFields`,
    :class:`TooManyInformational`, :class:`ResponseTooLarge`, what :class:`Content` raises, or one of
    :data:`TRANSPORT_ERRORS`.
    """
    backend.meter = meter = _Meter(header_bytes + _READ_BYTES, HeadersTooLarge)
    request = httpcore2.Request(
        method,
        httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
        headers=headers,
        content=body,
        extensions={"timeout": {"connect": connect_s}},
    )
    async with _connection(url, backend, tls) as connection:
        response = await connection.handle_async_request(request)
        if sum(len(name) + len(value) + 4 for name, value in response.headers) > header_bytes:
            raise HeadersTooLarge
        fields = seen(response.headers)
        if method == "HEAD" or not wanted(response.status, fields):
            return Response(response.status, fields, b"")
        content = Content(fields.get("content-encoding", ""), most=content_bytes)
        meter.room, meter.error = 2 * content_bytes + _FRAMING_BYTES, ResponseTooLarge
        async with aclosing(response.aiter_stream()) as pieces:
            async for piece in pieces:
                content.feed(piece)
                meter.count(_PIECE_BYTES)
                # Many more may be there already.
                await anyio.lowlevel.checkpoint()
        return Response(response.status, fields, content.whole())


@asynccontextmanager
async def _connection(
    url: HttpUrl, backend: CheckedBackend, tls: Callable[[], ssl.SSLContext]
) -> AsyncGenerator[httpcore2.AsyncHTTPConnection]:
    """A connection of its own: nothing of one request can reach another."""
    connection = httpcore2.AsyncHTTPConnection(
        httpcore2.Origin(url.scheme.encode(), url.host.encode(), url.port),
        ssl_context=tls() if url.scheme == "https" else None,
        network_backend=backend,
    )
    try:
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.aclose()
