"""Which open candidates must go where there is no room: one session's must not keep everybody else's out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from rho_wasm.dynamic.generation import Candidate
from rho_wasm.results import Failed
from rho_wasm.workshop.rates import HOUR_S, share_of

__all__ = ["Room"]

_AUTHORS = 1_000


class Room:
    """Room for ``most`` open candidates. An author has at most half of what the others leave.

    Where that is too little for somebody who has fewer than another, the oldest candidate of the author with the most
    goes. Before those go the candidates of authors that were not heard of for an hour: an author is a session, which
    nobody continues after it ended. ``clock`` answers seconds. For one event loop.
    """

    def __init__(self, most: int, *, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._heard: OrderedDict[str, float] = OrderedDict()

    def hear(self, author: str) -> None:
        """That session is there."""
        self._heard[author] = self._clock()
        self._heard.move_to_end(author)
        while len(self._heard) > _AUTHORS:
            self._heard.popitem(last=False)

    def making(self, author: str, opened: Sequence[Candidate], *, kept: Callable[[Candidate], bool]) -> list[Candidate]:
        """Those of ``opened`` that must go for one more of ``author``, who was heard; mostly none.

        One that is ``kept`` stays: a person said yes to it, or is being asked. Raises :class:`Failed` where there is no
        room all the same.
        """
        own = [each for each in opened if each.author == author]
        others = [each for each in opened if each.author != author]
        gone: list[Candidate] = []
        while len(own) >= share_of(self._most, others=len(others)):
            if gone and len(own) + len(others) < self._most:
                break  # The place of one that had more is enough.
            one = self._first_to_go(others, more_than=len(own) + 1, kept=kept)
            if one is None:
                raise Failed(
                    f"not now: {len(own)} candidates of this session are open and {len(opened) - len(own)} of others, "
                    f"of {self._most} that may be, and a session has half of what others leave. Switch those that can "
                    'be switched, or let go of some: switch_tools with {"discard": [NUMBER]}; tool_status lists them',
                    details={"reason": "too_many_candidates", "limit": self._most},
                )
            others.remove(one)
            gone.append(one)
        return gone

    def _first_to_go(
        self, others: Sequence[Candidate], *, more_than: int, kept: Callable[[Candidate], bool]
    ) -> Candidate | None:
        now = self._clock()
        counts: dict[str, int] = {}
        for each in others:
            counts[each.author] = counts.get(each.author, 0) + 1

        def ended(candidate: Candidate) -> bool:
            heard = self._heard.get(candidate.author)
            return heard is None or heard <= now - HOUR_S

        droppable = [each for each in others if (ended(each) or counts[each.author] > more_than) and not kept(each)]
        return min(droppable, key=lambda each: (not ended(each), -counts[each.author], each.number), default=None)
