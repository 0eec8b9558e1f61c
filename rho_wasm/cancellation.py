"""Telling a cancellation that somebody asked for from one that a handler brought about by itself.

A scope of anyio (the deadline's, the caller's) shows in the effective deadline. On asyncio a caller may also cancel
the task itself (``Task.cancel``), which shows in ``Task.cancelling``: it counts up, and whoever catches a cancellation
that he asked for counts it down again (``uncancel``, as ``asyncio.timeout`` and task groups do).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

import anyio
import anyio.lowlevel

__all__ = ["Watermark", "leaves", "let_through"]


class Watermark:
    """What had been asked of this task before something began. Only within one task."""

    __slots__ = ("_before", "_task", "asked_before")

    def __init__(self) -> None:
        try:
            self._task = asyncio.current_task()  # None inside trio as a guest of asyncio
        except RuntimeError:
            self._task = None  # no event loop of asyncio runs here
        self._before = 0 if self._task is None else self._task.cancelling()
        self.asked_before = self._before > 0
        """Whether a cancellation had been asked for already. It may not have been delivered: any await raises it."""

    @property
    def cancelled_class(self) -> type[BaseException]:
        """The exception that a cancellation is, on this event loop."""
        return anyio.get_cancelled_exc_class() if self._task is None else asyncio.CancelledError

    @property
    def passed(self) -> bool:
        """Whether the task was cancelled since, which only shows on asyncio."""
        return self._task is not None and self._task.cancelling() > self._before

    async def raise_swallowed(self) -> None:
        """Raises the caller's cancellation of the task if a handler caught it and went on as if nothing had been."""
        if self.passed:
            await anyio.lowlevel.checkpoint()  # where it was a scope's, this raises it as the scope's own
            raise self.cancelled_class

    def asked_for(self) -> bool:
        """True if an enclosing scope is cancelled, or the task was since."""
        return anyio.current_effective_deadline() == -math.inf or self.passed


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside a group, or the one exception itself. Runs nothing of a foreign class."""
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if issubclass(type(one), BaseExceptionGroup):
            waiting.extend(reversed(BaseExceptionGroup.exceptions.__get__(one)))
        else:
            yield one


def let_through(error: BaseException, watermark: Watermark | None) -> None:
    """Raises what no host code may keep: KeyboardInterrupt, and a cancellation that was asked for.

    Each by itself, also where it came inside an exception group. None for ``watermark``: ``error`` is another thread's,
    so no cancellation of this task is in it.
    """
    cancelled: BaseException | None = None
    for leaf in leaves(error):
        if issubclass(type(leaf), KeyboardInterrupt):
            raise leaf
        if cancelled is None and watermark is not None and issubclass(type(leaf), watermark.cancelled_class):
            cancelled = leaf
    if cancelled is not None and watermark is not None and watermark.asked_for():
        raise cancelled
