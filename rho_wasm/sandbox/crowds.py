"""How many calls of one module ran at once: what they took from each other, nobody else took from them."""

from __future__ import annotations

import time
from collections.abc import Callable

from rho_wasm.sandbox.entry import sure_entry

__all__ = ["Crowds", "Stay"]


class _Crowd:
    """The calls of one module that run now. ``area`` is their number, summed over time (calls times seconds)."""

    __slots__ = ("area", "at", "running")

    def __init__(self, now: float) -> None:
        self.running = 0
        self.area = 0.0
        self.at = now

    def advance(self, now: float) -> None:
        self.area += self.running * (now - self.at)
        self.at = now


class Crowds:
    """Counts running calls by module. Used from one event loop at a time; a call costs two looks at the clock.

    A call that nobody of its module meets, from :meth:`meet` to its end, costs none and need not be counted.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._crowds: dict[str, _Crowd] = {}

    def meet(self, sha256: str) -> Stay | None:
        """As :meth:`enter`, but None where no other call of the module runs."""
        return self.enter(sha256) if sha256 in self._crowds else None

    def enter(self, sha256: str) -> Stay:
        """A call of that module begins to run. Its :meth:`Stay.leave` is called once, when it ended."""
        now = self._clock()
        crowd = self._crowds.get(sha256)
        if crowd is None:
            crowd = self._crowds[sha256] = _Crowd(now)
        else:
            crowd.advance(now)
        stay = Stay(self._crowds, self._clock, sha256, crowd)
        crowd.running += 1
        return stay


class Stay:
    """One call among those of its module."""

    __slots__ = ("_area", "_began", "_clock", "_crowd", "_crowds", "_sha256")

    def __init__(self, crowds: dict[str, _Crowd], clock: Callable[[], float], sha256: str, crowd: _Crowd) -> None:
        self._crowds = crowds
        self._clock = clock
        self._sha256 = sha256
        self._crowd = crowd
        self._began, self._area = crowd.at, crowd.area

    @sure_entry
    def leave(self) -> float:
        """How many calls of the module ran during this one, itself included: the mean over its time, at least 1."""
        crowd = self._crowd
        try:
            crowd.advance(self._clock())
        finally:
            crowd.running -= 1
            if not crowd.running:
                del self._crowds[self._sha256]
        lasted = crowd.at - self._began
        return max(1.0, (crowd.area - self._area) / lasted) if lasted > 0 else 1.0
