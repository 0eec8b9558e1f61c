"""Switches that may wait for a person: they go on when the call that asked for one has ended."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from rho_wasm.dynamic.generation import Generation
from rho_wasm.dynamic.history import Check
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.errors import Closed

__all__ = ["Switching"]


class _Switch:
    def __init__(self) -> None:
        self.done = anyio.Event()
        self.live: Generation | None = None
        self.error: Exception | None = None


class Switching:
    """Activates candidates, each once at a time. An async context manager; at its end those that still wait stop."""

    def __init__(self, source: DynamicSource) -> None:
        self._source = source
        self._running: dict[int, _Switch] = {}
        self._tasks: TaskGroup | None = None

    async def activate(self, number: int, *, wait_s: float, check: Check) -> Generation | None:
        """The generation that is live then; None where the answer is not there after ``wait_s`` seconds.

        Asked again for the same candidate it waits for the same answer, and the first ``check`` holds. Raises as
        ``DynamicSource.activate`` does.
        """
        switch = self._running.get(number)
        if switch is None:
            if self._tasks is None:
                raise Closed("the workshop")
            switch = self._running[number] = _Switch()
            self._tasks.start_soon(self._run, number, switch, check)
        with anyio.move_on_after(wait_s):
            await switch.done.wait()
        if not switch.done.is_set():
            return None
        if switch.error is not None:
            raise switch.error
        if switch.live is None:
            raise Closed("the workshop")
        return switch.live

    def waits(self, number: int) -> bool:
        """Whether the gates are being asked about a candidate now."""
        return number in self._running

    async def _run(self, number: int, switch: _Switch, check: Check) -> None:
        try:
            switch.live = await self._source.activate(number, check=check)
        except Exception as error:
            # Whoever asked hears of it, even if it is a fault of the host: here it would end all other switches.
            switch.error = error.with_traceback(None)
        finally:
            del self._running[number]
            switch.done.set()

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            tasks.cancel_scope.cancel()
            # Its own end alone: what the block raised goes on as it is, and in no group.
            await tasks.__aexit__(None, None, None)
