from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
import wasmtime

from rho_wasm import plain
from rho_wasm.capabilities.capability import Capability, capability
from rho_wasm.capabilities.clock import clock_capabilities
from rho_wasm.capabilities.random import random_capabilities
from rho_wasm.dynamic.answer_diff import answer_diff
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.replay import Replay
from rho_wasm.dynamic.replay_report import ReplayReport
from rho_wasm.errors import CapabilityError
from rho_wasm.events import StrikeCounted
from rho_wasm.limits import Limits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.policy import Policy
from rho_wasm.resources import fixture
from rho_wasm.sandbox import NativeCache
from rho_wasm.testing import asking_guest
from tests.dynamic.bench import Bench, open_bench
from tests.dynamic.guests import SPINS, TRAPS, TRAPS_IF_TOLD, artifact, declaration
from tests.fixture_table import ENDINGS

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


class World:
    """Capabilities that count how often they were really asked, and answer something else each time."""

    def __init__(self) -> None:
        self.asked = 0

        @capability("test.now")
        def now(n: int = 0, fails: str = "") -> Any:
            self.asked += 1
            if fails:
                raise CapabilityError(fails, "not now") if fails != "breaks" else RuntimeError("broken")
            return {"n": n, "asked": self.asked}

        @capability("test.later")
        async def later(n: int = 0) -> Any:
            self.asked += 1
            return [n, self.asked]

        self.capabilities: tuple[Capability, ...] = (now, later)

    def policy(self, **more: Any) -> Policy:
        grants: dict[str, Any] = {"test.now": {}, "test.later": {}}
        return Policy.parse(
            {"recordings": {"on": True}, "tools": {"*": {"grants": grants}}} | more, capabilities=self.capabilities
        )


RECORDING = Policy.parse({"recordings": {"on": True}})


async def replayed(bench: Bench, against: Artifact | int | None = None) -> ReplayReport:
    """All that was recorded, of one tool, on what is live or on ``against``."""
    await bench.source.write_recordings()
    (report,) = await bench.source.replay(bench.store.recordings.rows(), against=against)
    return report


async def one(bench: Bench, against: Artifact | int | None = None) -> Replay:
    (found,) = (await replayed(bench, against)).replays
    return found


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("echo", "fail", "trap") else pytest.param(name, marks=pytest.mark.slow)
        for name in ENDINGS
        if name != "core_name"
    ],
)
async def test_each_fixture_ends_in_a_replay_as_it_ended_in_the_call(cache: NativeCache, name: str) -> None:
    ending = ENDINGS[name]
    async with open_bench(cache, policy=RECORDING, limits=Limits(fuel=20_000_000)) as bench:
        await bench.go(Artifact.from_wasm(fixture(f"{name}.wasm").read_bytes()))
        result = await bench.call(name, ending.arguments)
        found = await one(bench)

    assert found.same
    assert (found.diff, found.diverged) == ("", None)
    assert found.reason == (result.reason if result.status == "error" else None)
    assert found.fuel_ratio in (1.0, None)
    assert not found.broke


@pytest.mark.parametrize("tool", ["now", "later"])
async def test_a_replay_hears_what_was_recorded_and_touches_nothing(cache: NativeCache, tool: str) -> None:
    world = World()
    async with open_bench(cache, policy=world.policy(), capabilities=world.capabilities) as bench:
        await bench.go(asking_guest(tool, f"test.{tool}", times=3))
        result = await bench.call(tool, {"n": 7})
        found = await one(bench)

    assert result.value in ({"ok": {"n": 7, "asked": 3}}, {"ok": [7, 3]})
    assert world.asked == 3
    assert found.same
    assert found.diverged is None
    assert found.fuel == result.fuel_used


@pytest.mark.parametrize("fails", ["denied", "quota", "unavailable", "breaks"])
@pytest.mark.slow
async def test_a_refusal_of_the_host_is_heard_again_in_the_same_words(cache: NativeCache, fails: str) -> None:
    world = World()
    async with open_bench(cache, policy=world.policy(), capabilities=world.capabilities) as bench:
        await bench.go(asking_guest("now", "test.now"))
        result = await bench.call("now", {"fails": fails})
        found = await one(bench)

    assert result.value["error"]["kind"] == ("unavailable" if fails == "breaks" else fails)
    assert found.same
    assert world.asked == 1


@pytest.mark.slow
async def test_host_calls_that_no_capability_answers_are_refused_as_they_were(cache: NativeCache) -> None:
    async with open_bench(cache, policy=RECORDING) as bench:
        await bench.go(asking_guest("now", "test.now", times=5))
        await bench.call("now", {"n": 1})
        assert (await one(bench)).same


async def test_a_guest_that_asks_for_something_else_is_denied_from_there_on(cache: NativeCache) -> None:
    world = World()
    async with open_bench(cache, policy=world.policy(), capabilities=world.capabilities) as bench:
        await bench.go(asking_guest("calc", "test.now", times=2))
        await bench.call("calc", {"n": 7})
        found = await one(bench, asking_guest("calc", "test.later", times=3))

    assert found.diverged is not None
    assert found.diverged.index == 0
    assert (found.diverged.recorded, found.diverged.asked) == (["test.now", {"n": 7}], ["test.later", {"n": 7}])
    assert (found.kind, found.same, found.broke) == ("ok", False, False)
    assert '"kind": "denied"' in found.diff
    assert world.asked == 2


@pytest.mark.parametrize(("before", "after", "index"), [(2, 3, 2), (3, 2, 2)])
@pytest.mark.slow
async def test_a_guest_that_asks_more_or_less_often_diverges_there(
    cache: NativeCache, before: int, after: int, index: int
) -> None:
    world = World()
    async with open_bench(cache, policy=world.policy(), capabilities=world.capabilities) as bench:
        await bench.go(asking_guest("calc", "test.now", times=before))
        await bench.call("calc", {"n": 7})
        found = await one(bench, asking_guest("calc", "test.now", times=after))

    assert found.diverged is not None
    assert found.diverged.index == index
    none = found.diverged.asked if after < before else found.diverged.recorded
    assert none is None


@pytest.mark.slow
async def test_other_arguments_are_another_question(cache: NativeCache) -> None:
    """Text for an integer, an integer for a float: the transcript is compared to the byte."""
    world = World()
    async with open_bench(cache, policy=world.policy(), capabilities=world.capabilities) as bench:
        await bench.go(asking_guest("calc", "test.now"))
        await bench.call("calc", {"n": 7})
        await bench.source.write_recordings()
        (row,) = bench.store.recordings.rows()
        recording = bench.store.recordings.get(row.id)
        assert recording is not None
        question = plain.decode(recording.host_calls[0].asked)
        with bench.store._database.write() as connection:
            altered = recording.body().replace(plain.encode(question), plain.encode(["test.now", {"n": 8}]))
            digest = hashlib.sha256(altered).hexdigest()
            connection.execute("UPDATE recordings SET body = ?, digest = ?", (altered, digest))
        found = await one(bench)

    assert found.diverged is not None
    assert found.diverged.asked == ["test.now", {"n": 7}]


CHANCE_AND_TIME = """
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 16) "\\a1\\62ok\\58\\18")
  (func (export "rho_alloc") (param i32) (result i32) (i32.const 65536))
  (func (export "rho_call") (param i32 i32) (result i64)
    (drop (call $clock (i32.const 0) (i64.const 1) (i32.const 24)))
    (drop (call $random (i32.const 30) (i32.const 16)))
    (i64.const 0x100000001E)))
"""
"""Answers 24 bytes: of the clock, and of chance."""


@pytest.mark.parametrize("granted", [False, True])
async def test_time_and_chance_are_those_of_the_recorded_call(cache: NativeCache, granted: bool) -> None:
    manifest = Manifest.from_json({"tools": [declaration("calc")], "capabilities": ["clock.now", "random.bytes"]})
    built = Artifact.from_wasm(embed(bytes(wasmtime.wat2wasm(CHANCE_AND_TIME)), manifest))
    grants: dict[str, Any] = {"clock.now": {}, "random.bytes": {}} if granted else {}
    policy = Policy.parse({"recordings": {"on": True}, "tools": {"*": {"grants": grants}}})
    async with open_bench(cache, policy=policy, capabilities=(*clock_capabilities(), *random_capabilities())) as bench:
        await bench.go(built)
        one_call, other = await bench.call("calc", call_id="1"), await bench.call("calc", call_id="1")
        report = await replayed(bench)

    assert one_call.ok
    assert (one_call.value == other.value) is not granted
    assert [each.same for each in report.replays] == [True, True]


async def test_a_replay_never_strikes_and_is_not_recorded(cache: NativeCache) -> None:
    async with open_bench(cache, policy=RECORDING) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc")
        for _ in range(5):
            found = await one(bench, artifact("calc", body=TRAPS))
        assert found.broke
        assert (found.kind, found.reason, found.recorded_kind) == ("crashed", "trapped", "ok")
        assert bench.source.strikes() == ()
        assert bench.told(StrikeCounted) == []
        assert len(bench.store.recordings.rows()) == 1


async def test_arguments_that_the_other_version_refuses_never_reach_it(cache: NativeCache) -> None:
    strict = declaration("calc") | {"input_schema": {"type": "object", "required": ["n"]}}
    async with open_bench(cache, policy=RECORDING) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"m": 1})
        found = await one(bench, artifact(strict, body=TRAPS))

    assert (found.kind, found.reason, found.broke, found.same) == ("refused", "invalid_arguments", False, False)
    assert '+ "refused": "invalid_arguments"' in found.diff


async def test_over_twice_the_recorded_fuel_is_told_and_only_its_own_limit_ends_it(cache: NativeCache) -> None:
    loop = "(loop $l (br_if $l (local.tee $len (i32.sub (local.get $len) (i32.const 1)))))"

    def burning(times: int) -> Artifact:
        return artifact("calc", body=f"(local.set $len (i32.const {times})) {loop}")

    rules = Policy.parse({"recordings": {"on": True}, "tools": {"*": {"limits": {"fuel": 1_000_000}}}})
    async with open_bench(cache, policy=rules) as bench:
        await bench.go(burning(10_000))
        await bench.call("calc")
        doubled = await one(bench, burning(19_900))
        more = await one(bench, burning(20_200))
        spinning = await one(bench, artifact("calc", body=SPINS))
    assert doubled.fuel_ratio == pytest.approx(1.99, rel=0.01)
    assert [(each.same, each.costly) for each in (doubled, more)] == [(True, False), (True, True)]
    assert (spinning.broke, spinning.reason) == (True, "out_of_fuel")
    assert (spinning.limit, spinning.value) == ("fuel", 1_000_000)


async def test_a_generation_by_its_number_is_replayed_on(cache: NativeCache) -> None:
    async with open_bench(cache, policy=RECORDING) as bench:
        await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
        await bench.call("calc", {"n": True})
        await bench.go(artifact("calc"))
        await bench.call("calc", {"n": True})
        on_first, on_live = await replayed(bench, 1), await replayed(bench)

    assert [(each.recorded_kind, each.kind, each.broke) for each in on_first.replays] == [
        ("ok", "crashed", True),
        ("crashed", "crashed", False),
    ]
    assert [each.same for each in on_live.replays] == [True, False]
    assert '- "crashed": "trapped"' in on_live.replays[1].diff


@pytest.mark.slow
async def test_a_tool_that_is_not_there_is_said(cache: NativeCache) -> None:
    async with open_bench(cache, policy=RECORDING) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc")
        report = await replayed(bench, artifact("other"))
    assert (report.replays, report.skipped) == ((), ("it has no tool of this name",))


def test_a_diff_shows_what_differs_and_a_little_round_it() -> None:
    before = {"ok": {"a": 1, "b": [1, 2], "text": "one\ntwo\nthree"}}
    after = {"ok": {"a": 1, "b": [1, 3], "text": "one\n2\nthree"}}
    lines = answer_diff(before, after).splitlines()
    assert lines[:2] == ["--- recorded", "+++ replayed"]
    assert "-   2" in lines
    assert "+   3" in lines
    assert "-two\\n" in lines
    assert "+2\\n" in lines


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (b"\x00", "AA"), (math.nan, None)])
def test_what_json_cannot_show_is_said(one: Any, other: Any) -> None:
    text = answer_diff({"ok": one}, {"ok": other})
    assert text
    assert "\n" not in text or "1.0" in text


def test_a_diff_is_bounded_and_obeyed_by_no_terminal() -> None:
    hostile = "\x1b[2J\u202e\x07" * 100_000
    text = answer_diff({"ok": list(range(50_000))}, {"ok": [hostile, *range(1, 90_000, 2)]})
    assert len(text) < 10_000
    assert len(text.splitlines()) <= 40
    assert text.replace("\n", "").isprintable()
