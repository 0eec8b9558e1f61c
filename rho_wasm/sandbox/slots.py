"""How many guest calls run at once: in all, of one tool, and within one budget of memory. The others wait in order."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from rho_wasm.limits import HostLimits

__all__ = ["Overloaded", "Slots"]


class Overloaded(Exception):
    """No slot came free in time. ``limit`` names the bound of HostLimits that was in the way."""

    def __init__(self, detail: str, *, limit: str, value: int) -> None:
        super().__init__(detail)
        self.detail = detail
        self.limit = limit
        self.value = value


class _Waiter:
    __slots__ = ("event", "granted", "memory", "tool")

    def __init__(self, tool: str, memory: int) -> None:
        self.tool = tool
        self.memory = memory
        self.granted = False
        self.event = anyio.Event()


class Slots:
    """First come, first served, except that a tool whose own slots are taken does not hold up other tools.

    Used from one event loop at a time; several after one another are fine.
    """

    def __init__(self, limits: HostLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self._running = 0
        self._memory = 0
        self._per_tool: Counter[str] = Counter()

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def taken(self, tool: str, *, memory: int) -> AsyncIterator[None]:
        """Holds a slot of ``tool`` and ``memory`` bytes inside. Raises :class:`Overloaded` after ``queue_ms``."""
        limits = self._limits
        if memory > limits.total_memory_bytes:
            raise Overloaded(
                "this call may use more memory than all calls together",
                limit="total_memory_bytes",
                value=limits.total_memory_bytes,
            )
        waiter = _Waiter(tool, memory)
        self._waiting.append(waiter)
        self._grant()
        try:
            if not waiter.granted:
                with anyio.move_on_after(limits.queue_ms / 1000):
                    await waiter.event.wait()
            if not waiter.granted:
                raise self._overloaded(tool)
            yield
        finally:
            self._leave(waiter)

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter.granted:
                self._running -= 1
                self._memory -= waiter.memory
                self._per_tool[waiter.tool] -= 1
                if not self._per_tool[waiter.tool]:
                    del self._per_tool[waiter.tool]
            else:
                self._waiting.remove(waiter)
        self._grant()

    def _grant(self) -> None:
        """Lets in, in order, all that fit."""
        limits = self._limits
        with self._lock:
            for waiter in list(self._waiting):
                if (
                    self._running >= limits.max_concurrent_calls
                    or self._memory + waiter.memory > limits.total_memory_bytes
                ):
                    # Whoever is next waits for room; letting smaller ones pass would let a large one wait for ever.
                    return
                if self._per_tool[waiter.tool] >= limits.max_concurrent_per_tool:
                    continue
                self._waiting.remove(waiter)
                waiter.granted = True
                self._running += 1
                self._memory += waiter.memory
                self._per_tool[waiter.tool] += 1
                waiter.event.set()

    def _overloaded(self, tool: str) -> Overloaded:
        limits = self._limits
        if self._per_tool[tool] >= limits.max_concurrent_per_tool:
            name, value = "max_concurrent_per_tool", limits.max_concurrent_per_tool
        elif self._running >= limits.max_concurrent_calls:
            name, value = "max_concurrent_calls", limits.max_concurrent_calls
        else:
            name, value = "total_memory_bytes", limits.total_memory_bytes
        return Overloaded(f"no slot came free in {limits.queue_ms} ms: try again later", limit=name, value=value)
