"""How often each session, and all of them together, did something within the last hour."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rho_wasm.results import Failed

__all__ = ["HOUR_S", "Rates", "Taken", "share_of"]

HOUR_S = 3600.0
_SESSIONS = 1_000
"""That are remembered. A client that makes up sessions meets the bounds of all together."""


def share_of(bound: int, *, others: int) -> int:
    """How much of a shared ``bound`` one session may have where ``others`` have so much: half of what they leave.

    So there is something for whoever comes next, until nothing is left.
    """
    return max(0, bound - others + 1) // 2


@dataclass(slots=True)
class Taken:
    """What was counted. As a context manager it gives all of it back where its block raises."""

    at: float
    times: int
    _session_id: str | None
    _own: deque[float] = field(repr=False)
    _everybody: deque[tuple[float, str | None]] = field(repr=False)

    def give_back(self, *, own: bool = True) -> None:
        """It did not happen; without ``own`` it counts still, but for its session alone. May be called again."""
        for _ in range(self.times):
            if own:
                _remove(self._own, self.at)
            _remove(self._everybody, (self.at, self._session_id))
        self.times = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.give_back()


class Rates:
    """``clock`` answers seconds and never goes backwards."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._all: dict[str, deque[tuple[float, str | None]]] = {}
        self._sessions: OrderedDict[tuple[str, str | None], deque[float]] = OrderedDict()

    def take(self, what: str, session_id: str | None, *, most: int, of_all: int, times: int = 1) -> Taken:
        """Counts ``times`` of ``what`` (a plural). A session has at most half of what the others leave of ``of_all``.

        Raises :class:`Failed`, counting nothing, beyond a bound.
        """
        now = self.clock()
        key = (what, session_id)
        own = self._sessions.setdefault(key, deque())
        self._sessions.move_to_end(key)
        while len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        everybody = self._all.setdefault(what, deque())
        while own and own[0] <= now - HOUR_S:
            own.popleft()
        while everybody and everybody[0][0] <= now - HOUR_S:
            everybody.popleft()
        shared = [at for at, who in everybody if who == session_id]
        others = [at for at, who in everybody if who != session_id]
        share = share_of(of_all, others=len(others))
        if (over := len(own) + times - most) > 0:
            wait = _wait(own, over, now)
            raise _refused(what, len(own), "in this session", most, wait)
        if len(shared) + times > share:
            wait = _wait_for_share(shared, others, times, of_all, now)
            if len(everybody) + times > of_all:
                raise _refused(what, len(everybody), "in all sessions together", of_all, wait)
            raise _refused(what, len(shared), "in this session, which leaves as many to others", share, wait)
        own.extend([now] * times)
        everybody.extend([(now, session_id)] * times)
        return Taken(now, times, session_id, own, everybody)


def _remove(done: deque[float] | deque[tuple[float, str | None]], one: object) -> None:
    # What is an hour old, or of a session that was forgotten, is gone already.
    if one in done:
        done.remove(one)  # type: ignore[arg-type]


def _wait(done: deque[float], over: int, now: float) -> int:
    """Seconds until ``over`` of them are an hour old."""
    # Where more is asked at once than may be in an hour, later does not help, but less does.
    return math.ceil(done[over - 1] + HOUR_S - now) if over <= len(done) else math.ceil(HOUR_S)


def _wait_for_share(own: list[float], others: list[float], times: int, of_all: int, now: float) -> int:
    """Seconds until ``times`` more are within the share, if nobody does anything meanwhile."""
    gone_own = gone_others = 0
    while gone_own < len(own) or gone_others < len(others):
        first = min(*own[gone_own : gone_own + 1], *others[gone_others : gone_others + 1], math.inf)
        while gone_own < len(own) and own[gone_own] <= first:
            gone_own += 1
        while gone_others < len(others) and others[gone_others] <= first:
            gone_others += 1
        if len(own) - gone_own + times <= share_of(of_all, others=len(others) - gone_others):
            return math.ceil(first + HOUR_S - now)
    return math.ceil(HOUR_S)


def _refused(what: str, done: int, whose: str, bound: int, wait: int) -> Failed:
    return Failed(
        f"not now: {done} {what} in the last hour {whose}, of {bound} that may be. Come again in {wait} seconds",
        details={"reason": "rate_limited", "what": what, "limit": bound, "retry_after_s": wait},
    )
