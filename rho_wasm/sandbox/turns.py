"""Who may do something that only a few may do at once, where a raising signal handler may end any of them anywhere.

A lock has to be given back, and there is always a place where an exception keeps somebody from doing so. A turn is the
time in which a coroutine goes on: when that is over is not for anybody to say, so no turn outlives it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, NamedTuple, TypeVar

import anyio

__all__ = ["Turns"]

_T = TypeVar("_T")

_LOOK_S: Final = 0.1
"""Who waits looks so often whether a turn has ended whose end could not be told."""


class _Turn(NamedTuple):
    key: Hashable
    work: Coroutine[Any, Any, Any]

    @property
    def lasts(self) -> bool:
        # One that has not begun when another task looks will not begin any more.
        return inspect.getcoroutinestate(self.work) in (inspect.CORO_SUSPENDED, inspect.CORO_RUNNING)


class Turns:
    """Turns of one event loop. Those of different keys have nothing to do with each other."""

    def __init__(self) -> None:
        self._turns: list[_Turn] = []
        self._ended = anyio.Event()
        """Set when the next turn ends."""

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, _T]], *, most: int = 1) -> _T:
        """What ``work()`` comes to, begun once fewer than ``most`` of ``key`` go on.

        ``work`` is a function of Python's own: with one of C, what a signal handler raises could come between the
        coroutine and its beginning, and Python would warn of that.
        """
        while self._lasting(key) >= most:
            with anyio.move_on_after(_LOOK_S):
                await self._ended.wait()
        turn = work()
        try:
            self._turns.append(_Turn(key, turn))
            return await turn
        finally:
            turn.close()
            ended, self._ended = self._ended, anyio.Event()
            ended.set()

    def _lasting(self, key: Hashable) -> int:
        self._turns = [turn for turn in self._turns if turn.lasts]
        return sum(turn.key == key for turn in self._turns)
