"""Moves the epoch of one engine on while guests run, so that each is asked every few milliseconds whether to go on.

Deadlines are never counted in ticks: a tick only makes a guest ask, and what it asks is the monotonic clock. So ticks
that come late, early or twice do no harm.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeAlias

import wasmtime

from rho_wasm.sandbox.capi import leaked_ticks
from rho_wasm.sandbox.posix import FunctionTimer

__all__ = ["PERIOD_MS", "ThreadTimer", "Ticker", "TickerKind"]

PERIOD_MS = 5.0
"""2 % of one core while guests run, nothing while none does."""

TickerKind: TypeAlias = Literal["timer", "thread"]


class _Timer(Protocol):
    def arm(self) -> None: ...
    def disarm(self) -> None: ...
    def close(self) -> None: ...


class ThreadTimer:
    """The ticker where there are no POSIX timers (macOS): a daemon thread, which busy Python threads can hold up."""

    def __init__(self, engine: wasmtime.Engine, *, period_ms: float) -> None:
        self._engine = engine
        self._period_s = period_ms / 1000
        self._armed = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="rho_wasm ticker", daemon=True)
        self._thread.start()

    def arm(self) -> None:
        self._armed.set()

    def disarm(self) -> None:
        self._armed.clear()

    def close(self) -> None:
        self._closed.set()
        self._armed.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._closed.is_set():
            self._armed.wait()
            if not self._closed.wait(self._period_s):
                self._engine.increment_epoch()


class Ticker:
    """The one ticker of an engine, armed only while calls run. ``kind`` overrides the choice for this platform."""

    def __init__(self, engine: wasmtime.Engine, *, kind: TickerKind | None = None) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._closed = False
        self._timer: _Timer
        self.kind: TickerKind
        """``timer`` needs no interpreter lock, ``thread`` does."""
        self.kind, self._timer = _make(engine, kind or ("timer" if sys.platform == "linux" else "thread"))

    @property
    def armed(self) -> bool:
        return self._running > 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """The epoch moves on inside. From any thread, any number at once."""
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._timer.arm()
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if self._running == 0:
                    self._timer.disarm()

    def close(self) -> None:
        """Ends it, once no call runs any more. Idempotent."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._timer.close()


def _make(engine: wasmtime.Engine, kind: TickerKind) -> tuple[TickerKind, _Timer]:
    if kind == "timer":
        try:
            return kind, FunctionTimer(*leaked_ticks(engine), period_ms=PERIOD_MS)
        except OSError:
            pass  # This user has as many timers as it may have: a thread stops guests too, only later.
    return "thread", ThreadTimer(engine, period_ms=PERIOD_MS)
