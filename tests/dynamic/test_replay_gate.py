from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio
import pytest

from rho_wasm import plain
from rho_wasm.capabilities.capability import Capability, capability
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.recording import Recording
from rho_wasm.dynamic.review import Review
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import CapabilityError, GateRejected
from rho_wasm.limits import HostLimits
from rho_wasm.policy import Policy
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.testing import asking_guest
from tests.dynamic.bench import Bench, open_bench
from tests.dynamic.guests import SPINS_IF_TOLD, TRAPS, TRAPS_IF_TOLD, artifact, declaration
from tests.dynamic.processes import WAIT_S, begin

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


SECRET = "the-secret-of-another-session"


def granting(each: Capability) -> Policy:
    """The gate, and a capability for every tool."""
    return Policy.parse(
        {"gates": {"on": ["replay"]}, "recordings": {"on": True}, "tools": {"*": {"grants": {each.name: {}}}}},
        capabilities=[each],
    )


def policy(*gates: str, **recordings: Any) -> Policy:
    return Policy.parse({"gates": {"on": gates or ("replay",)}, "recordings": {"on": True} | recordings})


@pytest.fixture
def store(tmp_path: Path, key_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", key_path=key_path) as store:
        yield store


async def rejected(bench: Bench, *artifacts: Artifact) -> GateRejected:
    with pytest.raises(GateRejected) as caught:
        await bench.go(*artifacts)
    return caught.value


async def test_a_candidate_that_traps_where_the_live_version_answered_is_rejected(cache: NativeCache) -> None:
    async with open_bench(cache, policy=policy()) as bench:
        await bench.go(artifact(declaration("calc") | {"input_schema": {"type": "object", "properties": {"n": {}}}}))
        for n in (False, True, False):
            await bench.call("calc", {"n": n})
        schema = {"type": "object", "properties": {"n": {}}}
        error = await rejected(bench, artifact(declaration("calc") | {"input_schema": schema}, body=TRAPS_IF_TOLD))

        assert (error.gate, error.waiting) == ("replay", False)
        (problem,) = error.problems
        assert problem.startswith("calc: recording 2, which answered in generation 1, now crashes: trapped")
        assert "its arguments were {n: a bool}" in problem
        assert "rho-wasm recordings show 2" in problem
        assert error.told == (
            "calc: 1 of 3 recorded calls that worked crashes now: trapped",
            "the operator sees more: rho-wasm recordings replay --against 2",
        )
        assert bench.source.generations()[-1].why == "by the gate replay"
        assert (await bench.call("calc", {"n": True})).ok
        assert bench.source.strikes() == ()


async def test_what_people_asked_is_in_no_rejection_however_a_candidate_tries(cache: NativeCache) -> None:
    """A model that writes tools reads why they were rejected: it must not read there what others asked of the tool."""
    secret = SECRET
    async with open_bench(cache, policy=policy()) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {secret: secret})
        # It could as well put its arguments there.
        raising = {"raised": {"message": secret, "type": secret, "trace": [secret]}}
        error = await rejected(bench, artifact("calc", answer=raising))

        assert "now crashes: handler_raised; its arguments were {1 more}" in error.problems[0]
        assert secret not in str(error)
        assert secret not in str(bench.store.verdicts(2))


GROWS_IN_VAIN = "(drop (memory.grow (i32.const 65535)))"


@pytest.mark.parametrize("body", ["", GROWS_IN_VAIN])
@pytest.mark.parametrize(
    ("raising", "place"),
    [
        ({"message": SECRET, "type": "ValueError", "trace": ["t.py:2 in t: x"]}, "ValueError, at line 2 of its source"),
        (
            {"message": SECRET, "type": SECRET, "trace": [f"{SECRET}:2 in {SECRET}: {SECRET}"]},
            "at line 2 of its source",
        ),
        (
            {"message": SECRET, "trace": [SECRET, f"{SECRET}:99", "t.py:4", "near t.py:3 in f"]},
            "at line 3 of its source",
        ),
        ({"message": f"ValueError: {SECRET}", "trace": [f"t.py:1{SECRET}"]}, "ValueError"),
        ({"message": "ValueErrors: x", "trace": [f"function (+0x1) {SECRET} (+0x2)"]}, ""),
    ],
    ids=str,
)
async def test_a_rejection_says_where_a_guest_raised_and_nothing_that_it_chose(
    cache: NativeCache, raising: dict[str, Any], place: str, body: str
) -> None:
    """Without memory too: then the reason is the host's and the words are the guest's all the same."""
    async with open_bench(cache, policy=policy()) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc")
        error = await rejected(bench, artifact("calc", answer={"raised": raising}, body=body, source="1\n2\n3"))
    reason = "out_of_memory" if body else "handler_raised"
    place = place.removeprefix("ValueError").removeprefix(", ") if body else place
    assert f"now crashes: {reason}{f', {place}' if place else ''}; its arguments were" in error.problems[0]
    assert SECRET not in str(error)


async def test_what_a_guest_says_after_a_fault_of_the_host_is_in_no_rejection(cache: NativeCache) -> None:
    @capability("test.now", quick=True)
    def now() -> Any:
        raise CapabilityError("unavailable", "away")

    async with open_bench(cache, policy=granting(now), capabilities=[now]) as bench:
        await bench.go(asking_guest("calc", "test.now"))
        await bench.call("calc")
        raising = plain.encode({"raised": {"message": SECRET, "trace": [SECRET]}})
        says = "".join(f"(i32.store8 (i32.const {at}) (i32.const {byte}))" for at, byte in enumerate(raising, 16))
        says += f"(return (i64.const {(16 << 32) + len(raising)}))"
        error = await rejected(bench, asking_guest("calc", "test.now", then=says))
    assert "now crashes: capability_fault; its arguments" in error.problems[0]
    assert SECRET not in str(error)


async def test_a_candidate_that_answers_differently_passes_and_is_reported(cache: NativeCache) -> None:
    reviews: list[Review] = []

    def approve(review: Review) -> bool:
        reviews.append(review)
        return True

    async with open_bench(cache, policy=policy("replay", "approval"), approve=approve) as bench:
        await bench.go(artifact("calc", answer="one\ntwo"))
        await bench.call("calc", {"n": 1})
        await bench.call("calc", {"n": 2})
        live = await bench.go(artifact("calc", answer="one\n2"))
        report = reviews[-1].tools[0].replay
        notes = bench.store.verdicts(live.number)[1]

    assert report is not None
    assert [(each.id, each.same, each.broke) for each in report.replays] == [(2, False, False), (1, False, False)]
    assert '+ "ok": "one\\n' in report.replays[0].diff or "+2" in report.replays[0].diff
    assert report.fuel_ratios() == (1.0, 1.0)
    assert (notes.gate, notes.passed) == ("replay", True)
    assert notes.problems == ("calc: 2 recorded calls replayed, 0 the same, 2 differ, fuel x1.00, at most x1.00",)
    assert reviews[-1].as_json()["tools"][0]["replay"]["differing"] == 2
    assert reviews[0].tools[0].replay is None


@pytest.mark.parametrize(
    ("then", "told"),
    [
        (artifact("calc", answer={"error": "no"}), "2 recorded calls replayed, 0 the same, 2 differ (2 ok -> failed)"),
        (
            asking_guest("calc", "test.now", then="(if (i32.eqz (local.get $left)) (then))", times=2),
            "2 recorded calls replayed, 0 the same, 2 differ, of all these 2 asked the host otherwise",
        ),
        (
            artifact("calc", answer={"ok": {"ok": 1}}),
            "2 recorded calls replayed, 2 the same, of all these 2 asked the host otherwise",
        ),
    ],
    ids=["fails", "asks_more", "asks_less"],
)
async def test_each_call_counts_once_and_what_fails_now_is_told_apart(
    cache: NativeCache, then: Artifact, told: str
) -> None:
    @capability("test.now", quick=True)
    def now() -> Any:
        return 1

    async with open_bench(cache, policy=granting(now), capabilities=[now]) as bench:
        await bench.go(asking_guest("calc", "test.now"))
        await bench.call("calc")
        await bench.call("calc")
        live = await bench.go(then)
        (note,) = bench.store.verdicts(live.number)[1].problems
    assert note.startswith(f"calc: {told}")


@pytest.mark.slow
async def test_a_review_replays_for_whoever_looks_before_the_switch(cache: NativeCache) -> None:
    async with open_bench(cache, policy=policy("replay", "approval")) as bench:
        first = await bench.source.stage([artifact("calc")], author="model")
        bench.store.approve(first.number, by="a person")
        await bench.source.activate(first)
        await bench.call("calc", {"n": True})
        candidate = await bench.source.stage([artifact("calc", body=TRAPS_IF_TOLD)], author="model")
        (tool,) = (await bench.source.review(candidate)).tools
        assert tool.replay is not None
        assert [each.reason for each in tool.replay.broken] == ["trapped"]


@pytest.mark.slow
async def test_a_candidate_that_times_out_is_rejected(cache: NativeCache) -> None:
    limits = {"tools": {"*": {"limits": {"fuel": 1_000_000}}}}
    rules = Policy.parse({"gates": {"on": ["replay"]}, "recordings": {"on": True}} | limits)
    async with open_bench(cache, policy=rules) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"n": True})
        error = await rejected(bench, artifact("calc", body=SPINS_IF_TOLD))
        assert "out_of_fuel (fuel=1000000)" in error.problems[0]


@pytest.mark.slow
async def test_a_crash_that_was_one_before_rejects_nobody(cache: NativeCache) -> None:
    async with open_bench(cache, policy=policy()) as bench:
        await bench.go(artifact("calc", body=TRAPS))
        await bench.call("calc")
        live = await bench.go(artifact("calc", body=TRAPS, salt=1))
        assert live.number == 2


@pytest.mark.slow
async def test_the_calls_of_earlier_versions_count_and_those_of_other_tools_do_not(cache: NativeCache) -> None:
    async with open_bench(cache, policy=policy()) as bench:
        await bench.go(artifact("calc"), artifact("other"))
        await bench.call("calc", {"n": True})
        await bench.call("other", {"n": True})
        await bench.go(artifact("calc", salt=1))
        error = await rejected(bench, artifact("calc", body=TRAPS_IF_TOLD))
        assert [problem.partition(",")[0] for problem in error.problems] == ["calc: recording 1"]
        await bench.go(remove=("calc",))
        assert (await rejected(bench, artifact("calc", body=TRAPS_IF_TOLD))).gate == "replay"
        bench.store.recordings.drop(tool="calc")
        assert (await bench.go(artifact("calc", body=TRAPS_IF_TOLD, salt=2))).state == "live"


@pytest.mark.slow
async def test_only_the_latest_calls_are_replayed(cache: NativeCache) -> None:
    async with open_bench(cache, policy=policy(gate_calls=2)) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"n": True})
        await bench.call("calc", {"n": False})
        await bench.call("calc", {"n": False})
        assert (await bench.go(artifact("calc", body=TRAPS_IF_TOLD))).number == 2


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2, 8])
async def test_not_more_problems_are_told_than_a_model_can_use(
    cache: NativeCache, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("rho_wasm.dynamic.replayer._AT_ONCE", at_once)
    async with open_bench(cache, policy=policy()) as bench:
        await bench.go(artifact("calc"))
        for _ in range(20):
            await bench.call("calc")
        error = await rejected(bench, artifact("calc", body=TRAPS))
        assert len(error.problems) == 9
        assert error.problems[-1] == "there may be more: mend these first"
        assert "recorded calls that worked crash now, the first of them as trapped" in error.told[0]


@pytest.mark.slow
async def test_no_more_problems_are_hinted_at_where_all_are_told(cache: NativeCache) -> None:
    async with open_bench(cache, policy=policy()) as bench:
        await bench.go(artifact("calc"))
        for _ in range(8):
            await bench.call("calc")
        error = await rejected(bench, artifact("calc", body=TRAPS))
        assert len(error.problems) == 8
        assert all("recording" in problem for problem in error.problems)


async def test_a_crash_after_other_host_calls_needs_a_persons_yes_and_one_after_fewer_rejects(
    cache: NativeCache,
) -> None:
    @capability("test.now")
    def now() -> Any:
        return 1

    async with open_bench(cache, policy=granting(now), capabilities=[now]) as bench:
        await bench.go(asking_guest("calc", "test.now"))
        await bench.call("calc")
        error = await rejected(bench, asking_guest("calc", "test.now", times=2, then="unreachable"))
        assert (error.gate, error.waiting, error.told) == ("approval", True, error.problems)
        why = "1 of 1 recorded call of calc asked the host otherwise and then crashed, which says neither yes nor no"
        assert f"it waits for a person's yes, as {why}: rho-wasm approve 2" in error.problems[0]
        (tool,) = (await bench.source.review(2)).tools
        assert tool.replay is not None
        assert [each.recorded_kind for each in tool.replay.undecided] == ["ok"]
        assert (
            "1 differs (1 ok -> crashed), of all these 1 asked the host otherwise (1 and then" in tool.replay.summary()
        )
        error = await rejected(bench, artifact("calc", body=TRAPS))
        assert "; at host call 1 it asked nothing more where test.now was recorded. Answer it" in error.problems[0]
        bench.store.approve(2, by="a person")
        assert (await bench.source.activate(2)).state == "live"


async def test_a_call_that_failed_holds_no_successor_and_pushes_none_out_that_worked(cache: NativeCache) -> None:
    async with open_bench(cache, policy=policy(gate_calls=1)) as bench:
        await bench.go(artifact("other", answer={"error": "try again"}), artifact("calc"))
        await bench.call("other", {"n": True})
        live = await bench.go(artifact("other", body=TRAPS))
        (note,) = bench.store.verdicts(live.number)[1].problems
        assert note.startswith("other: 1 recorded call replayed, 0 the same, 1 differs (1 failed -> crashed)")

        await bench.call("calc", {"n": True})
        await bench.go(artifact("calc", answer={"error": "try again"}))
        for _ in range(3):
            await bench.call("calc", {"n": False})
        assert (await rejected(bench, artifact("calc", body=TRAPS_IF_TOLD))).gate == "replay"


async def test_a_damaged_recording_is_skipped_and_said(cache: NativeCache, store: Store) -> None:
    async with open_bench(cache, store=store, policy=policy()) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"n": 1})
        await bench.call("calc", {"n": 2})
        await bench.source.write_recordings()
        with store._database.write() as connection:
            connection.execute("UPDATE recordings SET body = x'00' WHERE id = 1")
        live = await bench.go(artifact("calc", salt=1))
        (note,) = store.verdicts(live.number)[1].problems
        assert "1 recorded call replayed, 1 the same" in note
        assert note.endswith("1 skipped")


@pytest.mark.parametrize("field", ["request", "answer", "seed", "host"])
@pytest.mark.slow
async def test_a_forged_recording_harms_nobody(cache: NativeCache, store: Store, field: str) -> None:
    forged = {
        "request": Recording(
            tool="calc", artifact="x", generation=1, at=0.0, kind="ok", request=b"\xa0", answer=b"\xa0"
        ),
        "answer": Recording(tool="calc", artifact="x", generation=1, at=0.0, kind="ok", request=b"\xa0"),
        "seed": Recording(
            tool="calc", artifact="x", generation=1, at=0.0, kind="ok", request=b"\xff", answer=b"\xa0", seed=b"1"
        ),
        "host": Recording(tool="calc", artifact="x", generation=1, at=0.0, kind="ok", request=b"", answer=b"\xa0"),
    }[field]
    async with open_bench(cache, store=store, policy=policy()) as bench:
        await bench.go(artifact("calc"))
        store.recordings.add([forged], per_tool=10, bytes_per_tool=10_000)
        assert (await bench.go(artifact("calc", body=TRAPS))).number == 2
        (note,) = store.verdicts(2)[1].problems
        assert note == "calc: no recorded call was replayed, 1 skipped"


async def test_a_redacted_call_that_its_own_version_does_not_bear_rejects_nobody(cache: NativeCache) -> None:
    def redact(call: dict[str, Any]) -> dict[str, Any]:
        return call | {"arguments": {"n": True}}

    async with open_bench(cache, policy=policy(), redact=redact) as bench:
        await bench.go(artifact("calc", body=TRAPS_IF_TOLD))
        await bench.call("calc", {"n": False})
        assert (await bench.go(artifact("calc", body=TRAPS_IF_TOLD, salt=1))).number == 2
        (note,) = bench.store.verdicts(2)[1].problems
        assert "1 skipped" in note


@pytest.mark.slow
async def test_a_redacted_call_that_its_own_version_bears_counts(cache: NativeCache) -> None:
    def redact(call: dict[str, Any]) -> dict[str, Any]:
        return call | {"arguments": {"n": True}}

    async with open_bench(cache, policy=policy(), redact=redact) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"n": False})
        assert (await rejected(bench, artifact("calc", body=TRAPS_IF_TOLD))).gate == "replay"


async def test_a_host_without_room_decides_nothing(cache: NativeCache, store: Store) -> None:
    async with open_bench(cache, store=store, policy=policy()) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc")
    limits = HostLimits(total_memory_bytes=64 * 1024 * 1024, queue_ms=1)
    async with Sandbox(cache=cache, limits=limits) as sandbox, DynamicSource(store, sandbox, policy=policy()) as source:
        candidate = await source.stage([artifact("calc", salt=1)], author="model")
        taken = sandbox._slots.take_now("another", 64 * 1024 * 1024)
        assert taken
        with pytest.raises(GateRejected) as caught:
            await source.activate(candidate)
        assert (caught.value.gate, caught.value.waiting) == ("replay", True)
        sandbox._slots.give_back("another", 64 * 1024 * 1024)
        assert (await source.activate(candidate)).number == 2


def record_calls(connection: Connection, folder: str, key_path: str, cache: str, ends: bool) -> None:
    """In another process: records calls of ``calc`` until it is told to stop, or is killed."""

    async def run() -> None:
        with Store.open(folder, key_path=Path(key_path)) as store:
            kept = NativeCache(Path(cache) / "cache", Path(cache) / "keys" / "host.key")
            async with open_bench(kept, store=store, policy=policy()) as bench:
                for number in range(5):
                    await bench.call("calc", {"n": number})
                await bench.source.write_recordings()
                connection.send("written")
                while not ends:
                    await bench.call("calc", {"n": 99})

    anyio.run(run)
    connection.close()


@pytest.mark.slow
async def test_two_processes_record_into_one_ring(cache: NativeCache, store: Store, key_path: Path) -> None:
    async with open_bench(cache, store=store, policy=policy(per_tool=8)) as bench:
        await bench.go(artifact("calc"))
        process, connection = begin(record_calls, str(store.folder), str(key_path), str(cache.folder.parent), True)
        assert await anyio.to_thread.run_sync(connection.poll, WAIT_S)
        await anyio.to_thread.run_sync(process.join, WAIT_S)
        for number in range(5):
            await bench.call("calc", {"n": number})
        await bench.source.write_recordings()
        found = [store.recordings.get(row.id) for row in store.recordings.rows()]
        assert [each.as_plain()["arguments"]["n"] for each in found if each is not None] == [4, 3, 2, 1, 0, 4, 3, 2]
        connection.close()
        process.close()


@pytest.mark.slow
async def test_a_process_that_is_killed_while_it_records_leaves_whole_recordings(
    cache: NativeCache, store: Store, key_path: Path
) -> None:
    async with open_bench(cache, store=store) as bench:
        await bench.go(artifact("calc"))
    process, connection = begin(record_calls, str(store.folder), str(key_path), str(cache.folder.parent), False)
    assert await anyio.to_thread.run_sync(connection.poll, WAIT_S)
    process.kill()
    await anyio.to_thread.run_sync(process.join, WAIT_S)
    connection.close()
    process.close()
    rows = store.recordings.rows()
    assert len(rows) >= 5
    assert all(store.recordings.get(row.id) is not None for row in rows)
    async with open_bench(cache, store=store, policy=policy()) as bench:
        assert (await rejected(bench, artifact("calc", body=TRAPS))).gate == "replay"
