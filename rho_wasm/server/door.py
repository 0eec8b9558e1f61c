"""Who may come in over HTTP: requests for this server's own names, from no foreign page, with its token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["MIN_TOKEN_CHARS", "PASSED", "FrontDoor", "is_loopback"]

MIN_TOKEN_CHARS = 32

PASSED = "rho_wasm.passed"
"""In the state of a request's scope: called, without arguments, once the request was let in."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_AUTHORITY = re.compile(r"((?:\[[0-9a-f:.]+\]|[a-z0-9._-]+))(?::[0-9]{1,5})?")
_SCHEME = re.compile(r"https?://")

_log = logging.getLogger("rho_wasm.server")


def is_loopback(address: str) -> bool:
    """Whether ``address``, an IP address, is this machine's own and nobody else's."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class FrontDoor:
    """Wraps an ASGI application: refuses before anything of a body is read, and ends the connection then.

    Host and Origin are looked at first (421, 403), then, where ``token`` is set, the bearer token (401; RFC 6750
    section 2.1), whose comparison takes the same time whatever is given.

    ``names`` are those that the server is reached by (``[...]`` for IPv6). Loopback names are always in: without a
    check of them any web page could reach a server on its visitor's machine (DNS rebinding). A page of the same names
    may come, on any port; requests of programs have no Origin.
    """

    def __init__(self, app: ASGIApp, *, names: Sequence[str] = (), token: str | None = None) -> None:
        if token is not None and len(token) < MIN_TOKEN_CHARS:
            raise ValueError(f"a token has at least {MIN_TOKEN_CHARS} characters")
        self._app = app
        self._names = frozenset(name.lower() for name in (*_LOOPBACK, *names))
        self._digest = None if token is None else _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError("this server speaks HTTP only")
        refused = self._refused(Headers(scope=scope))
        if refused is None:
            if (passed := scope.get("state", {}).get(PASSED)) is not None:
                passed()
        else:
            _log.warning("a request was refused: %s", bytes(refused.body).decode())
        try:
            await (self._app if refused is None else refused)(scope, receive, send)
        except ClientDisconnect:
            pass  # It went while its body was read: nobody is there to be answered.

    def _refused(self, headers: Headers) -> PlainTextResponse | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_own(hosts[0].lower()):
            return _refusal("This server is reached by another name: Host is not one of its own.", 421)
        if origins and (len(origins) != 1 or not self._is_own_page(origins[0].lower())):
            return _refusal("No page of another site may come here: Origin is not one of its own.", 403)
        if self._digest is not None and not self._has_token(headers):
            said = "Give the server's token: Authorization: Bearer ..."
            return _refusal(said, 401, **{"WWW-Authenticate": "Bearer"})
        return None

    def _is_own(self, authority: str) -> bool:
        parts = _AUTHORITY.fullmatch(authority)
        return parts is not None and (parts[1] in self._names or authority in self._names)

    def _is_own_page(self, origin: str) -> bool:
        scheme = _SCHEME.match(origin)
        return scheme is not None and self._is_own(origin[scheme.end() :])

    def _has_token(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        assert self._digest is not None
        # Of digests, so that the length does not show either.
        same = hmac.compare_digest(_digest(token.strip().encode("latin-1", "replace")), self._digest)
        return same and scheme.lower() == "bearer"


def _refusal(text: str, status: int, **headers: str) -> PlainTextResponse:
    # Whoever was refused has nothing more to say: to parse it costs as much as a request that is let in.
    return PlainTextResponse(text, status, {"Connection": "close", **headers})


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
