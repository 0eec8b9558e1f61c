"""How much one message may be: its JSON is parsed on the event loop, so it is counted before."""

from __future__ import annotations

import anyio
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["MAX_PARTS", "BoundedBodies", "is_dense"]

MAX_PARTS = 100_000
"""Commas, colons and opening brackets of one message, those in its texts too: as many items as a guest takes."""

_READ_OF_TOO_MUCH = 4
"""Of a body that is over the bound, up to how often the bound is read: a client that is still sending when its
connection ends hears of no status."""


def is_dense(message: bytes | bytearray) -> bool:
    """Whether ``message`` would take too long to parse, however short it is."""
    return sum(map(message.count, (b",", b":", b"[", b"{"))) > MAX_PARTS


class BoundedBodies:
    """Wraps an ASGI application: reads each body whole, and refuses it where it is too large, too dense or too slow.

    413 for more than ``max_bytes`` or :data:`MAX_PARTS`, 408 where it has not come within ``seconds``. In both cases
    the connection ends.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, received = bytearray(), 0
        declared = Headers(scope=scope).get("content-length", "")
        enough = _READ_OF_TOO_MUCH * self._max_bytes
        with anyio.move_on_after(self._seconds) as timed:
            more = not declared.isdecimal() or int(declared[:20]) <= enough
            received = 0 if more else enough
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return
                part = message.get("body", b"")
                received += len(part)
                if received <= self._max_bytes:
                    body += part
                more = message.get("more_body", False) and received <= enough
        refusal = _refusal("The request is too large.", 413) if received > self._max_bytes else None
        if timed.cancelled_caught:
            refusal = _refusal("The request did not come in time.", 408)
        if refusal is None and is_dense(body):
            refusal = _refusal("The request has too many values.", 413)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)


def _refusal(text: str, status: int) -> PlainTextResponse:
    return PlainTextResponse(text, status, {"Connection": "close"})
