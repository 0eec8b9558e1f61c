"""How many calls of one tool are on their way at once: the rest wait in line, where nobody counts their time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

__all__ = ["Lanes"]

PER_TOOL = 64
"""More than run at once. A host answers ``overloaded`` to a call that waited long for its slot, and with thousands of
requests the event loop alone makes them wait long: here they wait for it before that clock starts."""


class Lanes:
    """A line for each tool that is being called, so that one that is slow keeps no other waiting."""

    def __init__(self, per_tool: int = PER_TOOL) -> None:
        self._per_tool = per_tool
        self._lanes: dict[str, _Lane] = {}

    @property
    def open(self) -> int:
        """How many tools are being called."""
        return len(self._lanes)

    @asynccontextmanager
    async def turn(self, tool: str) -> AsyncIterator[None]:
        """Inside, it is the turn of one call of ``tool``; first come, first served."""
        lane = self._lanes.get(tool)
        if lane is None:
            lane = self._lanes[tool] = _Lane(self._per_tool)
        lane.users += 1
        try:
            async with lane.room:
                yield
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[tool]


class _Lane:
    __slots__ = ("room", "users")

    def __init__(self, size: int) -> None:
        self.room = anyio.Semaphore(size, fast_acquire=True)
        self.users = 0
