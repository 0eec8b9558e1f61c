"""What is sent to a peer: no more than it takes is kept for long, and it hears the answer before its connection ends.

A peer that asks for large answers and reads none leaves each of them in the memory of this process.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["Outgoing", "Unsent"]

_ENDING_S = 3.0
"""How long a peer may go on sending what nobody reads. Closed at once, it would mostly not hear what it was answered:
the system lets go of the answer where unread bytes come in."""
_ENDING_BYTES = 5 * 1024 * 1024
_SEND_BUFFER = 128 * 1024
_AT_ONCE = struct.pack("ii", 1, 0)


class Unsent:
    """The answers that are not sent yet, of all connections of one server: ``most`` bytes.

    Where there is no room, the connection ends that has taken nothing for longest; so does one that took no byte for
    ``seconds``. For one event loop.
    """

    def __init__(self, *, most: int, seconds: float) -> None:
        self.seconds = seconds
        self._most = most
        self._waiting: dict[Outgoing, None] = {}

    def waits(self, one: Outgoing) -> None:
        """Some bytes of it were not taken at once."""
        self._waiting.setdefault(one)
        stood = {each: each.stood_since() for each in self._waiting}
        left = {each: each.unsent for each in stood}
        total = sum(left.values())
        for each in [each for each, size in left.items() if not size]:
            self.is_sent(each)
        if total > self._most:
            for each in sorted(stood, key=stood.__getitem__):
                total -= left[each]
                if left[each]:
                    each.reset()
                if total <= self._most:
                    break

    def is_sent(self, one: Outgoing) -> None:
        """Nothing of it waits any more."""
        self._waiting.pop(one, None)
        one.is_sent()


class Outgoing(asyncio.Transport):
    """The transport of one connection, as far as HTTP over it needs one. ``is_coming``: whether its peer still sends.

    Closed while it is, it sends what was written and that this is all, and lets go when its peer does, or after three
    seconds. ``is_ending`` is set meanwhile: what comes then is counted by :meth:`dropped`, and not looked at.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        loop: asyncio.AbstractEventLoop,
        unsent: Unsent,
        is_coming: Callable[[], bool],
    ) -> None:
        super().__init__()
        # The system takes more only once a third of this is read: of its own size a slow reader needs a minute for it.
        with suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self.is_ending = False
        self._transport = transport
        self._loop = loop
        self._all = unsent
        self._is_coming = is_coming
        self._written = 0
        self._taken = 0
        self._stood_since = loop.time()
        self._watched = 0
        self._dropped = 0
        self._look: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None

    @property
    def unsent(self) -> int:
        """Bytes that were written and that the system did not take yet."""
        return self._transport.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self.is_ending:
            return
        self._transport.write(data)
        self._written += len(data)
        if self.unsent:
            if self._look is None:
                self._watch()
            self._all.waits(self)

    def close(self) -> None:
        if self.is_ending or self._transport.is_closing() or not self._is_coming():
            self._transport.close()
            return
        self.is_ending = True
        try:
            self._transport.write_eof()
        except OSError:  # It is gone.
            self._transport.abort()
            return
        self._transport.resume_reading()
        self._end = self._loop.call_later(_ENDING_S, self._enough)

    def dropped(self, size: int) -> None:
        """So many bytes came after all that will be answered."""
        self._dropped += size
        if self._dropped > _ENDING_BYTES:
            self.abort()

    def abort(self) -> None:
        self._transport.abort()

    def reset(self) -> None:
        """As :meth:`abort`; the system keeps nothing for the peer either, which loses what it has not read."""
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._transport.abort()

    def ended(self) -> None:
        """Its connection is lost."""
        self._all.is_sent(self)
        if self._end is not None:
            self._end.cancel()

    def is_sent(self) -> None:
        """Nothing waits any more, so nobody needs to look whether it goes on."""
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def is_closing(self) -> bool:
        return self.is_ending or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def stood_since(self) -> float:
        """When it was last seen that some bytes were taken, on the event loop's clock."""
        if (taken := self._written - self.unsent) != self._taken:
            self._taken, self._stood_since = taken, self._loop.time()
        return self._stood_since

    def _enough(self) -> None:
        """Its peer had time to hear all; what it has not taken yet it still may."""
        if self.unsent:
            self._end = self._loop.call_later(_ENDING_S, self._enough)
        else:
            self.abort()

    def _watch(self) -> None:
        self.stood_since()
        self._watched = self._taken
        self._look = self._loop.call_later(self._all.seconds, self._looked)

    def _looked(self) -> None:
        self._look = None
        if not self.unsent:
            self._all.is_sent(self)
        elif self._written - self.unsent == self._watched:
            self.reset()
        else:
            self._watch()
