"""What holds the interpreter's lock for long and a guest chose the size of: one at a time, first come, first served.

Reading or writing 50,000 items is one call into C, which lets go of the lock only at its end: after tens of
milliseconds, not after the 5 that others wait for it else. Threads that do so are together no faster than one after the
other, and the event loop's thread waits for each of them, again and again: eight calls at once that had such arguments
read stopped it for a second.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import Final

__all__ = ["LONG_BYTES", "LONG_ITEMS", "TURNS", "Turns", "in_turn"]

LONG_BYTES: Final = 16 * 1024
"""Of CBOR: so many, or fewer, are read in about 5 ms whatever they are."""
LONG_ITEMS: Final = 2_500
"""Of plain data: so many, or fewer, are looked at in about 5 ms."""


class Turns:
    """A lock for threads that is handed to whoever waits longest: who asks again and again starves nobody."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a forked process the threads that held it, or waited, are not there."""
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    @property
    def waiting(self) -> int:
        """Threads that wait for their turn."""
        return len(self._waiting)

    def __enter__(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


TURNS: Final = Turns()
"""Those of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TURNS.begin_anew)
_AT_ONCE: Final = nullcontext()


def in_turn(*, long: bool = True) -> AbstractContextManager[None]:
    """Inside, no other thread of this process does what is ``long`` too; nothing where it is not long.

    Never on the event loop's thread, and never round what waits for anything or calls the host's code: then it has an
    end soon, and needs no deadline.
    """
    return TURNS if long else _AT_ONCE
