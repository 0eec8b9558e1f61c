from __future__ import annotations

import pytest
from rho_wasm.policy import StrikePolicy

from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.strikes import CallKey, Quarantine, Strike, StrikeLedger, laundered
from rho_wasm.testing import FixedClock

CALC = VersionKey("calc", "a" * 64)
OTHER = VersionKey("calc", "b" * 64)


class Bench:
    """A ledger and the calls that it hears of."""

    def __init__(self, clock: FixedClock, policy: StrikePolicy | None = None) -> None:
        self.clock = clock
        self.ledger = StrikeLedger(policy or StrikePolicy(), clock=clock)
        self._calls = 0

    def strike(
        self,
        version: VersionKey = CALC,
        *,
        call_id: str | None = None,
        session_id: str | None = None,
        reason: str = "trapped",
    ) -> Strike:
        self._calls += 1
        call = CallKey(call_id or f"call {self._calls}", session_id=session_id)
        return Strike(version=version, generation=1, reason=reason, call=call, at=self.clock())

    def crash(self, version: VersionKey = CALC, *, call_id: str | None = None, session_id: str | None = None) -> str:
        strike = self.strike(version, call_id=call_id, session_id=session_id)
        self.ledger.called(version, strike.call)
        return self.ledger.struck(strike).verdict

    def work(self, times: int, version: VersionKey = CALC) -> None:
        for _ in range(times):
            self._calls += 1
            self.ledger.called(version, CallKey(f"call {self._calls}"))


def test_a_version_is_quarantined_when_its_strikes_reach_the_limit(clock: FixedClock) -> None:
    bench = Bench(clock)
    assert [bench.crash() for _ in range(3)] == ["none", "none", "quarantine"]


def test_strikes_of_another_version_do_not_count(clock: FixedClock) -> None:
    bench = Bench(clock)
    assert [bench.crash(CALC), bench.crash(CALC), bench.crash(OTHER), bench.crash(OTHER)] == ["none"] * 4


def test_strikes_that_left_the_window_do_not_count(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.crash()
    bench.crash()
    clock.advance(601)
    assert bench.crash() == "none"


def test_a_tool_that_mostly_works_is_not_quarantined(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.work(13)
    assert [bench.crash() for _ in range(4)] == ["none", "none", "none", "quarantine"]  # 4 of 17, not 3 of 16


def test_calls_that_left_the_window_do_not_count_for_it(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.work(1000)
    clock.advance(620)
    assert [bench.crash() for _ in range(3)][-1] == "quarantine"


def test_attempts_of_one_call_count_once(clock: FixedClock) -> None:
    bench = Bench(clock)
    assert [bench.crash(call_id="one") for _ in range(5)] == ["none"] * 5
    assert bench.ledger.struck(bench.strike(call_id="one")).counted is False
    assert bench.ledger.struck(bench.strike(call_id="one")).count == 1


def test_the_same_call_id_in_another_session_is_another_call(clock: FixedClock) -> None:
    bench = Bench(clock)
    assert [bench.crash(call_id="one", session_id=f"s{number}") for number in range(3)][-1] == "quarantine"


def test_below_the_number_of_sessions_the_version_is_withheld_from_the_one_that_struck(clock: FixedClock) -> None:
    bench = Bench(clock, StrikePolicy(sessions=2))
    assert [bench.crash(session_id="heavy") for _ in range(3)] == ["none", "none", "withhold"]
    assert bench.ledger.withheld_from(CALC, "heavy")
    assert not bench.ledger.withheld_from(CALC, "light")
    assert not bench.ledger.withheld_from(OTHER, "heavy")
    clock.advance(601)
    assert not bench.ledger.withheld_from(CALC, "heavy")


def test_strikes_from_enough_sessions_quarantine(clock: FixedClock) -> None:
    bench = Bench(clock, StrikePolicy(sessions=2))
    bench.crash(session_id="one")
    bench.crash(session_id="one")
    assert bench.crash(session_id="two") == "quarantine"


def test_strikes_of_another_process_count_once_they_are_read(clock: FixedClock) -> None:
    here, there = Bench(clock), Bench(clock)
    here.crash(call_id="h1")
    strikes = [there.strike(call_id="t1"), there.strike(call_id="t2")]
    assert here.ledger.merge(strikes, {}) == (CALC,)
    assert here.ledger.merge(strikes, {}) == ()  # read again, they are known


def test_calls_of_another_process_count_for_the_version(clock: FixedClock) -> None:
    bench = Bench(clock)
    bench.ledger.merge([], {(CALC, int(clock() // 10)): 100})
    assert [bench.crash() for _ in range(3)][-1] == "none"


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
    assert [bench.crash(session_id=f"s{number}") for number in range(3)] == ["none", "none", "quarantine"]


def test_forgetting_one_version_leaves_the_others(clock: FixedClock) -> None:
    bench = Bench(clock)
    for version in (CALC, OTHER):
        bench.crash(version)
        bench.crash(version)
    bench.ledger.forget(*CALC)
    assert (bench.crash(CALC), bench.crash(OTHER)) == ("none", "quarantine")


def test_memory_is_bounded_and_the_latest_strikes_decide(clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rho_wasm.dynamic.strikes._STRIKES_HELD", 10)
    bench = Bench(clock, StrikePolicy(limit=10, min_ratio=0.5))
    bench.work(1_000)
    clock.advance(100)
    verdicts = [bench.crash() for _ in range(12)]
    # Ten are held; against the calls since the oldest of them they are all there is.
    assert verdicts[-1] == "quarantine"
    assert len(bench.ledger.reasons(CALC)) == 10


def quarantined(tool: str, at: float, *, pardoned: bool = False) -> Quarantine:
    version = VersionKey(tool, f"{at:064.0f}")
    return Quarantine(version=version, generation=1, at=at, pardoned_at=at if pardoned else None)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([quarantined("calc", at) for at in (0, 1000, 3600)], True),
        ([quarantined("calc", at) for at in (0, 1000, 3601)], False),
        ([quarantined("calc", at) for at in (0, 5000, 6000, 8000)], True),
        ([quarantined("calc", 0), quarantined("calc", 1), quarantined("other", 2)], False),
        ([quarantined("calc", 0), quarantined("calc", 1), quarantined("calc", 2, pardoned=True)], False),
    ],
)
def test_three_quarantined_versions_of_one_name_within_an_hour_are_laundering(
    held: list[Quarantine], expected: bool
) -> None:
    assert laundered(held, "calc") is expected
