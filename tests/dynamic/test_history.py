from __future__ import annotations

import contextlib
import itertools
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from rho_wasm.dynamic.generation import Candidate, Generation, ToolVersion, Verdict, VersionKey
from rho_wasm.dynamic.history import Switched
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import Quarantine
from rho_wasm.errors import Corrupt, GenerationConflict, NameInvalid, StoreError, UnknownGeneration
from rho_wasm.testing import FixedClock


class Bench:
    """A store and short words for what is done to it. Versions are named by one letter."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.history = store.history

    def stage(self, *, remove: tuple[str, ...] = (), **add: str) -> Candidate:
        versions = {name: ToolVersion(letter * 64) for name, letter in add.items()}
        return self.history.stage(versions, remove, author="model", note="a note")

    def go(self, *, remove: tuple[str, ...] = (), floor: bool = False, **add: str) -> int:
        return self.history.activate(self.stage(remove=remove, **add).number, floor=floor).live.number

    def back(self, to: int | None = None) -> int:
        return self.history.roll_back(to, author="operator", note="").live.number

    def quarantine(self, tool: str, letter: str) -> Switched | None:
        version = VersionKey(tool, letter * 64)
        return self.store.quarantine(Quarantine(version=version, generation=1, at=0.0, reasons=("trapped", "trapped")))

    def tools(self) -> dict[str, str]:
        return {name: version.artifact[0] for name, version in self.history.live().tools.items()}

    def states(self) -> dict[int, str]:
        return {generation.number: generation.state for generation in self.history.all()}


@pytest.fixture
def bench(clock: FixedClock) -> Iterator[Bench]:
    with Store.open(":memory:", clock=clock) as store:
        yield Bench(store)


def test_a_fresh_store_has_generation_0_empty_and_live(bench: Bench) -> None:
    live = bench.history.live()
    assert (live.number, live.parent, dict(live.tools), live.state) == (0, None, {}, "live")
    assert bench.history.all() == (live,)


def test_a_candidate_is_numbered_and_not_live(bench: Bench, clock: FixedClock) -> None:
    candidate = bench.stage(calc="a")
    assert isinstance(candidate, Candidate)
    assert (candidate.number, candidate.parent, candidate.state) == (1, 0, "candidate")
    assert (candidate.author, candidate.note, candidate.created_at) == ("model", "a note", clock())
    assert candidate.changes.added == ("calc",)
    assert bench.tools() == {}
    assert bench.history.get(1) == candidate


def test_activating_supersedes_what_was_live(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(text="a")
    assert bench.tools() == {"calc": "a", "text": "a"}
    assert bench.states() == {0: "superseded", 1: "superseded", 2: "live"}
    assert [(switch.number, switch.previous) for switch in bench.history.switches()] == [(2, 1), (1, 0)]


def test_a_switch_says_what_changed(bench: Bench) -> None:
    bench.go(calc="a", text="a")
    switched = bench.history.activate(bench.stage(calc="b", new="a", remove=("text",)).number)
    changes = switched.changes
    assert (changes.added, changes.changed, changes.removed) == (("new",), ("calc",), ("text",))


def test_removing_a_tool_that_is_not_there_is_refused(bench: Bench) -> None:
    with pytest.raises(NameInvalid, match="no such tool"):
        bench.stage(remove=("calc",))
    assert bench.states() == {0: "live"}


def test_a_generation_that_is_not_there_is_unknown(bench: Bench) -> None:
    for number in (7, -1, 2**70):
        with pytest.raises(UnknownGeneration):
            bench.history.get(number)
        with pytest.raises(UnknownGeneration):
            bench.back(number)


def test_only_a_candidate_can_be_activated(bench: Bench) -> None:
    number = bench.go(calc="a")
    with pytest.raises(UnknownGeneration, match="no candidate but live"):
        bench.history.activate(number)


def test_a_rejected_candidate_stays_rejected_and_says_why(bench: Bench) -> None:
    candidate = bench.stage(calc="a")
    verdicts = [Verdict("admission", True), Verdict("examples", False, ("calc: example 1: expected 1, got 2",))]
    bench.history.judge(candidate.number, verdicts, rejected="by the gate examples")
    assert bench.states()[1] == "rejected"
    assert bench.history.get(1).why == "by the gate examples"
    assert list(bench.history.verdicts(1)) == verdicts
    with pytest.raises(UnknownGeneration, match="rejected"):
        bench.history.activate(1)


def test_of_two_candidates_for_one_tool_the_second_conflicts(bench: Bench) -> None:
    first, second = bench.stage(calc="a"), bench.stage(calc="b")
    bench.history.activate(first.number)
    with pytest.raises(GenerationConflict) as caught:
        bench.history.activate(second.number)
    assert (caught.value.tools, caught.value.based_on, caught.value.live) == (("calc",), 0, 1)
    assert bench.states() == {0: "superseded", 1: "live", 2: "candidate"}


def test_a_candidate_for_other_tools_is_rebased_on_what_is_live(bench: Bench) -> None:
    first, second = bench.stage(calc="a"), bench.stage(text="a")
    bench.history.activate(first.number)
    switched = bench.history.activate(second.number)
    assert bench.tools() == {"calc": "a", "text": "a"}
    assert (switched.live.number, switched.live.parent, switched.live.author) == (3, 1, "model")
    assert switched.changes.added == ("text",)
    assert bench.states() == {0: "superseded", 1: "superseded", 2: "superseded", 3: "live"}
    assert bench.history.get(2).why == "rebased on 1 as 3"


def test_an_automatic_return_elsewhere_does_not_starve_an_operator(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(calc="b")
    mine = bench.stage(text="a")
    bench.quarantine("calc", "b")
    bench.history.activate(mine.number)
    assert bench.tools() == {"calc": "a", "text": "a"}


def test_a_removal_of_what_was_changed_meanwhile_conflicts(bench: Bench) -> None:
    bench.go(calc="a")
    removal = bench.stage(remove=("calc",))
    bench.go(calc="b")
    with pytest.raises(GenerationConflict):
        bench.history.activate(removal.number)


def test_two_candidates_that_want_the_same_do_not_conflict(bench: Bench) -> None:
    first, second = bench.stage(calc="a"), bench.stage(calc="a", text="a")
    bench.history.activate(first.number)
    bench.history.activate(second.number)
    assert bench.tools() == {"calc": "a", "text": "a"}


def test_rolling_back_makes_the_parent_live_again(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(calc="b")
    assert bench.back() == 1
    assert bench.tools() == {"calc": "a"}
    assert bench.states() == {0: "superseded", 1: "live", 2: "rolled_back"}
    assert bench.back() == 0
    with pytest.raises(UnknownGeneration, match="the first one"):
        bench.back()


def test_any_generation_that_was_live_can_be_returned_to(bench: Bench) -> None:
    for letter in "abc":
        bench.go(calc=letter)
    assert bench.back(1) == 1
    assert bench.back(3) == 3  # a rollback can be undone
    assert bench.tools() == {"calc": "c"}


def test_what_was_never_live_cannot_be_returned_to(bench: Bench) -> None:
    bench.stage(calc="a")
    with pytest.raises(UnknownGeneration, match="never live"):
        bench.back(1)
    with pytest.raises(UnknownGeneration, match="live already"):
        bench.back(0)


def test_a_quarantined_version_gives_way_to_the_one_before(bench: Bench) -> None:
    bench.go(calc="a", text="a")
    bench.go(calc="b")
    switched = bench.quarantine("calc", "b")
    assert switched is not None
    assert (switched.author, switched.live.author, switched.live.parent) == ("strikes", "strikes", 2)
    assert switched.note == f"calc {'b' * 12} was quarantined: trapped"
    assert bench.tools() == {"calc": "a", "text": "a"}


def test_without_a_good_version_the_tool_goes_and_the_others_stay(bench: Bench) -> None:
    bench.go(calc="a", text="a")
    switched = bench.quarantine("calc", "a")
    assert switched is not None
    assert switched.changes.removed == ("calc",)
    assert bench.tools() == {"text": "a"}


def test_a_version_that_was_quarantined_is_never_returned_to(bench: Bench) -> None:
    for letter in "abc":
        bench.go(calc=letter)
    bench.quarantine("calc", "b")  # not live, so nothing switches
    assert bench.tools() == {"calc": "c"}
    bench.quarantine("calc", "c")
    assert bench.tools() == {"calc": "a"}


def test_a_version_that_is_live_no_more_is_quarantined_without_a_switch(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(calc="b")
    assert bench.quarantine("calc", "a") is None
    assert bench.history.live().number == 2


def test_of_an_artifact_of_several_tools_only_the_faulty_one_is_replaced(bench: Bench) -> None:
    bench.go(calc="a", text="a")
    bench.go(calc="b", text="b")
    bench.quarantine("calc", "b")
    assert bench.tools() == {"calc": "a", "text": "b"}


def test_what_an_operator_rolled_back_is_not_returned_to(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(calc="b")
    bench.back()
    bench.go(calc="c")
    bench.quarantine("calc", "c")
    assert bench.tools() == {"calc": "a"}


def test_an_automatic_return_never_goes_below_a_floor(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(calc="b", floor=True)
    bench.go(calc="c")
    bench.quarantine("calc", "c")
    assert bench.tools() == {"calc": "b"}
    bench.quarantine("calc", "b")
    assert bench.tools() == {}


def test_a_floor_of_one_tool_is_none_for_another(bench: Bench) -> None:
    bench.go(text="a")
    bench.go(text="b")
    bench.go(calc="a", floor=True)
    bench.quarantine("text", "b")
    assert bench.tools() == {"calc": "a", "text": "a"}
    assert bench.history.get(3).floor


def test_what_an_operator_took_away_does_not_come_back(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(remove=("calc",))
    bench.go(calc="b")
    bench.quarantine("calc", "b")
    assert bench.tools() == {}


def test_what_strikes_took_away_does_not_end_the_search(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(calc="b")
    bench.quarantine("calc", "a")
    bench.quarantine("calc", "b")
    assert bench.tools() == {}
    bench.store.records.pardon("calc")
    bench.go(calc="c")
    bench.quarantine("calc", "c")
    assert bench.tools() == {"calc": "b"}


def test_a_generation_with_a_quarantined_version_waits_for_a_pardon(bench: Bench) -> None:
    bench.go(calc="a")
    bench.go(calc="b")
    bench.quarantine("calc", "b")
    again = bench.stage(calc="b")
    for attempt in (lambda: bench.back(2), lambda: bench.history.activate(again.number), lambda: bench.back()):
        with pytest.raises(UnknownGeneration, match="quarantined, pardon it first: calc"):
            attempt()
    assert [held.version.artifact[0] for held in bench.store.records.pardon("calc")] == ["b"]
    assert bench.store.records.pardon("calc") == ()
    assert bench.back(2) == 2


def test_a_suspended_version_does_not_hold_a_switch_up(bench: Bench) -> None:
    bench.go(calc="a")
    held = Quarantine(version=VersionKey("calc", "a" * 64), generation=1, at=0.0, mode="suspend", until=30.0, level=1)
    assert bench.store.quarantine(held) is None
    bench.go(text="a")
    assert bench.tools() == {"calc": "a", "text": "a"}


def test_two_generations_can_never_be_live(tmp_path: Path, key_path: Path) -> None:
    with Store.open(tmp_path / "store", key_path=key_path) as store:
        Bench(store).stage(calc="a")
    with sqlite3.connect(tmp_path / "store" / "store.sqlite") as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE generations SET state = 'live'")
    connection.close()


def test_a_changed_row_is_corrupt_and_named(tmp_path: Path, key_path: Path) -> None:
    with Store.open(tmp_path / "store", key_path=key_path) as store:
        bench = Bench(store)
        bench.go(calc="a")
        bench.go(calc="b")
    with sqlite3.connect(tmp_path / "store" / "store.sqlite") as connection:
        connection.execute("UPDATE generations SET body = replace(body, 'aaaa', 'cccc') WHERE number = 1")
    connection.close()
    with Store.open(tmp_path / "store", key_path=key_path) as store:
        with pytest.raises(Corrupt, match="generation 1 "):
            store.generation(1)
        assert store.live().number == 2
        assert [generation.number for generation in store.generations()] == [0, 2]


def test_a_generation_is_pure_data(bench: Bench) -> None:
    bench.go(calc="a")
    live: Generation = bench.history.live()
    assert live.as_json() == {
        "number": 1,
        "parent": 0,
        "author": "model",
        "note": "a note",
        "created_at": live.created_at,
        "state": "live",
        "floor": False,
        "why": None,
        "changes": {"added": ["calc"], "changed": [], "removed": []},
        "tools": {"calc": {"artifact": "a" * 64, "grants": [], "limits": {}}},
    }
    with pytest.raises(TypeError):
        live.tools["calc"] = ToolVersion("b" * 64)  # type: ignore[index]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_in_whatever_order_the_history_stays_whole(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    tools, letters = ("calc", "text", "csv"), "abcdef"
    bodies: dict[int, str] = {}
    were_live = {0}

    def anything() -> None:
        numbers = sorted(bench.states())
        match chance.randrange(6):
            case 0 | 1:
                add = {tool: chance.choice(letters) for tool in chance.sample(tools, chance.randrange(3))}
                gone = tuple(chance.sample(sorted(bench.tools()), chance.randrange(len(bench.tools()) + 1)))
                bench.stage(remove=gone, **add)
            case 2 | 3:
                bench.history.activate(chance.choice(numbers), floor=chance.random() < 0.2)
            case 4:
                bench.back(chance.choice([None, *numbers]))
            case _:
                live = bench.tools()
                if live and chance.random() < 0.7:
                    tool = chance.choice(sorted(live))
                    bench.quarantine(tool, live[tool])
                else:
                    bench.store.records.pardon(chance.choice(tools))

    for _ in range(120):
        with contextlib.suppress(GenerationConflict, UnknownGeneration):
            anything()
        generations = bench.history.all()
        assert [generation.number for generation in generations] == list(range(len(generations)))
        assert [generation.state for generation in generations].count("live") == 1
        for generation in generations:
            assert bodies.setdefault(generation.number, generation.body()[1]) == generation.body()[1]
        live = bench.history.live()
        were_live.add(live.number)
        held = {quarantine.version for quarantine in bench.store.quarantines() if quarantine.active}
        assert not {live.key(tool) for tool in live.tools} & held
        assert all(generation.parent in were_live for generation in generations[1:])
        switches = bench.history.switches()
        for later, earlier in itertools.pairwise(switches):
            assert later.previous == earlier.number
        if switches:
            assert switches[0].number == live.number


def test_an_author_has_half_of_the_room_for_open_candidates(bench: Bench, clock: FixedClock) -> None:
    for _ in range(50):
        first = bench.stage(calc="a")
    clock.advance(10**6)
    with pytest.raises(StoreError, match=r"of model, 50 candidates are open and 0 .*: reject") as caught:
        bench.stage(calc="a")
    assert caught.value.reason == "too_many_candidates"
    assert len(bench.history.all()) == 51
    bench.store.reject(first.number, by="ada")
    bench.stage(calc="a")


def test_however_much_others_stage_there_is_room_for_one_more(bench: Bench) -> None:
    def fill(author: str) -> int:
        for count in range(101):
            try:
                bench.history.stage({"calc": ToolVersion("a" * 64)}, (), author=author, note="")
            except StoreError:
                return count
        raise AssertionError("there is no end of room")

    assert [fill(author) for author in ("greedy", "another", "third")] == [50, 25, 13]
    with pytest.raises(StoreError, match=r"of greedy, 50 candidates are open.*; others have 38: reject"):
        bench.history.stage({"calc": ToolVersion("a" * 64)}, (), author="greedy", note="")


def test_candidates_that_were_just_rejected_take_room_for_an_hour(bench: Bench, clock: FixedClock) -> None:
    for _ in range(50):
        bench.history.judge(bench.stage(calc="a").number, [], rejected="by the gate admission")
        clock.advance(1)
    with pytest.raises(StoreError, match=r"0 candidates .* and 50 of the last hour.*: stage again later") as caught:
        bench.stage(calc="a")
    assert caught.value.reason == "too_many_candidates"
    clock.advance(3_550)
    bench.stage(calc="a")
    with pytest.raises(StoreError, match="1 candidates are open and 49 of the last hour"):
        bench.stage(calc="a")


def test_candidates_that_became_live_take_no_room(bench: Bench) -> None:
    for number in range(101):
        bench.go(calc="ab"[number % 2])


def test_artifacts_are_unneeded_when_only_old_rejected_candidates_name_them(bench: Bench, clock: FixedClock) -> None:
    bench.go(calc="a")
    bench.go(calc="b")
    for letter in "abc":
        bench.history.judge(bench.stage(calc=letter).number, [], rejected="no")
    bench.history.judge(bench.stage(calc="d").number, [], rejected="no")
    clock.advance(10)
    bench.stage(calc="d")  # open
    bench.history.judge(bench.stage(calc="e").number, [], rejected="no")  # young
    assert bench.history.rejected_artifacts(before=clock() - 5) == ("c" * 64,)
    assert bench.history.rejected_artifacts(before=clock() - 50) == ()
