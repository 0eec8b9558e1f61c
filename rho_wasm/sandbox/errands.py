"""Work that goes on in a thread, and is over before whoever waits for it leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from rho_wasm.host_threads import Aside, HostThreads, NoThread
from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.slots import Overloaded

__all__ = ["Errand", "Errands", "to_its_end"]

_R = TypeVar("_R", covariant=True)


class Errand(Protocol[_R]):
    """What is done in a thread."""

    def in_thread(self) -> _R:
        """All of it, its own end included."""

    def cancel(self) -> None:
        """Ends it within a moment. From the event loop's thread."""

    def close(self) -> None:
        """No thread will do it."""


class _Turn:
    """Who came first: the thread that does it, or the one that gives it up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.over = threading.Event()

    def taken(self) -> bool:
        """True for the first who asks."""
        return self._lock.acquire(blocking=False)


class Errands:
    """Those of one sandbox, which has ``most`` at once. Used from one event loop at a time."""

    def __init__(self, threads: HostThreads, *, most: int) -> None:
        self._threads = threads
        self._most = most
        self._running: dict[Errand[object], _Turn] = {}

    @sure_entry
    async def run(self, errand: Errand[_R], *, aside: Aside | None = None) -> _R:
        """What it comes to. Raises what it raises, and :class:`Overloaded`. From here on it is not the caller's.

        Whoever is cancelled or interrupted tells it to stop, and leaves once it has, or where it never began.
        """
        turn = None
        try:
            self._running[errand] = turn = _Turn()
            outcome = await self._threads.run(_do, errand.in_thread, turn, aside=aside)
        except BaseException as error:
            if turn is None:
                errand.close()
            elif turn.taken():
                try:
                    errand.close()
                finally:
                    turn.over.set()  # No thread will say so, and who stops all waits for it.
            else:
                errand.cancel()
                await self._threads.until(turn.over)
            if isinstance(error, NoThread):
                full = "no thread could be started"
                raise Overloaded(full, limit="max_concurrent_calls", value=self._most) from None
            raise
        finally:
            self._running.pop(errand, None)
        if outcome.error is not None:
            raise outcome.error
        result: _R = outcome.value
        return result

    def enter(self, errand: Errand[object]) -> None:
        """It goes on on the event loop, and is told to stop like the others until :meth:`leave`."""
        self._running[errand] = _Turn()

    @sure_entry
    def leave(self, errand: Errand[object]) -> None:
        """It is over, or goes on elsewhere. Idempotent."""
        turn = self._running.pop(errand, None)
        if turn is not None:
            turn.over.set()

    async def stop(self) -> None:
        """Tells all to stop, and waits until they have."""
        while True:
            for errand in tuple(self._running):
                errand.cancel()
            turns = [turn for turn in tuple(self._running.values()) if not turn.over.is_set()]
            if not turns:
                return
            for turn in turns:
                await self._threads.until(turn.over)
            # One that was on the event loop may be in a thread by now, or the other way round.


async def to_its_end(
    threads: HostThreads, function: Callable[[], _R], *, leave: Callable[[], None] | None = None
) -> _R:
    """``function()`` in a thread. Raises what it raises, and :class:`NoThread`.

    Whoever is cancelled or interrupted leaves once it is over, or where it never began; ``leave`` is called then, for
    the function to be over sooner.
    """
    turn = _Turn()
    try:
        outcome = await threads.run(_do, function, turn)
    except BaseException:
        if leave is not None:
            leave()
        if not turn.taken():
            await threads.until(turn.over)
        raise
    if outcome.error is not None:
        raise outcome.error
    result: _R = outcome.value
    return result


def _do(function: Callable[[], Any], turn: _Turn) -> Any:
    if not turn.taken():
        return None  # Nobody waits for it any more.
    try:
        return function()
    finally:
        turn.over.set()
