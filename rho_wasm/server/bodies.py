"""How much one message may be: its JSON is parsed on the event loop, so it is counted before."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["MAX_PARTS", "BoundedBodies", "is_dense"]

MAX_PARTS = 100_000
"""Commas, colons and opening brackets of one message, those in its texts too: as many items as a guest takes."""

_AT_ONCE = 16 * 1024
"""Bytes of a body that is looked at and parsed in the same turn of the event loop as others."""
_READ_OF_TOO_MUCH = 4
"""Of a body that is over the bound, up to how often the bound is read: a client that is still sending when its
connection ends hears of no status."""


def is_dense(message: bytes | bytearray) -> bool:
    """Whether ``message`` would take too long to parse, however short it is."""
    return sum(map(message.count, (b",", b":", b"[", b"{"))) > MAX_PARTS


@dataclass(slots=True, eq=False)
class _Body:
    """What has come of one."""

    data: bytearray = field(default_factory=bytearray)
    reading: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    crowded: bool = False
    """Others came, and there is room for no more."""


class BoundedBodies:
    """Wraps an ASGI application: reads each body whole, and refuses it where it is too large, too dense or too slow.

    413 for more than ``max_bytes`` or :data:`MAX_PARTS`, 408 where it has not come within ``seconds``. All that are
    coming, or waiting to be parsed, have ``all_bytes`` at most: 503 to the one that has taken longest to come. Each
    time the connection ends. Long ones are handed on one by one, with turns of the event loop between: whoever holds
    many back and ends them together would stop it.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, all_bytes: int, seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._all_bytes = all_bytes
        self._seconds = seconds
        self._held = 0
        self._coming: dict[_Body, None] = {}
        self._turn = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body()
        try:
            self._coming[body] = None
            refusal = await self._refusal(body, scope, receive)
            if refusal is not None:
                await refusal(scope, receive, send)
            else:
                await self._app(scope, self._replayed(body, receive), send)
        except _Gone:
            return
        finally:
            self._let_go(body)

    async def _refusal(self, body: _Body, scope: Scope, receive: Receive) -> PlainTextResponse | None:
        """Why the body is not handed on, once it came. Raises :class:`_Gone`."""
        received = 0
        declared = Headers(scope=scope).get("content-length", "")
        enough = _READ_OF_TOO_MUCH * self._max_bytes
        with body.reading, anyio.move_on_after(self._seconds) as timed:
            more = not declared.isdecimal() or int(declared[:20]) <= enough
            received = 0 if more else enough
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise _Gone
                part = message.get("body", b"")
                received += len(part)
                if received <= self._max_bytes:
                    self._add(body, part)
                more = message.get("more_body", False) and received <= enough
        self._coming.pop(body, None)
        if body.crowded:
            return _refusal("Too much is being sent to the server: try again in a few seconds.", 503)
        if timed.cancelled_caught:
            return _refusal("The request did not come in time.", 408)
        if received > self._max_bytes:
            return _refusal("The request is too large.", 413)
        await self._has_turn(body)
        return _refusal("The request has too many values.", 413) if is_dense(body.data) else None

    def _add(self, body: _Body, part: bytes) -> None:
        body.data += part
        self._held += len(part)
        while self._held > self._all_bytes and self._coming:
            longest = next(iter(self._coming))
            del self._coming[longest]
            self._let_go(longest)
            longest.crowded = True
            longest.reading.cancel()

    def _let_go(self, body: _Body) -> None:
        self._coming.pop(body, None)
        self._held -= len(body.data)
        body.data = bytearray()

    async def _has_turn(self, body: _Body) -> None:
        """Until nobody else looks at a long body in this turn of the event loop."""
        if len(body.data) > _AT_ONCE:
            async with self._turn:
                await anyio.lowlevel.checkpoint()

    def _replayed(self, body: _Body, receive: Receive) -> Receive:
        handed_on = False

        async def replay() -> Message:
            nonlocal handed_on
            if handed_on:
                return await receive()
            await self._has_turn(body)
            data, handed_on = bytes(body.data), True
            self._let_go(body)
            return {"type": "http.request", "body": data, "more_body": False}

        return replay


class _Gone(Exception):
    """The client went before its body had come."""


def _refusal(text: str, status: int) -> PlainTextResponse:
    return PlainTextResponse(text, status, {"Connection": "close"})
