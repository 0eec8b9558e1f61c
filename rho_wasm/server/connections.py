"""The open connections of the HTTP server: how many, how long without a request, and which goes where there is no room.

Whoever reaches the port can open connections, with a token or without one. So one that has not been let in yet counts
apart, has seconds, and makes room for the next; and all together leave the process descriptors to work with.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from rho_wasm.server.door import PASSED
from rho_wasm.server.outgoing import Outgoing, Unsent
from rho_wasm.server.requests import BoundedRequests

__all__ = ["Connection", "Connections", "room_for"]

_RESERVE = 512
"""Descriptors that are left to the store, its processes, tools, and connections that are being accepted or closed."""
_READ = 4 * 1024
"""Bytes that are parsed without a pause, where many events may be in them."""
_READ_OF_BODY = 64 * 1024
"""Of a body that comes as one piece, or of what nobody looks at."""


def room_for(wanted: int) -> int:
    """How many connections of ``wanted`` there may be: those that the process may have, less 512 or half of them."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if most == resource.RLIM_INFINITY else min(wanted, max(most - _RESERVE, most // 2))


class Connections:
    """Those of one server. ``room``: of all, ``strangers``: of those that sent no request that was let in.

    ``unsent``: what they have to send and did not.
    """

    def __init__(self, *, room: int, strangers: int, request_s: float, unsent: Unsent) -> None:
        self.request_s = request_s
        self.unsent = unsent
        self._room = room
        self._strangers = max(1, min(strangers, room // 2))
        self._unknown: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        self._busy: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._unknown) + len(self._idle) + len(self._busy)

    def came(self, connection: Connection) -> None:
        """One was accepted. The one that waited longest without a request makes room for it where there is none."""
        self._unknown[connection] = None
        if len(self._unknown) > self._strangers:
            self._drop(next(iter(self._unknown)))
        elif len(self) > self._room:
            self._drop(next(iter(self._idle or self._unknown)))

    def busy(self, connection: Connection) -> None:
        """A request of it was let in."""
        self.went(connection)
        self._busy.add(connection)

    def idle(self, connection: Connection) -> None:
        """It was let in before, and waits for its next request."""
        if connection in self._busy:
            self._busy.remove(connection)
            self._idle[connection] = None

    def went(self, connection: Connection) -> None:
        """It ends."""
        self._unknown.pop(connection, None)
        self._idle.pop(connection, None)
        self._busy.discard(connection)

    def _drop(self, connection: Connection) -> None:
        self.went(connection)
        connection.transport.abort()


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """Uvicorn's, with a deadline: from being accepted, or from a request's first byte, until a request is let in.

    It reads little at once, from a peer that it answers for the last time it reads without looking, and it ends where
    its peer reads nothing: whatever one peer sends or leaves, the others are served.
    """

    transport: Outgoing

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app_state = {**self.app_state, PASSED: self._passed}
        assert self.config.h11_max_incomplete_event_size is not None
        self.conn: BoundedRequests = BoundedRequests(headers_bytes=self.config.h11_max_incomplete_event_size)
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        outgoing = Outgoing(transport, loop=self.loop, unsent=self._all.unsent, is_coming=self._is_coming)
        super().connection_made(outgoing)
        self._start()
        self._all.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._all.went(self)
        self.transport.ended()
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> bytearray:
        whole = self.transport.is_ending or (self.conn.their_state is h11.SEND_BODY and not self.conn.is_chunked)
        self._buffer = bytearray(_READ_OF_BODY if whole else _READ)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data, self._buffer = bytes(memoryview(self._buffer)[:nbytes]), bytearray()
        self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_ending:
            self.transport.dropped(len(data))
            return
        cycle: RequestResponseCycle | None = self.cycle
        if self._deadline is None and (cycle is None or cycle.response_complete):
            self._start()
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # It was answered already, or is being answered.
            return
        super().send_400_response(self.conn.why or msg)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        self._all.idle(self)
        super().on_response_complete()

    def _is_coming(self) -> bool:
        return self.conn.is_coming

    def _passed(self) -> None:
        if not self.transport.is_closing():
            self._stop()
            self._all.busy(self)

    def _start(self) -> None:
        self._deadline = self.loop.call_later(self._all.request_s, self._too_late)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self.transport.abort()
