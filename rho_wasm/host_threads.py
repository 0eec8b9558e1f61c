"""Daemon threads of our own for the host's sync code: handlers and gates.

anyio's worker threads will not do: with ``abandon_on_cancel`` an abandoned one hangs the interpreter at exit on asyncio
and keeps its limiter's token on trio. These are daemons, so an abandoned one holds up nobody, and it is counted until
it ends.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel

try:
    import sniffio
except ModuleNotFoundError:  # anyio does without it, on asyncio alone
    sniffio = None  # type: ignore[assignment]

__all__ = [
    "Aside",
    "GaveUp",
    "HostThreads",
    "HostThreadsStatistics",
    "NoThread",
    "Outcome",
    "on_behalf_of",
    "on_whose_behalf",
]

_GUEST: contextvars.ContextVar[str | None] = contextvars.ContextVar("rho_wasm_guest", default=None)
_SHARE = 4
"""One guest may leave this part of the threads behind that all may: a quarter."""

_NO_THREAD_S = 0.005
"""How often an event is looked at where no thread is left to wait for it."""
_IDLE_S = 10.0
"""How long a thread without work waits for more before it ends."""


@contextlib.contextmanager
def on_behalf_of(guest: str) -> Iterator[None]:
    """Inside, threads that are left behind count as left by ``guest``, the artifact that asked for what they do.

    Inside of another one it says nothing: whoever is called by a guest works for the first of them.
    """
    if _GUEST.get() is not None:
        yield
        return
    _GUEST.set(guest)
    try:
        yield
    finally:
        _GUEST.set(None)


def on_whose_behalf() -> str:
    """The artifact that is named round what runs; empty where none is."""
    return _GUEST.get() or ""


class NoThread(Exception):
    """No thread may or can be started: the host has no room, which is not the fault of what was to run in it."""


class GaveUp(Exception):
    """Whoever waited for a function in a thread does so no more, and awaits nothing for it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a function came to: its value, or what it raised (kept, not raised, so that nothing is lost on the way)."""

    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class HostThreadsStatistics:
    """A snapshot. ``running`` includes ``abandoned``; ``abandoned_ever`` never goes down; ``idle`` wait for work."""

    running: int
    abandoned: int
    abandoned_ever: int
    idle: int


class _Job:
    __slots__ = ("abandoned", "arguments", "context", "done", "function", "guest", "outcome", "token")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self.guest = _GUEST.get()
        self.context = contextvars.copy_context()
        if sniffio is not None:
            # The copy would say that an event loop runs in the thread, and anyio.run() there would refuse.
            self.context.run(sniffio.current_async_library_cvar.set, None)
        self.token = anyio.lowlevel.current_token()
        self.done = anyio.Event()
        self.outcome: Outcome | None = None
        self.abandoned = False


class Aside:
    """What one function in a thread has awaited meanwhile, in the task that waits for the function itself."""

    def __init__(self) -> None:
        self._job: _Job | None = None
        self._function: Callable[[], Awaitable[Any]] | None = None
        self._answers: SimpleQueue[Outcome | None] = SimpleQueue()

    def wait(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """What ``await function()`` comes to there; this thread waits for it. Raises :class:`GaveUp`.

        What that raises ends the waiting task's own wait, and is not seen here.
        """
        job = self._job
        if job is None or job.abandoned:
            raise GaveUp
        self._function = function
        try:
            anyio.from_thread.run_sync(job.done.set, token=job.token)
        except (anyio.RunFinishedError, RuntimeError):
            raise GaveUp from None
        outcome = self._answers.get()
        if outcome is None:
            raise GaveUp
        return outcome.value

    def begin(self, job: _Job) -> None:
        """``job`` may ask from here on."""
        self._job = job

    def end(self) -> None:
        """Nobody waits any more, and nothing is held for it."""
        self._job = None
        self._answers.put(None)

    async def serve(self, job: _Job) -> None:
        """Awaits what the thread asked for."""
        job.done = anyio.Event()
        function, self._function = self._function, None
        if function is not None:
            self._answers.put(Outcome(await function()))


class HostThreads:
    """Runs sync functions in daemon threads; a caller that is cancelled goes away, and its thread is abandoned.

    At ``max_abandoned`` abandoned threads that still run, :meth:`run` raises :class:`NoThread` at once. There
    is no other bound: whoever calls bounds how many run at once. Threads are kept for reuse for a few seconds.

    A guest chooses when it is over, and may call what is slow: so for one guest (:func:`on_behalf_of`) that is so at a
    quarter of them already, and all others go on.
    """

    def __init__(self, *, max_abandoned: int = 16) -> None:
        self.max_abandoned = max_abandoned
        self._idle: deque[SimpleQueue[_Job]] = deque()
        self._lock = threading.Lock()
        self._running = self._abandoned = self._abandoned_ever = 0
        self._abandoned_by: Counter[str] = Counter()

    def statistics(self) -> HostThreadsStatistics:
        with self._lock:
            return HostThreadsStatistics(self._running, self._abandoned, self._abandoned_ever, len(self._idle))

    async def run(self, function: Callable[..., Any], *arguments: Any, aside: Aside | None = None) -> Outcome:
        """``function(*arguments)`` in a thread, in a copy of the caller's context variables.

        Cancellation leaves at once and abandons the thread: Python can stop none. What it then does is lost. ``aside``
        is how the function has something awaited here meanwhile.
        """
        job = _Job(function, arguments)
        with self._lock:
            if self._abandoned >= self.max_abandoned:
                raise NoThread(f"{self._abandoned} calls before it did not stop in time and still run")
            if job.guest is not None and self._abandoned_by[job.guest] * _SHARE >= self.max_abandoned:
                left = self._abandoned_by[job.guest]
                raise NoThread(f"{left} calls that the same guest asked for did not stop in time and still run")
            self._running += 1
        if aside is not None:
            aside.begin(job)
        try:
            self._hand_over(job)
        except RuntimeError:
            if aside is not None:
                aside.end()
            with self._lock:
                self._running -= 1
            raise NoThread("the system starts no further thread") from None
        try:
            await job.done.wait()
            while aside is not None and job.outcome is None:
                await aside.serve(job)
                await job.done.wait()
        except BaseException:
            with self._lock:
                if job.outcome is None:
                    job.abandoned = True
                    self._abandoned += 1
                    self._abandoned_ever += 1
                    if job.guest is not None:
                        self._abandoned_by[job.guest] += 1
            raise
        finally:
            if aside is not None:
                aside.end()
        assert job.outcome is not None
        return job.outcome

    async def until(self, event: threading.Event) -> None:
        """Waits until ``event`` is set, whoever cancels."""
        while not event.is_set():
            # asyncio's own cancel() gets through a shield, so it may take more than one try.
            with anyio.CancelScope(shield=True), contextlib.suppress(anyio.get_cancelled_exc_class()):
                try:
                    await self.run(event.wait)
                except NoThread:
                    await anyio.sleep(_NO_THREAD_S)

    def _hand_over(self, job: _Job) -> None:
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            inbox.put(job)
            threading.Thread(target=self._work, args=(inbox,), name="rho_wasm host code", daemon=True).start()
        else:
            inbox.put(job)

    def _work(self, inbox: SimpleQueue[_Job]) -> None:
        while True:
            try:
                job = inbox.get(timeout=_IDLE_S)
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:
                    continue  # a job is on its way
                return
            self._run(job)
            del job  # what it holds must not live as long as an idle thread
            self._idle.append(inbox)

    def _run(self, job: _Job) -> None:
        try:
            outcome = Outcome(job.context.run(job.function, *job.arguments))
        except BaseException as error:
            outcome = Outcome(error=error)
        with self._lock:
            job.outcome = outcome
            self._running -= 1
            if job.abandoned:
                self._abandoned -= 1
                if job.guest is not None:
                    self._abandoned_by[job.guest] -= 1
                    if not self._abandoned_by[job.guest]:
                        del self._abandoned_by[job.guest]
                return
        try:
            anyio.from_thread.run_sync(job.done.set, token=job.token)
        except (anyio.RunFinishedError, RuntimeError):
            return  # the event loop is gone, and with it whoever waited
