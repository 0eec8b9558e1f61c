"""How many builds and tests run now, and whose turn is next."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from rho_wasm.results import Failed
from rho_wasm.workshop.rates import share_of

__all__ = ["Place", "Places"]


@dataclass(slots=True, eq=False)
class Place:
    """One work, which runs or waits for its turn."""

    session_id: str | None
    _places: Places = field(repr=False)
    _turn: anyio.Event = field(default_factory=anyio.Event, repr=False)

    async def pause(self) -> None:
        """Between two steps of a work: where another session waits, it may have its turn first."""
        await self._places.pass_on(self)

    async def wait(self) -> None:
        """Returns when it is its turn."""
        await self._turn.wait()

    def begin(self) -> None:
        """It is its turn."""
        self._turn.set()

    def renew(self) -> None:
        """It waits again."""
        self._turn = anyio.Event()


class Places:
    """So many work at once and some wait: whoever comes then is sent away at once, and holds nothing.

    One session has at most half of the places that the others leave it. Next is the session of which the fewest run;
    of those the one whose turn was longest ago. For one event loop.
    """

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._at_once = at_once
        self._most = at_once + waiting
        self._running: list[Place] = []
        self._waiting: list[Place] = []
        self._turns = 0
        self._last: dict[str | None, int] = {}
        """When each session that is inside had its last turn."""

    @asynccontextmanager
    async def one(self, session_id: str | None) -> AsyncIterator[Place]:
        """A place, for as long as the block lasts. Raises :class:`Failed` where too many have one already."""
        inside = [each.session_id for each in (*self._running, *self._waiting)]
        own = inside.count(session_id)
        if own >= share_of(self._most, others=len(inside) - own):
            raise Failed(
                f"not now: {len(inside)} builds and tests run or wait here already, {own} of them of this session. "
                "Come again in a few seconds",
                details={"reason": "busy", "limit": self._most, "retry_after_s": 5},
            )
        place = Place(session_id, self)
        self._waiting.append(place)
        self._next()
        try:
            await place.wait()
            yield place
        finally:
            (self._running if place in self._running else self._waiting).remove(place)
            self._next()
            if all(each.session_id != session_id for each in (*self._running, *self._waiting)):
                self._last.pop(session_id, None)

    async def pass_on(self, place: Place) -> None:
        """As :meth:`Place.pause`."""
        if all(each.session_id == place.session_id for each in self._waiting):
            return
        self._running.remove(place)
        place.renew()
        self._waiting.append(place)
        self._next()
        await place.wait()

    def _next(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            runs = Counter(each.session_id for each in self._running)
            place = min(self._waiting, key=lambda each: (runs[each.session_id], self._last.get(each.session_id, 0)))
            self._waiting.remove(place)
            self._running.append(place)
            self._turns += 1
            self._last[place.session_id] = self._turns
            place.begin()
