"""One session's candidates do not keep the others' out, and what a session left behind goes first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rho_wasm import Failed
from rho_wasm.dynamic.generation import Candidate, Changes
from rho_wasm.frozen import FrozenMap
from rho_wasm.testing import FixedClock
from rho_wasm.workshop.room import Room


class Shelf:
    """What is open, and the room for it."""

    def __init__(self, most: int) -> None:
        self.clock = FixedClock()
        self.room = Room(most, clock=self.clock)
        self.open: list[Candidate] = []
        self.number = 0
        self.kept: set[int] = set()

    def put(self, author: str, *, heard: bool = True) -> list[int]:
        """One more of that author; the numbers of those that had to go."""
        if heard:
            self.room.hear(author)
        gone = self.room.making(author, self.open, kept=self._is_kept())
        self.number += 1
        made = Candidate(
            number=self.number,
            parent=0,
            author=author,
            note="",
            created_at=0.0,
            tools=FrozenMap(),
            changes=Changes(),
        )
        self.open = [each for each in self.open if each not in gone] + [made]
        return [each.number for each in gone]

    def _is_kept(self) -> Callable[[Candidate], bool]:
        return lambda each: each.number in self.kept


def test_one_session_has_half_of_the_room_and_is_told_how_to_make_some() -> None:
    shelf = Shelf(20)
    for _ in range(10):
        assert shelf.put("greedy") == []
    with pytest.raises(Failed, match=r'"discard"') as refused:
        shelf.put("greedy")
    assert refused.value.details == {"reason": "too_many_candidates", "limit": 20}
    assert shelf.put("modest") == []


def test_where_there_is_no_room_the_oldest_goes_of_whoever_has_the_most_and_everybody_gets_as_much() -> None:
    shelf = Shelf(8)
    for author, count in (("one", 4), ("two", 2), ("three", 1), ("four", 1)):
        for _ in range(count):
            shelf.put(author)
    assert shelf.put("late") == [1]
    assert shelf.put("late") == [2]
    with pytest.raises(Failed):
        shelf.put("late")
    assert len(shelf.open) <= 8


def test_what_ended_sessions_left_goes_first_and_what_a_person_said_yes_to_stays() -> None:
    shelf = Shelf(4)
    for author in ("a", "b", "c"):
        shelf.put(author)
    shelf.put("d", heard=False)
    assert shelf.put("late") == [4]
    shelf.clock.advance(3_600)
    shelf.room.hear("b")
    shelf.kept = {1}
    assert shelf.put("later") == [3]
    assert sorted(each.author for each in shelf.open) == ["a", "b", "late", "later"]
