"""Events from any thread, told in the event loop's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from anyio import NoEventLoopError, from_thread
from anyio.lowlevel import EventLoopToken, current_token

from rho_wasm.events import Event, OnEvent, emit, subscriber

__all__ = ["Teller"]


class Teller:
    """Tells one subscriber. What happens in another thread (another process switched) waits for the event loop.

    The loop is the one that the teller was made in, or that :meth:`adopt` was last called in. Without one, such events
    wait for the next :meth:`flush`.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = subscriber(on_event)
        self._waiting: deque[Event] = deque()
        self._loop: EventLoopToken | None = None
        self.adopt()

    def adopt(self) -> None:
        """From now on the running event loop, if there is one, is where events are told. Tells what waits."""
        try:
            self._loop = current_token()
        except NoEventLoopError:
            return
        self.flush()

    def tell(self, event: Event) -> None:
        """Tells at once. In the event loop's thread, or where there is no loop."""
        self.flush()
        emit(self._on_event, event)

    def tell_from(self, event: Event, in_loop: bool) -> None:
        """Tells at once in the event loop's thread, else soon."""
        if in_loop:
            self.tell(event)
        else:
            self.tell_later([event])

    def tell_later(self, events: Iterable[Event]) -> None:
        """Tells in the event loop, soon. From any thread; waits for nothing."""
        if self._on_event is None:
            return
        self._waiting.extend(events)
        if self._waiting and self._loop is not None:
            # A thread of its own: the loop may at this moment be waiting for the thread that calls this.
            threading.Thread(target=self._wake, args=(self._loop,), name="rho_wasm-events", daemon=True).start()

    def flush(self) -> None:
        """Tells what waits. In the event loop's thread, or where there is no loop."""
        while self._waiting:
            with suppress(IndexError):
                emit(self._on_event, self._waiting.popleft())

    def _wake(self, loop: EventLoopToken) -> None:
        # A loop that has ended tells nobody anything any more.
        with suppress(Exception):
            from_thread.run_sync(self.flush, token=loop)
