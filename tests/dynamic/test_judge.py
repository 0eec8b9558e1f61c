"""Strikes of real calls: counted, kept, told, and what follows from them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rho_wasm.calls import CallClock, CallMeter, ToolCall
from rho_wasm.dynamic.database import Database
from rho_wasm.dynamic.generation import VersionKey
from rho_wasm.dynamic.guard import Guard
from rho_wasm.dynamic.judge import is_strike
from rho_wasm.dynamic.store import Store
from rho_wasm.dynamic.strikes import Quarantine, StrikeLedger
from rho_wasm.errors import Closed, UnknownGeneration
from rho_wasm.events import GenerationSwitched, SourceFailed, StrikeCounted, ToolQuarantined
from rho_wasm.limits import Limits
from rho_wasm.loop import ToolLoop, retry
from rho_wasm.policy import Policy, StrikePolicy
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import KINDS, ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.sandbox import NativeCache
from rho_wasm.testing import FakeSource, FixedClock
from tests.dynamic.bench import open_bench
from tests.dynamic.guests import OTHERWISE_TRAPS, SPINS, TRAPS, TRAPS_IF_TOLD, artifact

pytestmark = pytest.mark.anyio

GOOD = artifact("calc", answer="good")
BAD = artifact("calc", body=TRAPS)


def strikes(**policy: Any) -> Policy:
    return Policy.model_validate({"strikes": policy})


@pytest.fixture
def store(tmp_path: Path, key_path: Path, clock: FixedClock) -> Iterator[Store]:
    with Store.open(tmp_path / "store", key_path=key_path, clock=clock) as store:
        yield store


async def test_a_version_that_crashes_is_counted_and_gives_way_to_the_good_one(
    cache: NativeCache, store: Store, clock: FixedClock
) -> None:
    async with open_bench(cache, store=store) as bench:
        await bench.go(GOOD)
        await bench.go(BAD)
        bench.events.clear()
        await bench.crash("calc", times=3, session_id="s1")
        assert (await bench.call("calc")).value == "good"
        await bench.until_told(GenerationSwitched)
        counted, (quarantined,), (switched,) = (
            bench.told(StrikeCounted),
            bench.told(ToolQuarantined),
            bench.told(GenerationSwitched),
        )
        assert [(event.count, event.limit, event.reason, event.session_id) for event in counted] == [
            (1, 3, "trapped", "s1"),
            (2, 3, "trapped", "s1"),
            (3, 3, "trapped", "s1"),
        ]
        assert counted[0].backtrace
        assert quarantined == ToolQuarantined(
            tool="calc",
            artifact=BAD.sha256,
            generation=2,
            reasons=("trapped", "trapped", "trapped"),
            replaced_by=GOOD.sha256,
            backtrace=counted[0].backtrace,
        )
        assert (switched.number, switched.previous, switched.author, switched.changed) == (3, 2, "strikes", ("calc",))
        assert bench.events.index(quarantined) < bench.events.index(switched)
        assert [(strike.reason, strike.at, strike.generation) for strike in bench.source.strikes("calc")] == [
            ("trapped", clock(), 2)
        ] * 3
        assert [held.version.artifact for held in bench.source.quarantines()] == [BAD.sha256]


async def test_a_strike_is_in_the_store_before_its_call_is_answered(cache: NativeCache, store: Store) -> None:
    async with open_bench(cache, store=store) as bench:
        await bench.go(BAD)
        await bench.crash("calc")
        with Store.open(store.folder or "", read_only=True) as other:
            assert [strike.reason for strike in other.strikes()] == ["trapped"]


async def test_strikes_survive_a_restart(cache: NativeCache, store: Store) -> None:
    async with open_bench(cache, store=store) as bench:
        await bench.go(GOOD)
        await bench.go(BAD)
        await bench.crash("calc", times=2)
    async with open_bench(cache, store=store) as bench:
        await bench.crash("calc", call_id="after the restart")
        assert (await bench.call("calc")).value == "good"
        assert [event.count for event in bench.told(StrikeCounted)] == [3]


async def test_a_version_that_struck_out_just_before_the_host_died_is_not_offered_again(
    cache: NativeCache, store: Store, clock: FixedClock
) -> None:
    async with open_bench(cache, store=store, policy=strikes(limit=4)) as bench:
        await bench.go(BAD)
        await bench.crash("calc", times=3)
    async with open_bench(cache, store=store) as bench:  # with three strikes there, and a limit of three
        assert bench.source.list() == ()
        assert (await bench.call("calc")).kind == "refused"


async def test_a_quarantine_holds_in_snapshots_too(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(BAD)
        shown = bench.registry.snapshot()
        await bench.crash("calc", times=3, tools=shown)
        result = await bench.call("calc", tools=shown)
        assert (result.kind, result.reason, result.generation) == ("refused", "quarantined", 1)
        assert "trapped" in result.text


async def test_without_a_good_version_the_tool_goes(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(BAD, artifact("text"))
        await bench.crash("calc", times=3)
        assert [tool.name for tool in bench.source.list()] == ["text"]
        assert (await bench.until_told(ToolQuarantined)).replaced_by is None
        assert bench.source.live().number == 2


async def test_of_an_artifact_of_several_tools_only_the_faulty_one_goes(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc", "text", body=OTHERWISE_TRAPS.format(letter=ord("t"))))
        await bench.crash("calc", times=3)
        assert [tool.name for tool in bench.source.list()] == ["text"]
        assert (await bench.call("text")).ok


async def test_a_tool_that_mostly_works_stays(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
        for number in range(13):
            assert (await bench.call("calc", {"n": False})).ok, number
        await bench.crash("calc", times=3, arguments={"n": True})
        assert bench.source.lookup("calc") is not None
        await bench.crash("calc", arguments={"n": True})
        assert bench.source.lookup("calc") is None


async def test_attempts_of_one_call_strike_once(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(BAD)
        for attempt in range(1, 6):
            await bench.crash("calc", attempt=attempt)
        assert bench.source.lookup("calc") is not None
        assert [event.count for event in bench.told(StrikeCounted)] == [1]
        assert len((await bench.written()).strikes()) == 1


async def test_attempts_of_one_call_are_one_call_of_the_ratio(cache: NativeCache) -> None:
    async with open_bench(cache, policy=strikes(limit=1, min_ratio=0.5)) as bench:
        await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
        assert (await bench.call("calc", {"n": False})).ok
        for attempt in range(2, 6):
            assert (await bench.call("calc", {"n": False}, attempt=attempt)).ok
        await bench.crash("calc", arguments={"n": True})  # one of two, not one of six
        assert bench.source.lookup("calc") is None


async def test_the_tries_of_a_loop_are_attempts_of_one_call(cache: NativeCache) -> None:
    asked: dict[str, Any] = {"content": None, "tool_calls": [{"id": "1", "name": "calc", "arguments": {}}]}
    answers = iter([asked, {"content": "so"}])

    async def model(messages: Any, tools: Any) -> dict[str, Any]:
        return {"role": "assistant", **next(answers)}

    async with open_bench(cache) as bench:
        await bench.go(BAD)
        loop = ToolLoop(model, bench.runner, on_tool_error=retry(5))
        assert (await loop.run([{"role": "user", "content": "calculate"}])).status == "completed"
        assert bench.source.lookup("calc") is not None
        assert len((await bench.written()).strikes()) == 1


async def test_calls_of_one_id_are_as_many_calls(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(BAD)
        await bench.crash("calc", times=3, call_id="call")
        assert [event.count for event in bench.told(StrikeCounted)] == [1, 2, 3]
        assert bench.source.lookup("calc") is None


async def test_one_call_object_that_runs_again_and_again_is_as_many_calls(cache: NativeCache) -> None:
    call = ToolCall("call", "calc")
    async with open_bench(cache) as bench:
        await bench.go(BAD)
        for _ in range(3):
            assert (await bench.runner.run(call)).kind == "crashed"
        assert bench.source.lookup("calc") is None


async def test_strikes_of_an_artifacts_tools_count_together(cache: NativeCache) -> None:
    names = [f"m{number}" for number in range(8)]
    async with open_bench(cache) as bench:
        await bench.go(artifact(*names, body=TRAPS), artifact("text"))
        for name in names[:4]:
            await bench.crash(name, times=2)
        assert bench.told(ToolQuarantined) == []
        await bench.crash("m4")
        await bench.until_told(ToolQuarantined, times=5)
        assert sorted(event.tool for event in bench.told(ToolQuarantined)) == names[:5]
        assert [tool.name for tool in bench.source.list()] == ["m5", "m6", "m7", "text"]
        await bench.crash("m5")  # with such neighbours one is enough
        assert bench.source.lookup("m5") is None
        assert (await bench.call("text")).ok


async def test_a_reported_failure_is_no_strike(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc", answer={"error": "no such city"}))
        for _ in range(4):
            assert (await bench.call("calc")).kind == "failed"
        assert bench.source.strikes() == ()


async def test_a_refused_call_is_no_strike(cache: NativeCache) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with open_bench(cache) as bench:
        await bench.go(artifact({"name": "calc", "description": "d", "input_schema": schema}, body=TRAPS))
        for _ in range(4):
            assert (await bench.call("calc", {"n": "x" * 2_000_000})).kind == "refused"
        assert bench.source.strikes() == ()


async def test_a_per_call_timeout_below_the_tools_own_is_no_strike(cache: NativeCache) -> None:
    async with open_bench(cache, limits=Limits(fuel=10**15)) as bench:
        await bench.go(artifact("calc", body=SPINS))
        for _ in range(3):
            assert (await bench.call("calc", timeout_ms=30)).reason == "deadline"
        assert bench.source.strikes() == ()


async def test_a_per_call_timeout_excuses_nothing_but_the_deadline(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(BAD)
        await bench.crash("calc", times=3, timeout_ms=4_000)
        assert bench.source.lookup("calc") is None
        assert [strike.reason for strike in (await bench.written()).strikes()] == ["trapped"] * 3


async def test_a_spinning_tool_that_is_called_several_times_at_once_strikes(cache: NativeCache) -> None:
    # How much of a processor each got is the machine's affair. That it counts for each of them is ours.
    limits, policy, ran = Limits(fuel=10**15, deadline_ms=200), strikes(limit=1_000), FakeSource()
    async with open_bench(cache, limits=limits, policy=policy) as bench:
        await bench.go(artifact("calc", body=SPINS))
        runner = ToolRunner(ToolRegistry([], sources=[bench.source, ran]))
        results = await runner.run_many([ToolCall(str(number), "calc") for number in range(8)])
        assert {result.reason for result in results} == {"deadline"}
        meters = [call.meter for call in ran.watched]
        assert max(meter.at_once for meter in meters) > 2
        struck = [is_strike(results[0], meter, deadline_ms=200, policy=policy.strikes) for meter in meters]
        assert len(bench.told(StrikeCounted)) == sum(struck)


async def test_calls_that_wait_for_a_slot_while_their_version_strikes_out_do_not_run(cache: NativeCache) -> None:
    async with open_bench(cache, limits=Limits(fuel=2 * 10**7), policy=strikes(limit=1)) as bench:
        await bench.go(artifact("calc", body=SPINS))
        results = await bench.runner.run_many([ToolCall(str(number), "calc") for number in range(12)])
        ends = Counter(result.reason for result in results)  # which of them waited, trio leaves to chance
        assert ends.keys() == {"out_of_fuel", "quarantined"}
        assert ends["quarantined"] >= 4


def test_the_trial_of_a_suspended_version_is_itself_when_it_had_to_wait() -> None:
    guard = Guard(StrikeLedger(StrikePolicy(), clock=lambda: 0.0), clock=lambda: 100.0)
    version, trial = VersionKey("calc", "a" * 64), object()
    guard.hold(Quarantine(version=version, generation=1, at=0.0, mode="suspend", until=50.0))
    assert guard.enter(version, session_id=None, token=trial) is None
    assert guard.enter(version, session_id=None, token=trial) is None
    assert guard.enter(version, session_id=None, token=object()) is not None


async def test_a_spinning_tool_strikes_at_its_own_deadline(cache: NativeCache) -> None:
    async with open_bench(cache, limits=Limits(fuel=10**15, deadline_ms=60)) as bench:
        await bench.go(artifact("calc", body=SPINS))
        assert (await bench.call("calc")).reason == "deadline"
        # Whether it had half of its time on a processor is the machine's affair: see the table below.
        assert {strike.reason for strike in bench.source.strikes()} <= {"deadline"}


def result_of(reason: str) -> ToolResult:
    return ToolResult(call_id="1", tool="calc", status="error", kind=KINDS[reason], reason=reason)


def meter(
    *,
    cpu_ms: float = 0.0,
    at_once: float = 1.0,
    fuel: int | None = 1,
    own_bound: bool = True,
    timeout_ms: float = 1_000,
) -> CallMeter:
    made = CallMeter(CallClock(timeout_ms))
    made.guest_cpu_ms, made.at_once, made.fuel_used, made.own_bound = cpu_ms, at_once, fuel, own_bound
    return made


@pytest.mark.parametrize("reason", sorted(KINDS))
def test_exactly_crashes_are_strikes(reason: str) -> None:
    struck = is_strike(result_of(reason), meter(cpu_ms=1_000), deadline_ms=1_000, policy=StrikePolicy())
    assert struck is (KINDS[reason] == "crashed")


@pytest.mark.parametrize(
    ("cpu_ms", "timeout_ms", "struck"),
    [(500, 1_000, True), (499, 1_000, False), (0, 1_000, False), (200, 400, True), (199, 400, False)],
)
def test_a_deadline_is_a_strike_only_if_the_guest_ran_for_half_of_it(
    cpu_ms: float, timeout_ms: float, struck: bool
) -> None:
    ended = meter(cpu_ms=cpu_ms, timeout_ms=timeout_ms)
    assert is_strike(result_of("deadline"), ended, deadline_ms=1_000, policy=StrikePolicy()) is struck


@pytest.mark.parametrize(("host_ms", "struck"), [(250, True), (249, False)])
def test_what_the_host_computed_for_the_guest_is_the_guests(host_ms: float, struck: bool) -> None:
    ended = meter(cpu_ms=250)
    ended.host_cpu_ms = host_ms
    assert is_strike(result_of("deadline"), ended, deadline_ms=1_000, policy=StrikePolicy()) is struck


@pytest.mark.parametrize(
    ("cpu_ms", "at_once", "struck"),
    [
        (62.5, 8, True),
        (62.4, 8, False),
        (249, 2, False),
        (250, 2, True),
        (199, 2.5, False),
        (200, 2.5, True),
    ],
)
def test_calls_of_one_artifact_at_once_share_what_they_got(cpu_ms: float, at_once: float, struck: bool) -> None:
    ended = meter(cpu_ms=cpu_ms, at_once=at_once)
    assert is_strike(result_of("deadline"), ended, deadline_ms=1_000, policy=StrikePolicy()) is struck


@pytest.mark.parametrize("reason", sorted(reason for reason, kind in KINDS.items() if kind == "crashed"))
def test_a_bound_that_is_not_the_tools_own_excuses_the_deadline_alone(reason: str) -> None:
    ended = meter(cpu_ms=1_000, own_bound=False)
    struck = is_strike(result_of(reason), ended, deadline_ms=1_000, policy=StrikePolicy())
    assert struck is (reason != "deadline")


def test_a_crash_before_the_guest_ran_is_no_strike() -> None:
    assert not is_strike(result_of("handler_exit"), meter(fuel=None), deadline_ms=1_000, policy=StrikePolicy())


def test_only_the_kinds_of_the_policy_are_strikes() -> None:
    policy = StrikePolicy(kinds=("out_of_fuel",))
    assert is_strike(result_of("out_of_fuel"), meter(), deadline_ms=1_000, policy=policy)
    assert not is_strike(result_of("trapped"), meter(), deadline_ms=1_000, policy=policy)


async def test_one_session_does_not_take_a_tool_from_the_others(cache: NativeCache, clock: FixedClock) -> None:
    async with open_bench(cache, clock=clock, policy=strikes(sessions=2)) as bench:
        await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
        told: dict[str, Any] = {"arguments": {"n": True}}
        await bench.crash("calc", times=3, session_id="heavy", **told)
        withheld = await bench.call("calc", {"n": False}, session_id="heavy")
        assert (withheld.kind, withheld.reason) == ("refused", "quarantined")
        assert (await bench.call("calc", {"n": False}, session_id="light")).ok
        assert bench.told(ToolQuarantined) == []
        await bench.crash("calc", session_id="light", **told)
        assert bench.source.lookup("calc") is None


async def test_a_pardoned_version_can_be_returned_to(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(GOOD)
        await bench.go(BAD)
        await bench.crash("calc", times=3)
        await bench.until_told(ToolQuarantined)
        with pytest.raises(UnknownGeneration, match="pardon"):
            await bench.source.rollback(2)
        assert [held.version.artifact for held in await bench.source.pardon("calc")] == [BAD.sha256]
        await bench.source.rollback(2)
        await bench.crash("calc", times=2)  # it begins anew
        assert bench.source.live().number == 2
        assert [strike.pardoned for strike in (await bench.written()).strikes()] == [False, False, True, True, True]


async def test_an_automatic_return_stops_at_a_floor(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(GOOD)
        await bench.go(BAD, floor=True)
        await bench.crash("calc", times=3)
        assert bench.source.list() == ()


async def test_a_suspended_version_is_tried_again_by_one_call(cache: NativeCache, clock: FixedClock) -> None:
    told: dict[str, Any] = {"arguments": {"n": True}}
    async with open_bench(cache, clock=clock, policy=strikes(on_strikes="suspend")) as bench:
        await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
        await bench.crash("calc", times=3, **told)
        assert bench.source.live().number == 1  # nothing is reverted
        assert (await bench.call("calc")).reason == "quarantined"
        clock.advance(29)
        assert (await bench.call("calc")).reason == "quarantined"
        clock.advance(1)
        await bench.crash("calc", **told)  # the trial; the next wait is twice as long
        clock.advance(59)
        assert (await bench.call("calc")).reason == "quarantined"
        clock.advance(1)
        assert (await bench.call("calc", {"n": False})).ok
        assert (await bench.call("calc", {"n": False})).ok
        await bench.crash("calc", **told)  # counted from nothing
        assert bench.source.lookup("calc") is not None
        assert [held.active for held in (await bench.written()).quarantines()] == [False]


@pytest.mark.parametrize("more", [{"timeout_ms": 4_000}, {"attempt": 2}])
async def test_a_trial_that_crashes_suspends_again_however_it_was_called(
    cache: NativeCache, clock: FixedClock, more: dict[str, Any]
) -> None:
    async with open_bench(cache, clock=clock, policy=strikes(on_strikes="suspend")) as bench:
        await bench.go(BAD)
        await bench.crash("calc", times=3)
        clock.advance(30)
        await bench.crash("calc", **more)
        clock.advance(59)
        assert (await bench.call("calc")).reason == "quarantined"
        clock.advance(1)
        await bench.crash("calc", **more)


@pytest.mark.slow
async def test_a_trial_whose_crash_does_not_count_waits_as_long_again(cache: NativeCache, clock: FixedClock) -> None:
    policy = strikes(on_strikes="suspend")
    limits = Limits(fuel=3 * 10**8, deadline_ms=60_000)
    async with open_bench(cache, clock=clock, policy=policy, limits=limits) as bench:
        await bench.go(artifact("calc", body=SPINS))
        for _ in range(3):
            assert (await bench.call("calc")).reason == "out_of_fuel"
        for _ in range(3):
            clock.advance(30)
            assert (await bench.call("calc", timeout_ms=1)).reason == "deadline"
            assert (await bench.call("calc", timeout_ms=1)).reason == "quarantined"
        assert len((await bench.written()).strikes()) == 3


async def test_a_suspension_survives_a_restart(cache: NativeCache, store: Store, clock: FixedClock) -> None:
    policy = strikes(on_strikes="suspend")
    async with open_bench(cache, store=store, policy=policy) as bench:
        await bench.go(BAD)
        await bench.crash("calc", times=3)
    async with open_bench(cache, store=store, policy=policy) as bench:
        assert bench.source.lookup("calc") is not None
        assert (await bench.call("calc")).reason == "quarantined"
        clock.advance(30)
        await bench.crash("calc")
        assert (await bench.call("calc")).reason == "quarantined"


async def test_a_pardon_happens_where_the_store_is_looked_at_so_no_look_undoes_it(
    cache: NativeCache, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pardon, threads = store.records.pardon, []

    def watched(tool: str) -> Any:
        threads.append(threading.current_thread().name)
        return pardon(tool)

    monkeypatch.setattr(store.records, "pardon", watched)
    async with open_bench(cache, store=store, policy=strikes(on_strikes="suspend")) as bench:
        await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
        await bench.crash("calc", times=3, arguments={"n": True})
        assert len(await bench.source.pardon("calc")) == 1
        assert (await bench.call("calc", {"n": False})).ok
    assert threads == ["rho_wasm-store"]


async def test_a_pardon_that_comes_while_its_source_ends_says_so(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(BAD)
        bench.source._worker.close()
        with pytest.raises(Closed, match="dynamic source"):
            await bench.source.pardon("calc")


async def test_a_pardon_ends_a_suspension(cache: NativeCache, clock: FixedClock) -> None:
    async with open_bench(cache, clock=clock, policy=strikes(on_strikes="suspend")) as bench:
        await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
        await bench.crash("calc", times=3, arguments={"n": True})
        await bench.source.pardon("calc")
        assert (await bench.call("calc")).ok


async def test_a_quarantine_holds_while_the_store_cannot_be_written_and_is_written_when_it_can(
    cache: NativeCache, tmp_path: Path, key_path: Path
) -> None:
    folder = tmp_path / "store"
    with Store.open(folder, busy_ms=10, key_path=key_path) as store:
        async with open_bench(cache, store=store) as bench:
            await bench.go(GOOD)
            await bench.go(BAD)
            with Database(folder / "store.sqlite").write():  # as another process that hangs
                await bench.crash("calc", times=3)
                assert bench.source.lookup("calc") is None
                assert (await bench.call("calc")).kind == "refused"
                assert store.quarantines() == ()
                await bench.until_told(SourceFailed)
                (failed,) = {event.error for event in bench.told(SourceFailed)}
                assert "locked" in failed
            assert (await bench.until_told(ToolQuarantined)).replaced_by == GOOD.sha256
            assert (await bench.call("calc")).value == "good"
        assert [held.version.artifact for held in store.quarantines()] == [BAD.sha256]
        assert len(store.strikes()) == 3


async def test_on_a_read_only_store_a_quarantine_is_kept_in_memory(cache: NativeCache, store: Store) -> None:
    async with open_bench(cache, store=store) as bench:
        await bench.go(BAD)
    assert store.folder is not None
    with Store.open(store.folder, read_only=True) as reading:
        async with open_bench(cache, store=reading) as bench:
            await bench.crash("calc", times=3)
            assert bench.source.list() == ()
            assert len(bench.told(ToolQuarantined)) == 1


async def test_what_happens_before_and_after_the_window_is_apart(
    cache: NativeCache, store: Store, clock: FixedClock
) -> None:
    async with open_bench(cache, store=store) as bench:
        await bench.go(BAD)
        await bench.crash("calc", times=2)
        clock.advance(601)
        await bench.crash("calc", times=2)
        assert bench.source.lookup("calc") is not None
