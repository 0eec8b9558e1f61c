"""The worker processes of a host: started when they are needed, used by one call at a time, replaced when they die.

On the event loop's thread a handler of a signal may raise after any call (entry.py), so nothing there is done in two
steps that must not be parted. Whether a worker is somebody's is one word in it, and so is whether it is doomed; what
has to be done about either is done by a thread, where no signal is handled, again and again until it is.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from queue import Empty, SimpleQueue

import anyio
import anyio.to_thread

from rho_wasm.host_threads import HostThreads, NoThread
from rho_wasm.sandbox.entry import sure_entry
from rho_wasm.sandbox.errands import to_its_end
from rho_wasm.sandbox.faults import CallFailed
from rho_wasm.sandbox.frames import Strange
from rho_wasm.sandbox.signals import FORKED
from rho_wasm.sandbox.slots import Overloaded
from rho_wasm.sandbox.worker_process import Gone, Job, WorkerProcess, signal_name

__all__ = ["Lease", "WorkerPool"]

_LOOK_S = 0.25
"""How often the busy workers are looked at, whether one should have spoken."""
_IDLE_LOOKS = 40
"""So often none is busy before nobody looks any more."""
_GONE_S = 0.05
"""How long the end of one that was killed is waited for before the others are looked at again."""
_STOPPED_S = 5.0
"""How long a call may take to notice that its worker was killed."""
_MAX_FAILURES = 5
_FAILURES_S = 10.0
"""So many workers may die in this time before they serve. Then no more are started until it has passed."""


class Lease:
    """What one call has its ``worker`` by. A worker is nobody's again when its lease is given back, and it is doomed
    when its lease is lost: whoever had it was interrupted where it gives it back.
    """

    __slots__ = ("__weakref__", "reference", "worker")

    def __init__(self) -> None:
        self.worker: WorkerProcess | None = None
        self.reference: weakref.ref[object] = weakref.ref(self)


class WorkerPool:
    """At most ``count`` workers. Whoever takes one holds a slot (slots.py), so there is one for each.

    The one that was used last is used next: its modules are loaded and its memory is warm.
    """

    def __init__(self, count: int, *, job: Job, threads: HostThreads) -> None:
        self.count = count
        self.closed = False
        self._job = job
        self._threads = threads
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._workers: list[WorkerProcess] = []
        """All that are not known to be gone."""
        self._uses = 0
        self._failures: deque[float] = deque(maxlen=_MAX_FAILURES)
        self._last_failure = ""
        self._drained: anyio.Event | None = None
        self._watched = False
        self._doomed: SimpleQueue[None] = SimpleQueue()
        """Wakes the thread that watches."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the workers that were started and are not known to have ended."""
        return tuple(worker.pid for worker in tuple(self._workers) if not worker.doomed)

    async def fill(self) -> None:
        """Starts the workers that are missing, and waits for none of them to serve.

        Where none can be started, the next call says so.
        """
        while not self.closed and len(self.pids) < self.count and not self._failing():
            try:
                await to_its_end(self._threads, self._start)
            except (OSError, NoThread):
                return

    async def take(self, lease: Lease) -> WorkerProcess:
        """Puts a worker that serves into ``lease``, and answers it. However this ends, the lease is given back.

        Raises :class:`Overloaded` where none can be had, and :class:`CallFailed` where the pool is closed meanwhile,
        and in a process that was forked from its own.
        """
        if os.getpid() != self._process:
            raise CallFailed("capability_fault", FORKED)
        while True:
            worker = self._take_idle(lease)
            if worker is None:
                await self._start_one()
                continue
            self._see_that_it_is_watched()
            try:
                await worker.ready()
            except (Gone, Strange):
                await self.failed(lease, worker)
                if worker.overdue and not self.closed:
                    raise self._overloaded("a worker process did not begin to serve in time, and was killed") from None
                continue
            if worker.quiet:
                return worker
            self.give_back(lease, keep=False)

    @sure_entry
    def give_back(self, lease: Lease, *, keep: bool) -> None:
        """Whoever had it has no worker any more. ``keep``: it is as it was, and serves the next call. Idempotent."""
        worker = lease.worker
        if worker is not None:
            if not keep or not worker.intact or self.closed:
                worker.doomed = True
            lease.worker = worker.lease = None
            if worker.doomed:
                self._wake()
        drained = self._drained
        if drained is not None and not self._taken():
            drained.set()

    async def bury(self, worker: WorkerProcess) -> int:
        """Waits until one that closed its end is gone, and starts another. Its exit code; negative: the signal.

        It is the caller's, and of no more use.
        """
        worker.close()
        with anyio.CancelScope(shield=True):
            try:
                code = await to_its_end(self._threads, worker.reap)
            except NoThread:
                code = await anyio.to_thread.run_sync(worker.reap)
            worker.doomed = True
            await self.fill()
        return code

    async def failed(self, lease: Lease, worker: WorkerProcess) -> None:
        """It ended, or was strange, before it served the call that it was taken for."""
        self._failures.append(time.monotonic())
        code = await self.bury(worker)
        self.give_back(lease, keep=False)
        self._last_failure = f"with code {code}" if code >= 0 else f"by {signal_name(-code)}"

    async def aclose(self) -> None:
        """Kills the workers, and waits until they and the calls in them are gone. Idempotent."""
        with self._lock:
            self.closed = True
        for worker in tuple(self._workers):
            worker.doomed = True
        self._wake()
        # Who was interrupted may have given none back.
        with anyio.move_on_after(_STOPPED_S):
            while self._taken():
                self._drained = anyio.Event()
                await self._drained.wait()
        await anyio.to_thread.run_sync(self._end)

    def _take_idle(self, lease: Lease) -> WorkerProcess | None:
        with self._lock:
            last = None
            for worker in self._workers:
                if worker.lease is None and not worker.doomed and (last is None or worker.used > last.used):
                    last = worker
            if last is not None:
                self._uses += 1
                last.used = self._uses
                last.lease = lease.reference
                lease.worker = last
        return last

    def _taken(self) -> bool:
        return any(worker.lease is not None for worker in tuple(self._workers))

    def _wake(self) -> None:
        """One is doomed, and is to end at once."""
        self._doomed.put(None)
        try:
            self._see_that_it_is_watched()
        except Overloaded:
            # No thread to do it, so it is done here.
            for worker in tuple(self._workers):
                if worker.doomed:
                    worker.kill()

    def _see_that_it_is_watched(self) -> None:
        # Whether there is such a thread only it says: whoever starts one may be interrupted before or after it began.
        if self._watched:
            return
        try:
            threading.Thread(target=self._watch, name="rho_wasm workers", daemon=True).start()
        except RuntimeError:
            raise self._overloaded("no thread could be started") from None

    def _watch(self) -> None:
        """In a thread: kills those that do not speak in time, and ends the doomed. A timer for each call would cost
        more than most calls.
        """
        with self._lock:
            if self._watched:
                return
            self._watched = True
        idle = 0
        while True:
            try:
                self._doomed.get(timeout=_LOOK_S)
            except Empty:
                pass
            with self._lock:
                self._trim()
                busy = [worker for worker in self._workers if worker.doomed or worker.lease is not None]
                idle = 0 if busy else idle + 1
                if idle == _IDLE_LOOKS:
                    self._watched = False
                    if self._doomed.empty():
                        return
                    # Somebody saw that this thread was there, and woke it just then.
                    self._watched, idle = True, 0
            for worker in busy:
                self._look_at(worker)

    def _trim(self) -> None:
        """Where one came in the place of one that was not lost after all, the least recently used goes."""
        alive = [worker for worker in self._workers if not worker.doomed]
        if len(alive) > self.count:
            idle = [worker for worker in alive if worker.lease is None]
            for worker in sorted(idle, key=lambda each: each.used)[: len(alive) - self.count]:
                worker.doomed = True

    def _look_at(self, worker: WorkerProcess) -> None:
        with self._lock:  # Meanwhile nobody takes it.
            lease = worker.lease
            if lease is not None and lease() is None:
                worker.doomed = True
                worker.lease = lease = None
            if not worker.doomed:
                worker.look(time.monotonic())
                # What it said just then may have been heard, and it given back: nobody else is to take it.
                worker.doomed = worker.overdue
                return
        worker.kill()
        if lease is None:
            # Nobody hears it any more.
            worker.close()
            if worker.ends_within(_GONE_S):
                self._forget(worker)

    def _forget(self, worker: WorkerProcess) -> None:
        with self._lock:
            if worker in self._workers:
                self._workers.remove(worker)

    def _end(self) -> None:
        """In a thread: ends all that there are, and is over when they are gone."""
        for worker in tuple(self._workers):
            worker.kill()
            worker.close()
            worker.reap()
            self._forget(worker)

    async def _start_one(self) -> None:
        if self.closed:
            raise CallFailed("cancelled", "the call was cancelled")
        if self._failing():
            raise self._overloaded(
                f"{_MAX_FAILURES} worker processes in a row ended before they served ({self._last_failure})"
            )
        try:
            await to_its_end(self._threads, self._start)
        except OSError as error:
            raise self._overloaded(f"the system started no worker process ({error.strerror})") from None
        except NoThread:
            raise self._overloaded("no thread could be started") from None

    def _start(self) -> None:
        """In a thread: whoever waits for it may be gone by then, but the worker is in its place."""
        worker = WorkerProcess(self._job)
        with self._lock:
            if not self.closed:
                self._workers.append(worker)
                return
        worker.kill()
        worker.close()
        worker.reap()

    def _failing(self) -> bool:
        failures = self._failures
        return len(failures) == _MAX_FAILURES and time.monotonic() - failures[0] < _FAILURES_S

    def _overloaded(self, detail: str) -> Overloaded:
        return Overloaded(detail, limit="workers", value=self.count)
