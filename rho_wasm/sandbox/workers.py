"""The worker processes of a host: started when they are needed, used by one call at a time, replaced when they die."""

from __future__ import annotations

import os
import threading
import time
from collections import deque

import anyio
import anyio.to_thread

from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.frames import Strange
from rho_wasm.sandbox.signals import FORKED
from rho_wasm.sandbox.slots import Overloaded
from rho_wasm.sandbox.worker_process import Gone, Job, WorkerProcess, signal_name

__all__ = ["WorkerPool"]

_LOOK_S = 0.25
"""How often the busy workers are looked at, whether one should have spoken."""
_IDLE_LOOKS = 40
"""So often none is busy before nobody looks any more."""
_STOPPED_S = 5.0
"""How long a call may take to notice that its worker was killed."""
_MAX_FAILURES = 5
_FAILURES_S = 10.0
"""So many workers may die in this time before they serve. Then no more are started until it has passed."""


class WorkerPool:
    """At most ``count`` workers. Whoever takes one holds a slot (slots.py), so there is one for each.

    The one that was used last is used next: its modules are loaded and its memory is warm.
    """

    def __init__(self, count: int, *, job: Job) -> None:
        self.count = count
        self.closed = False
        self._job = job
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._dying: list[WorkerProcess] = []
        self._failures: deque[float] = deque(maxlen=_MAX_FAILURES)
        self._last_failure = ""
        self._drained: anyio.Event | None = None
        self._watched = False

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the workers that were started and are not known to have ended."""
        return tuple(worker.pid for worker in (*self._idle, *self._busy))

    async def fill(self) -> None:
        """Starts the workers that are missing, and waits for none of them to serve.

        Where none can be started, the next call says so.
        """
        while not self.closed and len(self._idle) + len(self._busy) < self.count and not self._failing():
            try:
                await anyio.to_thread.run_sync(self._start)
            except OSError:
                return

    async def take(self) -> WorkerProcess:
        """A worker that serves; it is given back. Raises :class:`Overloaded` where none can be had.

        Raises :class:`CallFailed` where it is closed meanwhile, and in a process that was forked from its own.
        """
        if os.getpid() != self._process:
            raise CallFailed("capability_fault", FORKED)
        while True:
            worker = self._take_idle()
            if worker is None:
                await self._start_one()
                continue
            try:
                await worker.ready()
                quiet = worker.quiet
            except (Gone, Strange):
                await self.failed(worker)
                continue
            except BaseException:
                self.give_back(worker)
                raise
            if quiet:
                return worker
            self.discard(worker)

    def give_back(self, worker: WorkerProcess) -> None:
        """It is as it was, and serves the next call."""
        if self.closed or len(self._idle) >= self.count:
            self.discard(worker)
            return
        self._idle.append(worker)
        self._left(worker)

    def discard(self, worker: WorkerProcess) -> None:
        """It is not to be used any more, and dies at once."""
        worker.kill()
        worker.close()
        with self._lock:
            self._dying = [each for each in {*self._dying, worker} if not each.gone]
        self._left(worker)

    async def bury(self, worker: WorkerProcess) -> int:
        """Waits until one that closed its end is gone, and starts another. Its exit code; negative: the signal."""
        try:
            with anyio.CancelScope(shield=True):
                code = await anyio.to_thread.run_sync(worker.reap)
        finally:
            self.discard(worker)
        with anyio.CancelScope(shield=True):
            await self.fill()
        return code

    async def failed(self, worker: WorkerProcess) -> None:
        """It ended, or was strange, before it served the call that it was taken for."""
        self._failures.append(time.monotonic())
        worker.close()
        code = await self.bury(worker)
        self._last_failure = f"with code {code}" if code >= 0 else f"by {signal_name(-code)}"

    async def aclose(self) -> None:
        """Kills the workers, and waits until they and the calls in them are gone. Idempotent."""
        with self._lock:
            self.closed = True
        for worker in tuple(self._busy):
            worker.kill()
        while self._idle:
            self.discard(self._idle.pop())
        # Who was interrupted may have given none back.
        with anyio.move_on_after(_STOPPED_S):
            while self._busy:
                self._drained = anyio.Event()
                await self._drained.wait()
        while self._dying:
            await anyio.to_thread.run_sync(self._dying[-1].reap)
            self._dying.pop()

    def _take_idle(self) -> WorkerProcess | None:
        with self._lock:
            if not self._idle:
                return None
            worker = self._idle[-1]
            self._busy.add(worker)
            del self._idle[-1]
            if self._watched:
                return worker
            self._watched = True
        try:
            threading.Thread(target=self._watch, name="rho_wasm workers", daemon=True).start()
        except RuntimeError:
            self._watched = False
            self.give_back(worker)
            raise Overloaded("no thread could be started", limit="workers", value=self.count) from None
        return worker

    def _watch(self) -> None:
        """In a thread: kills those that do not speak in time. A timer for each call would cost more than most calls."""
        idle = 0
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                busy = tuple(self._busy)
                idle = 0 if busy else idle + 1
                if idle == _IDLE_LOOKS:
                    self._watched = False
                    return
            for worker in busy:
                worker.look(time.monotonic())

    def _left(self, worker: WorkerProcess) -> None:
        self._busy.discard(worker)
        if not self._busy and self._drained is not None:
            self._drained.set()

    async def _start_one(self) -> None:
        if self.closed:
            raise CallFailed("cancelled", "the call was cancelled")
        if self._failing():
            raise Overloaded(
                f"{_MAX_FAILURES} worker processes in a row ended before they served ({self._last_failure})",
                limit="workers",
                value=self.count,
            )
        try:
            await anyio.to_thread.run_sync(self._start)
        except OSError as error:
            detail = f"the system started no worker process ({error.strerror})"
            raise Overloaded(detail, limit="workers", value=self.count) from None

    def _start(self) -> None:
        """In a thread: whoever waits for it may be gone by then, but the worker is in its place."""
        worker = WorkerProcess(self._job)
        with self._lock:
            if not self.closed:
                self._idle.insert(0, worker)
                return
        self.discard(worker)

    def _failing(self) -> bool:
        failures = self._failures
        return len(failures) == _MAX_FAILURES and time.monotonic() - failures[0] < _FAILURES_S
