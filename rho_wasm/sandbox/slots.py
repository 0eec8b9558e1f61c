"""How many guest calls run at once: in all, of one tool, and within one budget of memory. The others wait in order."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from rho_wasm.limits import HostLimits
from rho_wasm.sandbox.entry import sure_entry

__all__ = ["Overloaded", "Slots"]


class Overloaded(Exception):
    """No slot came free in time. ``limit`` names the bound of HostLimits that was in the way."""

    def __init__(self, detail: str, *, limit: str, value: int) -> None:
        super().__init__(detail)
        self.detail = detail
        self.limit = limit
        self.value = value


class _Waiter:
    __slots__ = ("event", "granted", "holding", "memory", "stuck", "tool")

    def __init__(self, tool: str, memory: int, holding: int) -> None:
        self.tool = tool
        self.memory = memory
        self.holding = holding
        self.granted = False
        self.stuck = False
        self.event = anyio.Event()


class Slots:
    """First come, first served, except that a tool whose own slots are taken does not hold up other tools, and that
    calls for which others wait come before those for which nobody does.

    A call that another call makes waits while that one keeps its slot. Where all slots are kept by calls that wait like
    this, no wait would ever end: then the latest of them is told at once that there is no room.

    Used from one event loop at a time; several after one another are fine. Where a handler of a signal raises there
    (entry.py), nobody loses a slot: what counts them calls nothing once it began to.
    """

    def __init__(self, limits: HostLimits) -> None:
        self._limits = limits
        self._most = limits.max_concurrent_calls
        self._most_per_tool = limits.max_concurrent_per_tool
        self._most_memory = limits.total_memory_bytes
        self._waiting: deque[_Waiter] = deque()
        self._running = 0
        self._memory = 0
        self._per_tool: dict[str, int] = {}

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def taken(self, tool: str, *, memory: int) -> AsyncIterator[None]:
        """Holds a slot of ``tool`` and ``memory`` bytes inside. Raises :class:`Overloaded` after ``queue_ms``."""
        taken = self.take_now(tool, memory)
        try:
            if not taken:
                taken = await self.take(tool, memory)
            yield
        finally:
            if taken:
                self.give_back(tool, memory)

    def take_now(self, tool: str, memory: int) -> bool:
        """Takes a slot if one is free and nobody waits. Whoever has one gives it back, once."""
        of_tool = self._per_tool.get(tool, 0) + 1
        together = self._memory + memory
        if (
            self._waiting
            or self._running >= self._most
            or together > self._most_memory
            or of_tool > self._most_per_tool
        ):
            return False
        self._running += 1
        self._memory = together
        self._per_tool[tool] = of_tool
        return True

    async def take(self, tool: str, memory: int, *, holding: int = 0) -> bool:
        """Waits for a slot and takes it, and answers True. Raises :class:`Overloaded` after ``queue_ms``.

        ``holding`` is how many slots are kept by calls that wait for the one that this slot is for.
        """
        limits = self._limits
        if memory > limits.total_memory_bytes:
            raise Overloaded(
                "this call may use more memory than all calls together",
                limit="total_memory_bytes",
                value=limits.total_memory_bytes,
            )
        waiter = _Waiter(tool, memory, holding)
        try:
            if holding:
                self._waiting.insert(sum(1 for one in self._waiting if one.holding), waiter)
            else:
                self._waiting.append(waiter)
            self._grant()
            if not waiter.granted and not waiter.stuck:
                with anyio.move_on_after(limits.queue_ms / 1000):
                    await waiter.event.wait()
            if waiter.stuck:
                raise Overloaded(
                    "every slot is kept by a call that waits for another one: try again later",
                    limit="max_concurrent_calls",
                    value=limits.max_concurrent_calls,
                )
            if not waiter.granted:
                raise self._overloaded(tool)
        except BaseException:
            self._forget(waiter)
            raise
        return True

    @sure_entry
    def give_back(self, tool: str, memory: int) -> None:
        """The slot is free, and goes to whoever waits for it."""
        self._running -= 1
        self._memory -= memory
        left = self._per_tool[tool] - 1
        if left:
            self._per_tool[tool] = left
        else:
            del self._per_tool[tool]
        if self._waiting:
            self._grant()

    @sure_entry
    def _forget(self, waiter: _Waiter) -> None:
        """Whoever waited does not any more; a slot that came meanwhile goes on to the next."""
        if waiter.granted:
            self.give_back(waiter.tool, waiter.memory)
        elif waiter in self._waiting:
            self._waiting.remove(waiter)
            self._grant()

    def _grant(self) -> None:
        """Lets in, in order, all that fit. Where nothing can move any more, one call for which others wait gives up."""
        self._let_in()
        nested = [waiter for waiter in self._waiting if waiter.holding and not waiter.granted]
        if nested and sum(waiter.holding for waiter in nested) >= self._running:
            nested[-1].stuck = True
            self._waiting.remove(nested[-1])
            nested[-1].event.set()

    def _let_in(self) -> None:
        for waiter in list(self._waiting):
            if not waiter.granted:
                if not self._fits(waiter.memory):
                    # Whoever is next waits for room; letting smaller ones pass would let a large one wait for ever.
                    return
                if self._full(waiter.tool):
                    continue
                self._count(waiter.tool, waiter.memory)
                waiter.granted = True
            self._waiting.remove(waiter)
            waiter.event.set()

    def _fits(self, memory: int) -> bool:
        return self._running < self._most and self._memory + memory <= self._most_memory

    def _full(self, tool: str) -> bool:
        return self._per_tool.get(tool, 0) >= self._most_per_tool

    def _count(self, tool: str, memory: int) -> None:
        of_tool = self._per_tool.get(tool, 0) + 1
        self._running += 1
        self._memory += memory
        self._per_tool[tool] = of_tool

    def _overloaded(self, tool: str) -> Overloaded:
        limits = self._limits
        if self._full(tool):
            name, value = "max_concurrent_per_tool", limits.max_concurrent_per_tool
        elif self._running >= limits.max_concurrent_calls:
            name, value = "max_concurrent_calls", limits.max_concurrent_calls
        else:
            name, value = "total_memory_bytes", limits.total_memory_bytes
        return Overloaded(f"no slot came free in {limits.queue_ms} ms: try again later", limit=name, value=value)
