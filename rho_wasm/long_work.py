"""What holds the interpreter's lock for long and a guest chose the size of: one at a time, each guest in its turn.

Reading or writing 50,000 items is one call into C, which lets go of the lock only at its end: after tens of
milliseconds, not after the 5 that others wait for it else. Threads that do so are together no faster than one after the
other, and the event loop's thread waits for each of them, again and again: eight calls at once that had such arguments
read stopped it for a second.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from rho_wasm.host_threads import HostThreads, on_whose_behalf

__all__ = ["LONG_BYTES", "LONG_ITEMS", "TURNS", "NoTurn", "Place", "Turns", "in_turn_in_thread"]

LONG_BYTES: Final = 16 * 1024
"""Of CBOR: so many, or fewer, are read in about 5 ms whatever they are."""
LONG_ITEMS: Final = 2_500
"""Of plain data: so many, or fewer, are looked at in about 5 ms."""

_T = TypeVar("_T")


class NoTurn(Exception):
    """Whoever waited for a turn was told to leave, or had no more time."""


class Place:
    """Where one thread waits for its turn, once. ``guest`` is whose work it is: the hash of its module.

    :meth:`leave` is for whoever does not want it any more, from any thread; a turn that has come goes on to its end.
    """

    __slots__ = ("_gate", "_turns", "guest", "has_turn", "left")

    def __init__(self, guest: str, *, turns: Turns | None = None) -> None:
        self.guest = guest
        self.has_turn = self.left = False
        self._turns = TURNS if turns is None else turns
        self._gate = threading.Lock()
        self._gate.acquire()

    @contextmanager
    def turn(self, *, within_s: float | None = None) -> Iterator[None]:
        """Inside, no other thread of this process has a turn. Raises :class:`NoTurn`, after ``within_s`` seconds too.

        Never on the event loop's thread, and never round what waits for anything or calls the host's code: a turn
        has an end soon. Python's collector rests meanwhile: of what 100,000 items take it has two thirds, since it
        looks at them again and again while they are made, and there is nothing yet that it could free.
        """
        if not self._turns.take(self, within_s=within_s):
            raise NoTurn
        try:
            self._turns.rest_collector()
            yield
        finally:
            self._turns.collect_again()
            self._turns.give_back()

    def leave(self) -> None:
        """Idempotent."""
        self._turns.leave(self)

    def wait(self, within_s: float | None) -> None:
        """Until :meth:`wake` was called, or that time is over."""
        self._gate.acquire(timeout=-1 if within_s is None else max(0.0, min(within_s, threading.TIMEOUT_MAX)))

    def wake(self) -> None:
        """Once."""
        self._gate.release()


class Turns:
    """One turn at a time. Guests have them in rotation, and of one guest whoever waits longest."""

    _thresholds: tuple[int, int, int] | None = None
    """Of the collector that rests for the turn that somebody has."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a forked process the threads that had a turn, or waited, are not there."""
        self.collect_again()
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: dict[str, deque[Place]] = {}

    def rest_collector(self) -> None:
        """No collection begins by itself. A host that turns collection off and on meanwhile has it as it says."""
        self._thresholds = gc.get_threshold()
        gc.set_threshold(0)

    def collect_again(self) -> None:
        """The collector works as it did before the turn."""
        thresholds, self._thresholds = self._thresholds, None
        if thresholds is not None:
            gc.set_threshold(*thresholds)

    @property
    def waiting(self) -> int:
        """Threads that wait for their turn."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def take(self, place: Place, *, within_s: float | None) -> bool:
        """Waits. False where it was left before its turn came, or the time is over."""
        with self._lock:
            if place.left:
                return False
            if not self._taken:
                self._taken = place.has_turn = True
                return True
            self._waiting.setdefault(place.guest, deque()).append(place)
        try:
            place.wait(within_s)
        except BaseException:
            with self._lock:
                self._forget(place)
                had_turn = place.has_turn
            if had_turn:
                self.give_back()
            raise
        with self._lock:
            if not place.has_turn:
                self._forget(place)
            return place.has_turn

    def give_back(self) -> None:
        """The turn is over: the next guest has its own."""
        with self._lock:
            for guest in self._waiting:
                place = self._waiting[guest][0]
                self._forget(place)
                if guest in self._waiting:
                    self._waiting[guest] = self._waiting.pop(guest)  # It is the last of the rotation now.
                place.has_turn = True
                place.wake()
                return
            self._taken = False

    def leave(self, place: Place) -> None:
        """As :meth:`Place.leave`."""
        with self._lock:
            place.left = True
            if self._forget(place):
                place.wake()

    def _forget(self, place: Place) -> bool:
        """Whether it waited."""
        queue = self._waiting.get(place.guest)
        if queue is None or place not in queue:
            return False
        queue.remove(place)
        if not queue:
            del self._waiting[place.guest]
        return True


TURNS: Final = Turns()
"""Those of this process."""
_THREADS: Final = HostThreads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TURNS.begin_anew)


async def in_turn_in_thread(function: Callable[[], _T], *, long: bool) -> _T:
    """``function()`` in a thread, in the turn of whoever it is on behalf of where it is ``long``. Raises what it
    raises, and :class:`rho_wasm.host_threads.NoThread`.

    Cancellation leaves at once: who waits for a turn waits no more, and what has begun is lost at its end.
    """
    if not long:
        return await _in_thread(function)
    place = Place(on_whose_behalf())

    def run() -> _T:
        with place.turn():
            return function()

    try:
        return await _in_thread(run)
    finally:
        place.leave()


async def _in_thread(function: Callable[[], _T]) -> _T:
    outcome = await _THREADS.run(function)
    if outcome.error is not None:
        raise outcome.error
    value: _T = outcome.value
    return value
