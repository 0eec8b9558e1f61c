"""Which older clients have a session open, so that one of them leaves room for the others."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SessionDesk", "peer_of"]

_SESSION, _VERSION = "mcp-session-id", "mcp-protocol-version"


def peer_of(scope: Scope) -> str:
    """The address that a request came from, as text; empty where there is none."""
    client = scope.get("client")
    return client[0] if client else ""


@dataclass(slots=True)
class _Session:
    peer: str
    last_s: float
    requests: int = 0
    """Being answered, streams among them."""


class SessionDesk:
    """Wraps the SDK's application: where a new session has no room, the one that was idle for longest ends.

    There are ``sessions`` at most, a quarter of them from one address; one with a request or a stream open is not idle.
    503 where none is. The client of a session that ended is answered 404, and opens another. Sessions are those of
    ``path``: a request to any other one says nothing of them.
    """

    def __init__(self, app: ASGIApp, *, path: str, sessions: int, idle_s: float) -> None:
        self._app = app
        self._path = path
        self._sessions = sessions
        self._of_one = max(1, sessions // 4)
        self._idle_s = idle_s
        self._open: OrderedDict[str, _Session] = OrderedDict()  # The one that was used last at the end.
        self._opening: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        own, version = headers.get(_SESSION), headers.get(_VERSION)
        if scope["path"] != self._path or (version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS):
            await self._app(scope, receive, send)
        elif own is not None:
            await self._go_on(own, scope, receive, send)
        else:
            await self._begin(scope, receive, send)

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = peer_of(scope)
        if not await self._has_room(peer, scope):
            busy = PlainTextResponse("All sessions are in use.", 503)
            await busy(scope, receive, send)
            return
        begun: str | None = None

        async def noted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and message["status"] < 400:
                begun = Headers(raw=message["headers"]).get(_SESSION)
                if begun is not None:
                    self._open[begun] = _Session(peer, time.monotonic(), requests=1)
            await send(message)

        self._opening[peer] = self._opening.get(peer, 0) + 1
        try:
            await self._app(scope, receive, noted)
        finally:
            self._opening[peer] -= 1
            if not self._opening[peer]:
                del self._opening[peer]
            self._rests(begun)

    async def _go_on(self, own: str, scope: Scope, receive: Receive, send: Send) -> None:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 404:
                self._open.pop(own, None)
            await send(message)

        if (session := self._open.get(own)) is not None:
            session.requests += 1
        try:
            await self._app(scope, receive, noted)
        finally:
            if session is not None:
                self._rests(own)
            if scope["method"] == "DELETE":
                self._open.pop(own, None)

    def _rests(self, own: str | None) -> None:
        session = None if own is None else self._open.get(own)
        if own is not None and session is not None:
            session.requests -= 1
            session.last_s = time.monotonic()
            self._open.move_to_end(own)

    async def _has_room(self, peer: str, scope: Scope) -> bool:
        expired = time.monotonic() - self._idle_s
        for own in [own for own, each in self._open.items() if not each.requests and each.last_s < expired]:
            del self._open[own]
        while True:
            of_one = sum(each.peer == peer for each in self._open.values()) + self._opening.get(peer, 0)
            if of_one < self._of_one and len(self._open) + sum(self._opening.values()) < self._sessions:
                return True
            only = peer if of_one >= self._of_one else None
            idle = (own for own, each in self._open.items() if not each.requests and only in (None, each.peer))
            if (oldest := next(idle, None)) is None:
                return False
            del self._open[oldest]
            await self._end(oldest, scope)

    async def _end(self, own: str, scope: Scope) -> None:
        """Ends a session as its client would: by the protocol's own request."""
        kept = [(name, value) for name, value in scope["headers"] if name == b"host"]
        asked = {**scope, "method": "DELETE", "headers": [*kept, (_SESSION.encode(), own.encode("ascii"))]}

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(message: Message) -> None:
            pass

        await self._app(asked, nothing, unheard)
