"""Where replays prove nothing a person is asked: no author may choose that its next version is held to nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rho_wasm import envelope
from rho_wasm.dynamic import replayer
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.recording import Recording, RecordingRow, encoded
from rho_wasm.dynamic.replay import PreparedReplay, Replay
from rho_wasm.errors import GateRejected
from rho_wasm.policy import Policy
from rho_wasm.sandbox import NativeCache
from rho_wasm.testing import FixedClock, asking_guest
from tests.dynamic.bench import Bench, open_bench
from tests.dynamic.guests import TRAPS, TRAPS_IF_TOLD, artifact, declaration

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


POLICY = Policy.parse({"gates": {"on": ["replay"]}, "recordings": {"on": True}})
BURNS = (
    "(local.set $len (i32.const 100)) (loop $l (br_if $l (local.tee $len (i32.sub (local.get $len) (i32.const 1)))))"
)
TRAPS_ON_TEXT = (
    "(if (i32.eq (i32.load8_u (i32.sub (i32.add (local.get $ptr) (local.get $len)) (i32.const 1))) (i32.const 0x33)) "
    "(then unreachable))"
)
"""For calls with one argument: its last byte is the digit 3."""


def taking(kind: str | list[str], *, body: str = "", salt: int = 0) -> Artifact:
    """``calc``, which takes an ``n`` of that type."""
    schema = {"type": "object", "properties": {"n": {"type": kind}}, "required": ["n"]}
    return artifact(declaration("calc", input_schema=schema), body=body, salt=salt)


async def held_up(bench: Bench, *artifacts: Artifact) -> GateRejected:
    with pytest.raises(GateRejected) as caught:
        await bench.go(*artifacts)
    return caught.value


@pytest.mark.parametrize(
    ("before", "after", "body"),
    [
        pytest.param("string", "integer", TRAPS, marks=pytest.mark.slow),
        pytest.param("integer", "string", TRAPS, marks=pytest.mark.slow),
        ("integer", ["integer", "string"], TRAPS_ON_TEXT),
    ],
    ids=["narrowed", "widened", "either"],
)
async def test_a_replay_takes_what_the_model_gave_as_a_call_would(
    cache: NativeCache, before: str, after: str | list[str], body: str
) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await bench.go(taking(before))
        assert (await bench.call("calc", {"n": "3"})).ok
        error = await held_up(bench, taking(after, body=body))
        assert (error.gate, error.waiting) == ("replay", False)
        assert (await bench.call("calc", {"n": "3"})).ok


async def test_arguments_that_were_put_right_are_recorded_as_they_were_given_too(cache: NativeCache) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await bench.go(taking("integer"))
        for given in ({"n": "3"}, {"n": 3}, '{"n": 3}'):
            await bench.call("calc", given)  # type: ignore[arg-type]
        await bench.source.write_recordings()
        found = [bench.store.recordings.get(row.id) for row in reversed(bench.store.recordings.rows())]
    told = [each.as_plain() for each in found if each is not None]
    assert [(each["arguments"], each["mended"], each["given"]) for each in told] == [
        ({"n": 3}, True, {"n": "3"}),
        ({"n": 3}, False, None),
        ({"n": 3}, False, None),
    ]


async def test_what_was_given_is_not_kept_past_a_hook_and_another_schema_then_needs_a_persons_yes(
    cache: NativeCache,
) -> None:
    """The hook knows the names of the schema, and what a model gave may have had others."""
    seen: list[Any] = []

    def redact(call: dict[str, Any]) -> dict[str, Any]:
        seen.append(call["given"])
        return call

    async with open_bench(cache, policy=POLICY, redact=redact) as bench:
        await bench.go(taking("integer"))
        await bench.call("calc", {"n": "3"})
        await bench.go(taking("integer", salt=1))
        error = await held_up(bench, taking(["integer", "string"], body=TRAPS_ON_TEXT))
    assert seen == [None]
    assert (error.gate, error.waiting) == ("approval", True)
    assert "1 of 1 recorded call of calc had arguments that were put right by another schema" in str(error)


async def test_a_call_that_worked_and_would_be_refused_now_needs_a_persons_yes(cache: NativeCache) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await bench.go(taking("string"))
        await bench.call("calc", {"n": "three"})
        error = await held_up(bench, taking("integer"))
        assert (error.gate, error.waiting) == ("approval", True)
        assert "as 1 of 1 recorded call of calc worked and would be refused now" in str(error)
        bench.store.approve(2, by="a person")
        assert (await bench.source.activate(2)).state == "live"


@pytest.mark.slow
async def test_a_redacted_call_that_its_own_version_would_refuse_needs_nobody(cache: NativeCache) -> None:
    def redact(call: dict[str, Any]) -> dict[str, Any]:
        return call | {"arguments": {"n": None}}

    async with open_bench(cache, policy=POLICY, redact=redact) as bench:
        await bench.go(taking("string"))
        await bench.call("calc", {"n": "three"})
        await bench.go(taking("string", salt=1))
        (note,) = bench.store.verdicts(2)[1].problems
    assert note == "calc: no recorded call was replayed, 1 skipped"


async def test_a_recording_from_before_it_was_told_what_was_put_right_is_read(cache: NativeCache) -> None:
    request = encoded(envelope.request("calc", {"n": 3}, context={"call_id": "1"}))
    row = RecordingRow(
        id=1,
        tool="calc",
        artifact="x",
        generation=1,
        at=0.0,
        kind="ok",
        reason=None,
        fuel=1,
        duration_ms=0.1,
        host_calls=0,
        bytes=1,
    )
    body: dict[str, Any] = {
        "request": request,
        "host": [],
        "answer": encoded({"ok": 1}),
        "detail": "",
        "clock_ns": None,
        "seed": None,
    }
    found = Recording.of(row, encoded(body | {"redacted": False}))
    assert (found.mended, found.given) == (False, None)
    assert found.body() == encoded(body | {"redacted": False})


async def test_calls_that_worked_and_had_no_time_need_a_persons_yes(
    cache: NativeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await bench.go(artifact("calc", "other"), artifact("fails", answer={"error": "no"}))
        for name in ("calc", "other", "fails"):
            await bench.call(name)
        monkeypatch.setattr(replayer, "_GATE_S", 0.0)
        error = await held_up(bench, artifact("calc", "other", body=TRAPS))
        assert (error.gate, error.waiting) == ("approval", True)
        assert "calc is slow, or its host was: 1 recorded call that worked had no time" in str(error)
        assert "other is slow" in str(error)
        assert (await bench.go(artifact("fails", body=TRAPS))).state == "live"


@pytest.mark.slow
async def test_a_version_that_uses_up_the_time_of_the_gate_is_told_by_its_fuel(cache: NativeCache) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc")
        await bench.source.write_recordings()
        (report,) = await bench.source.replay(bench.store.recordings.rows(), against=artifact("calc", body=BURNS))
    assert len(report.costly) == 1
    assert report.summary().endswith("1 over twice that recorded")
    assert report.doubt() == ""
    assert "so that 2 recorded calls that worked had no time" in replace(report, left=3, left_worked=2).doubt()
    assert replace(report, left=2).doubt() == ""


@pytest.mark.slow
async def test_a_slow_tool_leaves_the_others_their_share_of_the_gates_time(
    cache: NativeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await bench.go(artifact("aaa_slow"), artifact("quick"), artifact("slow", salt=1))
        for name in ("aaa_slow", "slow"):
            for _ in range(10):
                await bench.call(name)
        for number in range(10):
            await bench.call("quick", {"n": number == 0})
        clock, run = FixedClock(0.0), bench.source._replayer.one

        async def timed(prepared: PreparedReplay) -> Replay | str:
            clock.advance(0.1 if prepared.recording.tool == "quick" else 8.0)
            return await run(prepared)

        monkeypatch.setattr(bench.source._replayer, "clock", clock)
        monkeypatch.setattr(bench.source._replayer, "one", timed)
        slow = artifact("aaa_slow", salt=2), artifact("slow", salt=3)
        error = await held_up(bench, *slow, artifact("quick", body=TRAPS_IF_TOLD))
        assert (error.gate, error.waiting) == ("replay", False)
        assert error.told[0] == "quick: 1 of 10 recorded calls that worked crashes now: trapped"
        error = await held_up(bench, *slow, artifact("quick", salt=4))
        assert (error.gate, error.waiting) == ("approval", True)
        reports = {each.tool: each.replay for each in (await bench.source.review(error.candidate)).tools}
    done = {tool: (len(report.replays), report.left) for tool, report in reports.items() if report is not None}
    assert done["quick"] == (10, 0)
    assert {tool: replays + left for tool, (replays, left) in done.items()} == dict.fromkeys(done, 10)
    assert all(3 <= done[tool][0] <= 5 for tool in ("aaa_slow", "slow"))


async def struck_out(bench: Bench) -> None:
    """A version of ``calc`` that answered once, and that its own author had quarantined."""
    await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
    await bench.call("calc", {"n": False})
    await bench.crash("calc", times=3, arguments={"n": True})
    assert [each.active for each in bench.store.quarantines("calc")] == [True]


async def test_a_crash_where_a_quarantined_version_answered_needs_a_persons_yes(cache: NativeCache) -> None:
    """It was of no account once, since what such a version answers need not be right. But its author can have it
    quarantined, and so would choose what the next version is held to."""
    async with open_bench(cache, policy=POLICY) as bench:
        await struck_out(bench)
        error = await held_up(bench, artifact("calc", body=TRAPS, salt=1))
        assert (error.gate, error.waiting) == ("approval", True)
        assert "1 of 1 recorded call of calc crashed where a version answered that is quarantined now" in str(error)
        candidate = bench.source.generations()[-1]
        bench.store.approve(candidate.number, by="a person")
        assert (await bench.source.activate(candidate)).state == "live"


async def test_a_quarantined_tool_that_is_mended_needs_nobody(cache: NativeCache) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await struck_out(bench)
        live = await bench.go(artifact("calc", salt=1))
        (note,) = bench.store.verdicts(live.number)[1].problems
    assert note.startswith("calc: 1 recorded call replayed, 1 the same")


@pytest.mark.slow
async def test_what_a_quarantined_version_answered_takes_no_place_of_what_others_did(cache: NativeCache) -> None:
    policy = Policy.parse({"gates": {"on": ["replay"]}, "recordings": {"on": True, "gate_calls": 1}})
    async with open_bench(cache, policy=policy) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"n": "3"})
        await struck_out(bench)
        error = await held_up(bench, artifact("calc", body=TRAPS_ON_TEXT, salt=1))
    assert (error.gate, error.waiting) == ("replay", False)


LONG = {"k": "x" * 200_000}
"""For a guest that asks the host for what it was asked itself, and is denied it."""


async def test_what_is_refused_keeps_no_call_from_being_recorded_however_much_it_is(cache: NativeCache) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await bench.go(asking_guest("calc", "kv.get", times=10))
        assert (await bench.call("calc", LONG)).ok
        await bench.source.write_recordings()
        (row,) = bench.store.recordings.rows()
        assert row.bytes < 300_000
        recording = bench.store.recordings.get(row.id)
        assert recording is not None
        shown = recording.as_plain()["host_calls"][0]
        assert (shown["whole"], shown["arguments"]["bytes"], shown["reply"]["error"]["kind"]) == (
            False,
            200_016,
            "denied",
        )
        assert recording.altered(recording.as_plain()) == recording
        for times, same, index in ((10, True, None), (9, False, 9), (11, False, 10)):
            (report,) = await bench.source.replay([row], against=asking_guest("calc", "kv.get", times=times))
            (each,) = report.replays
            assert (each.diverged is None, each.diverged and each.diverged.index) == (same, index)
        (report,) = await bench.source.replay([row], against=asking_guest("calc", "kv.put", times=10))
        assert report.replays[0].diverged is not None
        assert report.replays[0].diverged.recorded == ["kv.get", shown["arguments"]]
        error = await held_up(bench, artifact("calc", body=TRAPS))
        assert (error.gate, error.waiting) == ("replay", False)


SMALL = Policy.parse({"gates": {"on": ["replay"]}, "recordings": {"on": True, "bytes_per_tool": 2_000}})
TOO_LARGE = "x" * 3_000


async def test_a_version_of_which_no_call_could_be_recorded_needs_a_persons_yes_for_its_next(
    cache: NativeCache,
) -> None:
    async with open_bench(cache, policy=SMALL) as bench:
        await bench.go(artifact("calc"), artifact("fails", answer={"error": TOO_LARGE}))
        await bench.call("calc")
        await bench.go(artifact("calc", answer=TOO_LARGE))
        assert (await bench.call("calc")).ok
        assert (await bench.call("fails")).kind == "failed"
        error = await held_up(bench, artifact("calc", salt=1))
        assert (error.gate, error.waiting) == ("approval", True)
        assert "1 call of calc worked and could not be recorded, and none of the same version was" in str(error)
        bench.store.approve(error.candidate, by="a person")
        await bench.source.activate(error.candidate)
        assert (await bench.go(artifact("fails"))).state == "live"
        assert (await bench.go(artifact("calc", salt=2))).state == "live"


@pytest.mark.slow
async def test_a_call_that_grew_too_large_by_what_it_asked_could_not_be_recorded_either(cache: NativeCache) -> None:
    async with open_bench(cache, policy=POLICY) as bench:
        await bench.go(asking_guest("calc", "kv.get", times=30))
        assert (await bench.call("calc", LONG)).ok
        error = await held_up(bench, artifact("calc"))
    assert "1 call of calc worked and could not be recorded" in str(error)


@pytest.mark.slow
async def test_calls_that_could_not_be_recorded_count_for_a_tool_that_was_away_until_they_are_dropped(
    cache: NativeCache,
) -> None:
    async with open_bench(cache, policy=SMALL) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc")
        await bench.go(artifact("calc", answer=TOO_LARGE))
        await bench.call("calc")
        await bench.go(remove=("calc",))
        assert (await held_up(bench, artifact("calc", salt=1))).waiting
        bench.store.recordings.drop(tool="calc")
        assert (await bench.go(artifact("calc", salt=1))).state == "live"


@pytest.mark.slow
async def test_a_version_of_which_some_call_was_recorded_holds_its_next_to_that_alone(cache: NativeCache) -> None:
    async with open_bench(cache, policy=SMALL) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"n": TOO_LARGE})
        await bench.call("calc")
        assert (await bench.go(artifact("calc", salt=1))).state == "live"
