"""The one thread of a source in which it writes to its store and looks whether another process did."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["StoreWorker"]

Result = TypeVar("Result")


class StoreWorker:
    """A daemon thread that runs jobs in the order they came, and a tick every ``every_s`` seconds and after each."""

    def __init__(self, *, every_s: float = 0.25) -> None:
        self._every_s = every_s
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._ending = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, tick: Callable[[], None]) -> None:
        """Begins. ``tick`` is a bound method that does not raise. It is held weakly: the thread of a source that nobody
        closed ends when the source is gone.
        """
        self._thread = threading.Thread(
            target=_run,
            args=(self._jobs, weakref.WeakMethod(tick), self._every_s),
            name="rho_wasm-store",
            daemon=True,
        )
        self._thread.start()

    @property
    def current(self) -> bool:
        """Whether this is the worker's own thread."""
        return threading.current_thread() is self._thread

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        """Runs ``job`` in the thread; the future has its answer or what it raised. Cancelled after :meth:`close`."""
        future: Future[Result] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = job()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._ending:
            if not self._closed:
                self._jobs.put(run)
                return future
        future.cancel()
        return future

    def close(self, timeout_s: float = 10.0) -> None:
        """Ends the thread after what was submitted and a last tick, and waits ``timeout_s`` for that at most."""
        with self._ending:  # What came after the last job would never be done, and somebody may wait for it.
            self._closed = True
            self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(timeout_s)


def _run(
    jobs: queue.SimpleQueue[Callable[[], None] | None], tick: weakref.WeakMethod[Callable[[], None]], every_s: float
) -> None:
    ended = False
    while True:
        try:
            job = jobs.get(timeout=every_s)
        except queue.Empty:
            pass
        else:
            if job is not None:
                job()
            ended = job is None
            del job
        alive = tick()
        if alive is not None:
            alive()
        if alive is None or ended:
            return
        del alive
