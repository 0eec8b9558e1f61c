"""How often each session, and all of them together, did something within the last hour; and how many do it now."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from rho_wasm.results import Failed

__all__ = ["HOUR_S", "Places", "Rates"]

HOUR_S = 3600.0
_SESSIONS = 1_000
"""That are remembered. A client that makes up sessions meets the bounds of all together."""


class Rates:
    """``clock`` answers seconds and never goes backwards."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all: dict[str, deque[float]] = {}
        self._sessions: OrderedDict[tuple[str, str | None], deque[float]] = OrderedDict()

    def take(self, what: str, session_id: str | None, *, most: int, of_all: int, times: int = 1) -> None:
        """Counts ``times`` of ``what`` (a plural). Raises :class:`Failed`, counting nothing, beyond a bound."""
        now = self._clock()
        key = (what, session_id)
        own = self._sessions.setdefault(key, deque())
        self._sessions.move_to_end(key)
        while len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        everybody = self._all.setdefault(what, deque())
        for done, bound, whose in ((own, most, "in this session"), (everybody, of_all, "in all sessions together")):
            while done and done[0] <= now - HOUR_S:
                done.popleft()
            if (over := len(done) + times - bound) > 0:
                # Where more is asked at once than may be in an hour, later does not help, but less does.
                wait = math.ceil(done[over - 1] + HOUR_S - now) if over <= len(done) else math.ceil(HOUR_S)
                raise Failed(
                    f"not now: {len(done)} {what} in the last hour {whose}, of {bound} that may be. "
                    f"Come again in {wait} seconds",
                    details={"reason": "rate_limited", "what": what, "limit": bound, "retry_after_s": wait},
                )
        own.extend([now] * times)
        everybody.extend([now] * times)


class Places:
    """So many work at once and some wait: whoever comes then is sent away at once, and holds nothing.

    One session has at most half of all places, so that it cannot keep the others out.
    """

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._free = anyio.Semaphore(at_once)
        self._most = at_once + waiting
        self._inside: Counter[str | None] = Counter()

    @asynccontextmanager
    async def one(self, session_id: str | None) -> AsyncIterator[None]:
        """A place, for as long as the block lasts. Raises :class:`Failed` where too many have one already."""
        inside, own = self._inside.total(), self._inside[session_id]
        if inside >= self._most or own >= max(1, self._most // 2):
            raise Failed(
                f"not now: {inside} builds and tests run or wait here already, {own} of them of this session. "
                "Come again in a few seconds",
                details={"reason": "busy", "limit": self._most, "retry_after_s": 5},
            )
        self._inside[session_id] += 1
        try:
            async with self._free:
                yield
        finally:
            self._inside[session_id] -= 1
            if not self._inside[session_id]:
                del self._inside[session_id]
