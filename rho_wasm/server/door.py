"""Who may come in over HTTP: requests for this server's own names, from no foreign page, with its token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["MIN_TOKEN_CHARS", "FrontDoor", "is_loopback", "security_for"]

MIN_TOKEN_CHARS = 32

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def is_loopback(address: str) -> bool:
    """Whether ``address``, an IP address, is this machine's own and nobody else's."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def security_for(names: Sequence[str]) -> TransportSecuritySettings:
    """What may stand in Host and Origin of requests to a server that is reached by ``names`` (``[...]`` for IPv6).

    Loopback names are always in: without a check of them any web page could reach a server on its visitor's machine
    (DNS rebinding). A page of the same names may come, on any port; requests of programs have no Origin.
    """
    hosts = [*_LOOPBACK, *names]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[form for host in hosts for form in (host, f"{host}:*")],
        allowed_origins=[
            form
            for host in hosts
            for scheme in ("http", "https")
            for form in (f"{scheme}://{host}", f"{scheme}://{host}:*")
        ],
    )


class FrontDoor:
    """Wraps an ASGI application: refuses before anything of a body is read.

    Host and Origin are looked at first (421, 403), then, where ``token`` is set, the bearer token (401; RFC 6750
    section 2.1), whose comparison takes the same time whatever is given.
    """

    def __init__(self, app: ASGIApp, *, security: TransportSecuritySettings, token: str | None = None) -> None:
        if token is not None and len(token) < MIN_TOKEN_CHARS:
            raise ValueError(f"a token has at least {MIN_TOKEN_CHARS} characters")
        self._app = app
        self._security = TransportSecurityMiddleware(security)
        self._digest = None if token is None else _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError("this server speaks HTTP only")
        refused = await self._security.validate_request(Request(scope))
        if refused is None and self._digest is not None and not self._has_token(Headers(scope=scope)):
            refused = PlainTextResponse(
                "Give the server's token: Authorization: Bearer ...", 401, {"WWW-Authenticate": "Bearer"}
            )
        try:
            await (self._app if refused is None else refused)(scope, receive, send)
        except ClientDisconnect:
            pass  # It went while its body was read: nobody is there to be answered.

    def _has_token(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        assert self._digest is not None
        # Of digests, so that the length does not show either.
        same = hmac.compare_digest(_digest(token.strip().encode("latin-1", "replace")), self._digest)
        return same and scheme.lower() == "bearer"


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
