"""How much work one request may be to parse: small pieces cost as much as large ones, and anybody may send them."""

from __future__ import annotations

import re

import h11

__all__ = ["BoundedRequests"]

_HEAD_LINES = 128
_CHUNKS = 256
"""Of one body, beside one for each :data:`_OF_A_CHUNK` bytes of it."""
_OF_A_CHUNK = 512
_TRAILER_LINES = 16
_TRAILER_BYTES = 4_096

_BLANK_LINE = re.compile(rb"\n\r?\n")


class BoundedRequests(h11.Connection):
    """H11's parser of requests, which ends one that comes in too many pieces: ``why`` says so then.

    A request has 128 lines of headers at most, 256 chunks and one more for each 512 bytes of its body, and next to no
    trailer. ``next_event`` raises :class:`h11.RemoteProtocolError` for more.
    """

    why: str | None = None
    is_chunked = False
    """Whether the request that is being read comes in chunks: each of them is parsed by itself."""

    def __init__(self, *, headers_bytes: int) -> None:
        super().__init__(h11.SERVER, headers_bytes)
        self._chunks = 0
        self._bytes = 0

    @property
    def is_coming(self) -> bool:
        """Whether the peer has more to send of a request, or has sent more than was read."""
        return self.their_state in (h11.SEND_BODY, h11.ERROR) or bool(self.trailing_data[0])

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        if self.their_state is h11.IDLE:
            self._look_at_head()
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.is_chunked = any(name == b"transfer-encoding" for name, _ in event.headers)
            self._chunks = self._bytes = 0
        elif self.is_chunked and self.their_state is h11.SEND_BODY:
            self._look_at_body(event)
        return event

    def _look_at_head(self) -> None:
        # Before it is parsed, which takes long for many lines and cannot be stopped.
        data, _ = self.trailing_data
        end = _BLANK_LINE.search(data)
        if data.count(b"\n", 0, None if end is None else end.start()) > _HEAD_LINES:
            self._refuse(f"The request has more than {_HEAD_LINES} lines of headers.")

    def _look_at_body(self, event: h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]) -> None:
        if isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > _CHUNKS + self._bytes // _OF_A_CHUNK:
                self._refuse("The body comes in too many chunks: send its Content-Length, or larger chunks.")
        elif event is h11.NEED_DATA:
            rest, _ = self.trailing_data
            if len(rest) > _TRAILER_BYTES or rest.count(b"\n") > _TRAILER_LINES:
                self._refuse("The body has too long a chunk header, or trailer.")

    def _refuse(self, why: str) -> None:
        self.why = why
        raise h11.RemoteProtocolError(why)
