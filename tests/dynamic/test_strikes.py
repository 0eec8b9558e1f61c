from __future__ import annotations

import pytest

from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.strikes import CallKey, Quarantine, Strike, StrikeLedger, within_an_hour
from rho_wasm.policy import StrikePolicy
from rho_wasm.testing import FixedClock

CALC = VersionKey("calc", "a" * 64)
OTHER = VersionKey("calc", "b" * 64)


class Bench:
    """A ledger and the calls that it hears of."""

    def __init__(self, clock: FixedClock, policy: StrikePolicy | None = None) -> None:
        self.clock = clock
        self.ledger = StrikeLedger(policy or StrikePolicy(), clock=clock)

    def strike(
        self,
        version: VersionKey = CALC,
        *,
        session_id: str | None = None,
        id: int | None = None,
    ) -> Strike:
        call = CallKey("the same", session_id=session_id)
        return Strike(version=version, generation=1, reason="trapped", call=call, at=self.clock(), id=id)

    def crash(self, version: VersionKey = CALC, *, session_id: str | None = None) -> tuple[VersionKey, ...]:
        """The versions that are condemned by it."""
        self.ledger.called(version)
        return self.ledger.struck(self.strike(version, session_id=session_id)).condemned

    def work(self, times: int, version: VersionKey = CALC) -> None:
        for _ in range(times):
            self.ledger.called(version)


def test_a_version_is_quarantined_when_its_strikes_reach_the_limit(clock: FixedClock) -> None:
    bench = Bench(clock)
    assert [bench.crash() for _ in range(3)] == [(), (), (CALC,)]


def test_strikes_of_another_version_do_not_count(clock: FixedClock) -> None:
    bench = Bench(clock)
    assert [bench.crash(CALC), bench.crash(CALC), bench.crash(OTHER), bench.crash(OTHER)] == [()] * 4


def test_strikes_that_left_the_window_do_not_count(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.crash()
    bench.crash()
    clock.advance(601)
    assert bench.crash() == ()


def test_a_tool_that_mostly_works_is_not_quarantined(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.work(13)
    assert [bench.crash() for _ in range(4)] == [(), (), (), (CALC,)]  # 4 of 17, not 3 of 16


def test_calls_that_left_the_window_do_not_count_for_it(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.work(1000)
    clock.advance(620)
    assert [bench.crash() for _ in range(3)][-1] == (CALC,)


def tools(count: int, artifact: str = "a") -> list[VersionKey]:
    return [VersionKey(f"t{number}", artifact * 64) for number in range(count)]


def test_strikes_of_an_artifacts_tools_count_together(clock: FixedClock) -> None:
    bench = Bench(clock)
    versions = tools(5)
    verdicts = [bench.crash(version) for version in [*versions, *versions]]
    assert verdicts[:8] == [()] * 8  # two each
    assert verdicts[8] == tuple(versions)  # the ninth strike
    assert bench.crash(VersionKey("unheard of", "a" * 64)) == (*versions, VersionKey("unheard of", "a" * 64))


def test_nine_strikes_of_two_tools_are_not_the_artifacts(clock: FixedClock) -> None:
    bench = Bench(clock)
    one, other = tools(2)
    for _ in range(8):
        bench.crash(one)
    assert bench.crash(other) == ()


def test_tools_of_different_artifacts_do_not_count_together(clock: FixedClock) -> None:
    bench = Bench(clock)
    for letter in "abcdef":
        for version in tools(2, letter):
            assert bench.crash(version) == ()


def test_a_tool_that_mostly_works_goes_not_with_its_artifact(clock: FixedClock) -> None:
    bench = Bench(clock)
    good, *bad = tools(6)
    bench.work(20, good)
    assert bench.crash(good) == ()
    for version in [*bad, *bad][:8]:
        assert bench.crash(version) == ()
    assert bench.crash(bad[4]) == tuple(bad)


def test_an_artifacts_strikes_from_one_session_withhold_its_tools_from_that_one(clock: FixedClock) -> None:
    bench = Bench(clock, StrikePolicy(sessions=2))
    versions = tools(5)
    for version in [*versions, *versions]:
        assert bench.crash(version, session_id="heavy") == ()
    assert all(bench.ledger.withheld_from(version, "heavy") for version in versions)
    assert not any(bench.ledger.withheld_from(version, "light") for version in versions)
    assert bench.crash(versions[0], session_id="light") == tuple(versions)


def test_the_artifacts_limit_is_the_policys(clock: FixedClock) -> None:
    bench = Bench(clock, StrikePolicy(limit=2, artifact_limit=3))
    one, two, three = tools(3)
    assert [bench.crash(one), bench.crash(two), bench.crash(three)] == [(), (), (one, two, three)]


def test_below_the_number_of_sessions_the_version_is_withheld_from_the_one_that_struck(clock: FixedClock) -> None:
    bench = Bench(clock, StrikePolicy(sessions=2))
    assert [bench.crash(session_id="heavy") for _ in range(3)] == [()] * 3
    assert bench.ledger.withheld_from(CALC, "heavy")
    assert not bench.ledger.withheld_from(CALC, "light")
    assert not bench.ledger.withheld_from(OTHER, "heavy")
    clock.advance(601)
    assert not bench.ledger.withheld_from(CALC, "heavy")


def test_strikes_from_enough_sessions_quarantine(clock: FixedClock) -> None:
    bench = Bench(clock, StrikePolicy(sessions=2))
    bench.crash(session_id="one")
    bench.crash(session_id="one")
    assert bench.crash(session_id="two") == (CALC,)


def test_strikes_of_another_process_count_once_they_are_read(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.crash()
    strikes = [bench.strike(id=1), bench.strike(id=2)]
    assert bench.ledger.merge(strikes, {}) == (CALC,)
    assert bench.ledger.merge(strikes, {}) == ()  # read again, they are known
    assert len(bench.ledger.latest(CALC)) == 3


def test_strikes_of_ours_are_not_counted_again_when_they_are_read_back(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.crash()
    bench.crash()
    bench.ledger.saved({}, [1, 3])
    assert bench.ledger.merge([bench.strike(id=1)], {}) == ()
    assert len(bench.ledger.latest(CALC)) == 2
    assert bench.ledger.merge([bench.strike(id=2), bench.strike(id=3)], {}) == (CALC,)
    assert len(bench.ledger.latest(CALC)) == 3


def test_an_artifacts_strikes_count_together_whichever_process_heard_of_them(clock: FixedClock) -> None:
    bench = Bench(clock)
    versions = tools(5)
    for version in versions:
        bench.crash(version)
    strikes = [bench.strike(version, id=number) for number, version in enumerate(versions, 1)]
    assert set(bench.ledger.merge(strikes, {})) == set(versions)


def test_calls_of_another_process_count_for_the_version(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.ledger.merge([], {(CALC, int(clock() // 10)): 100})
    assert [bench.crash() for _ in range(3)][-1] == ()


def test_saved_calls_are_counted_once(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.work(5)
    calls = bench.ledger.unsaved_calls()
    assert sum(calls.values()) == 5
    bench.work(2)
    bench.ledger.saved(calls)
    assert sum(bench.ledger.unsaved_calls().values()) == 2


def test_a_pardoned_tool_begins_anew(clock: FixedClock) -> None:
    bench = Bench(clock, StrikePolicy(sessions=2))
    for _ in range(3):
        bench.crash(session_id="one")
    bench.ledger.forget("calc")
    assert not bench.ledger.withheld_from(CALC, "one")
    assert [bench.crash(session_id=f"s{number}") for number in range(3)] == [(), (), (CALC,)]


def test_forgetting_one_version_leaves_the_others(clock: FixedClock) -> None:
    bench = Bench(clock)
    for version in (CALC, OTHER):
        bench.crash(version)
        bench.crash(version)
    bench.ledger.forget(*CALC)
    assert (bench.crash(CALC), bench.crash(OTHER)) == ((), (OTHER,))


def test_memory_is_bounded_and_the_latest_strikes_decide(clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rho_wasm.dynamic.strikes._STRIKES_HELD", 10)
    bench = Bench(clock, StrikePolicy(limit=10, min_ratio=0.5))
    bench.work(1_000)
    clock.advance(100)
    verdicts = [bench.crash() for _ in range(12)]
    # Ten are held; against the calls since the oldest of them they are all there is.
    assert verdicts[-1] == (CALC,)
    assert len(bench.ledger.latest(CALC)) == 10


def quarantined(tool: str, at: float, *, pardoned: bool = False) -> Quarantine:
    version = VersionKey(tool, f"{at:064.0f}")
    return Quarantine(version=version, generation=1, at=at, pardoned_at=at if pardoned else None)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([quarantined("calc", at) for at in (0, 1000, 3600)], True),
        ([quarantined("calc", at) for at in (0, 1000, 3601)], False),
        ([quarantined("calc", at) for at in (0, 5000, 6000, 8000)], True),
        ([quarantined("calc", 0), quarantined("calc", 1)], False),
        ([quarantined("calc", 0), quarantined("calc", 1), quarantined("calc", 2, pardoned=True)], False),
    ],
)
def test_three_quarantines_within_an_hour_that_nobody_pardoned_are_laundering(
    held: list[Quarantine], expected: bool
) -> None:
    assert within_an_hour(held) is expected
