from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities.capability import Capability, capability
from rho_wasm.capabilities.tools import tool_capabilities
from rho_wasm.dynamic.recorder import Redact
from rho_wasm.dynamic.recording import Recording
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import CapabilityError, Corrupt
from rho_wasm.events import SourceFailed
from rho_wasm.policy import Policy
from rho_wasm.results import ToolResult
from rho_wasm.sandbox import NativeCache
from rho_wasm.testing import asking_guest
from tests.dynamic.bench import Bench, open_bench
from tests.dynamic.guests import SPINS, TRAPS, artifact

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


LARGE = 1024 * 1024 - 64


@capability("test.now")
def now(text: str = "", fails: str = "") -> Any:
    if fails == "denied":
        raise CapabilityError("denied", "not you")
    if fails:
        raise RuntimeError("a secret of the host's")
    return {"heard": text}


@capability("test.later")
async def later(n: int = 0) -> Any:
    return [n, "x" * n]


OWN: tuple[Capability, ...] = (now, later)


def recording(**recordings: Any) -> Policy:
    grants: dict[str, Any] = {"test.now": {}, "test.later": {}}
    return Policy.parse({"recordings": {"on": True} | recordings, "tools": {"*": {"grants": grants}}}, capabilities=OWN)


async def kept(bench: Bench) -> list[Recording]:
    """Everything that was recorded, the oldest first."""
    await bench.source.write_recordings()
    found = [bench.store.recordings.get(row.id) for row in bench.store.recordings.rows()]
    return [each for each in reversed(found) if each is not None]


async def test_nothing_is_recorded_unless_the_policy_says_so(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc")
        assert await kept(bench) == []
        assert bench.source.recorder_statistics() is None


async def test_a_call_is_recorded_with_all_that_it_takes_to_run_it_again(cache: NativeCache) -> None:
    async with open_bench(cache, policy=recording()) as bench:
        built = artifact("calc", answer={"ok": [1, b"\x00"], "details": {"n": 1}})
        await bench.go(built)
        result = await bench.call("calc", {"b": 1, "a": "é"}, values={"locale": "de"}, session_id="secret")
        (found,) = await kept(bench)

    assert (found.tool, found.artifact, found.generation, found.kind) == ("calc", built.sha256, 1, "ok")
    assert found.as_plain()["arguments"] == {"a": "é", "b": 1}
    assert found.as_plain()["context"] == {"call_id": "call 1", "values": {"locale": "de"}}
    assert found.as_plain()["answer"] == {"ok": [1, b"\x00"], "details": {"n": 1}}
    assert found.fuel == result.fuel_used
    assert (found.host_calls, found.clock_ns, found.seed) == ((), None, None)


@pytest.mark.slow
async def test_every_end_of_a_guest_is_recorded_and_no_end_of_the_hosts(cache: NativeCache) -> None:
    answers: list[Any] = [
        {"error": "which?"},
        {"ask_user": "sure?"},
        {"halt": "done", "value": 1},
        {"raised": {"message": "no"}},
    ]
    async with open_bench(cache, policy=recording()) as bench:
        for number, answer in enumerate(answers):
            await bench.go(artifact("calc", answer=answer, salt=number))
            await bench.call("calc")
        await bench.go(artifact("calc", body=TRAPS))
        await bench.call("calc")
        await bench.go(artifact("spin", body=SPINS))
        await bench.call("spin", timeout_ms=1)
        await bench.call("calc", ["no map"])  # type: ignore[arg-type]
        found = await kept(bench)

    ends = [("failed", "failed"), ("ok", None), ("ok", None), ("crashed", "handler_raised"), ("crashed", "trapped")]
    assert [(each.kind, each.reason) for each in found[:5]] == ends
    assert (found[5].kind, found[5].reason, found[5].fuel, found[5].answer) == ("crashed", "deadline", None, None)
    assert len(found) == 6


async def test_what_was_asked_and_answered_is_recorded_whatever_the_answer(cache: NativeCache) -> None:
    async with open_bench(cache, policy=recording(), capabilities=OWN) as bench:
        await bench.go(asking_guest("now", "test.now"), asking_guest("later", "test.later"))
        for arguments in ({"text": "hi"}, {"fails": "denied"}, {"fails": "x"}):
            await bench.call("now", arguments)
        await bench.call("later", {"n": 3})
        found = [each.as_plain()["host_calls"] for each in await kept(bench)]

    assert [[(call["capability"], call["arguments"]) for call in calls] for calls in found] == [
        [("test.now", {"text": "hi"})],
        [("test.now", {"fails": "denied"})],
        [("test.now", {"fails": "x"})],
        [("test.later", {"n": 3})],
    ]
    assert [calls[0]["reply"] for calls in found] == [
        {"ok": {"heard": "hi"}},
        {"error": {"kind": "denied", "message": "not you"}},
        {"error": {"kind": "unavailable", "message": "the capability failed in the host"}},
        {"ok": [3, "xxx"]},
    ]


async def test_a_capability_that_exits_is_recorded_as_any_other_that_failed(cache: NativeCache) -> None:
    @capability("test.now", quick=True)
    def now() -> Any:
        sys.exit("a secret of the host's")

    @capability("test.later")
    async def later() -> Any:
        sys.exit("a secret of the host's")

    policy = Policy.parse(
        {"recordings": {"on": True}, "tools": {"*": {"grants": {"test.now": {}, "test.later": {}}}}},
        capabilities=[now, later],
    )
    async with open_bench(cache, policy=policy, capabilities=[now, later]) as bench:
        await bench.go(asking_guest("now", "test.now"), asking_guest("later", "test.later"))
        heard = [(await bench.call(name)).value for name in ("now", "later")]
        recorded = [each.as_plain()["host_calls"] for each in await kept(bench)]
    assert [[call["reply"] for call in calls] for calls in recorded] == [[each] for each in heard]


@pytest.mark.slow
async def test_what_is_not_granted_is_recorded_as_denied(cache: NativeCache) -> None:
    policy = Policy.parse({"recordings": {"on": True}})
    async with open_bench(cache, policy=policy, capabilities=OWN) as bench:
        await bench.go(asking_guest("now", "test.now"))
        result = await bench.call("now", {"text": "hi"})
        (found,) = await kept(bench)

    assert result.value["error"]["kind"] == "denied"
    assert found.as_plain()["host_calls"][0]["reply"] == result.value


async def test_calls_of_tools_by_tools_stand_in_their_callers_recordings_and_never_where_one_opted_out(
    cache: NativeCache,
) -> None:
    async def run(call: ToolCall, caller: ToolContext, timeout_ms: int) -> ToolResult:
        return await bench.runner.run_for(call, caller, timeout_ms)

    capabilities = tool_capabilities(run)
    grants = {"tool.call": {"tools": ["medical", "other", "nested"]}}
    policy = Policy.parse({"recordings": {"on": True, "skip": ["medical"]}, "tools": {"*": {"grants": grants}}})
    async with open_bench(cache, policy=policy, capabilities=capabilities) as bench:
        called = [artifact("medical", "other", answer={"ok": "findings"})]
        await bench.go(*called, asking_guest("caller", "tool.call"), asking_guest("nested", "tool.call", salt=1))
        for name, value in [("medical", "findings"), ("other", "findings"), ("caller", None)]:
            result = await bench.call("caller", {"name": name, "arguments": {}})
            assert result.kind == "ok", result
            assert value is None or result.value == {"ok": {"value": value}}
        asked: dict[str, Any] = {"name": "nested", "arguments": {"name": "medical", "arguments": {}}}
        assert (await bench.call("caller", asked)).value == {"ok": {"value": {"ok": {"value": "findings"}}}}
        found = await kept(bench)
        statistics = bench.source.recorder_statistics()

    # What never was called, as it is not granted, is no reason to keep nothing.
    assert [(each.tool, each.as_plain()["arguments"]["name"]) for each in found] == [
        ("caller", "other"),
        ("caller", "caller"),
    ]
    assert statistics is not None
    assert (statistics.kept, statistics.withheld) == (2, 2)


async def test_a_tool_that_opted_out_is_never_recorded(cache: NativeCache) -> None:
    async with open_bench(cache, policy=recording(skip=["bank_*", "mail"])) as bench:
        await bench.go(artifact("bank_transfer", "mail", "mailbox"))
        for tool in ("bank_transfer", "mail", "mailbox"):
            await bench.call(tool)
        assert [each.tool for each in await kept(bench)] == ["mailbox"]


@pytest.mark.parametrize("limits", [{"per_tool": 3}, {"bytes_per_tool": 800}])
@pytest.mark.slow
async def test_a_ring_keeps_the_latest_calls_of_each_tool(cache: NativeCache, limits: dict[str, int]) -> None:
    async with open_bench(cache, policy=recording(**limits)) as bench:
        await bench.go(artifact("one", "two"))
        for number in range(4):
            for tool in ("one", "two"):
                await bench.call(tool, {"n": number, "text": "x" * 100})
        first = await kept(bench)
        for number in range(4, 8):
            await bench.call("one", {"n": number, "text": "x" * 100})
        second = await kept(bench)

    for tool, found, last in (("one", first, 3), ("two", first, 3), ("one", second, 7), ("two", second, 3)):
        numbers = [each.as_plain()["arguments"]["n"] for each in found if each.tool == tool]
        assert numbers == list(range(last + 1 - len(numbers), last + 1))
        assert len(numbers) == 3
    assert sum(len(each.body()) for each in second if each.tool == "one") <= 800


async def test_a_call_that_is_too_large_is_counted_and_not_kept(cache: NativeCache) -> None:
    async with open_bench(cache, policy=recording(bytes_per_tool=500)) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"text": "x" * 600})
        await bench.call("calc", {"text": "x" * 70_000})
        await bench.call("calc", {"text": "x"})
        assert [each.as_plain()["arguments"] for each in await kept(bench)] == [{"text": "x"}]
        statistics = bench.source.recorder_statistics()
        assert statistics is not None
        assert (statistics.too_large, statistics.kept, statistics.written, statistics.waiting) == (2, 1, 1, 0)


@pytest.mark.slow
async def test_a_long_answer_is_recorded_too(cache: NativeCache) -> None:
    async with open_bench(cache, policy=recording()) as bench:
        await bench.go(artifact("calc", answer=list(range(5_000))))
        await bench.call("calc")
        (found,) = await kept(bench)
        assert found.as_plain()["answer"] == {"ok": list(range(5_000))}


@pytest.mark.slow
async def test_a_guest_that_hears_a_gigabyte_from_the_host_fills_neither_memory_nor_disk(cache: NativeCache) -> None:
    @capability("test.flood")
    def flood() -> Any:
        return "x" * LARGE

    policy = Policy.parse(
        {"recordings": {"on": True}, "tools": {"*": {"grants": {"test.flood": {}}}}}, capabilities=[flood]
    )
    async with open_bench(cache, policy=policy, capabilities=[flood]) as bench:
        await bench.go(asking_guest("flood", "test.flood", times=40))
        result = await bench.call("flood", timeout_ms=60_000)
        assert result.ok
        assert await kept(bench) == []
        statistics = bench.source.recorder_statistics()
        assert statistics is not None
        assert statistics.too_large == 1


async def test_a_hook_alters_what_is_kept(cache: NativeCache) -> None:
    seen: list[dict[str, Any]] = []

    def redact(call: dict[str, Any]) -> dict[str, Any] | None:
        seen.append(call)
        if "password" in call["arguments"]:
            return None
        call["arguments"]["card"] = "****"
        call["tool"] = "another"
        return call

    async with open_bench(cache, policy=recording(), redact=redact) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"card": "4111", "n": 1})
        await bench.call("calc", {"password": "hunter2"})
        (found,) = await kept(bench)
        statistics = bench.source.recorder_statistics()

    assert (found.tool, found.as_plain()["arguments"], found.redacted) == ("calc", {"card": "****", "n": 1}, True)
    assert [each["kind"] for each in seen] == ["ok", "ok"]
    assert statistics is not None
    assert statistics.withheld == 1


def raises(call: dict[str, Any]) -> Any:
    raise ValueError(f"could not handle {call['arguments']}")


def exits(call: dict[str, Any]) -> Any:
    raise SystemExit(1)


def another(call: dict[str, Any]) -> Any:
    return call | {"answer": None}


def not_plain(call: dict[str, Any]) -> Any:
    return call | {"arguments": {"n": object()}}


def text(call: dict[str, Any]) -> Any:
    return "no"


def empty(call: dict[str, Any]) -> Any:
    return {}


FAILING: tuple[Redact, ...] = (exits, another, not_plain, text, empty)


@pytest.mark.parametrize("redact", [raises, *(pytest.param(hook, marks=pytest.mark.slow) for hook in FAILING)])
async def test_a_hook_that_fails_drops_the_recording_and_is_reported(cache: NativeCache, redact: Redact) -> None:
    async with open_bench(cache, policy=recording(), redact=redact) as bench:
        await bench.go(artifact("calc"))
        await bench.call("calc", {"card": "4111"})
        assert await kept(bench) == []
        event = await bench.until_told(SourceFailed)
        assert (event.operation, event.tools) == ("record", ("calc",))
        assert "redaction hook failed" in event.error
        assert "4111" not in event.error
        await bench.call("calc")
        statistics = bench.source.recorder_statistics()
        assert statistics is not None
        assert statistics.failed >= 1


async def test_a_hook_is_a_function_that_does_not_wait(cache: NativeCache) -> None:
    async def redact(call: dict[str, Any]) -> dict[str, Any]:
        return call

    class Awaited:
        async def __call__(self, call: dict[str, Any]) -> dict[str, Any]:
            return call

    for hook in (redact, Awaited()):
        with pytest.raises(TypeError, match="redact"):
            async with open_bench(cache, policy=recording(), redact=hook):  # type: ignore[arg-type]
                pass


@pytest.mark.slow
async def test_a_store_that_is_read_only_records_nothing_and_says_so(
    cache: NativeCache, tmp_path: Path, key_path: Path
) -> None:
    with Store.open(tmp_path / "store", key_path=key_path) as store:
        async with open_bench(cache, store=store) as bench:
            await bench.go(artifact("calc"))
    with Store.open(tmp_path / "store", key_path=key_path, read_only=True) as store:
        async with open_bench(cache, store=store, policy=recording()) as bench:
            assert (await bench.call("calc")).ok
            event = await bench.until_told(SourceFailed)
            assert "no call is recorded" in event.error
            assert await kept(bench) == []


async def test_recordings_are_for_the_hosts_user_alone_and_those_dropped_leave_no_trace(
    cache: NativeCache, tmp_path: Path, key_path: Path
) -> None:
    folder = tmp_path / "store"
    with Store.open(folder, key_path=key_path) as store:
        async with open_bench(cache, store=store, policy=recording()) as bench:
            await bench.go(artifact("calc"))
            await bench.call("calc", {"text": "the-quick-brown-secret" * 10})
            await bench.call("calc", {"text": "stays"})
            found = await kept(bench)
        assert stat.S_IMODE((folder / "store.sqlite").stat().st_mode) & 0o077 == 0
        assert b"the-quick-brown-secret" in b"".join(path.read_bytes() for path in folder.glob("store.sqlite*"))
        assert store.recordings.drop([found[0].id, 999]) == 1
        assert [row.id for row in store.recordings.rows()] == [found[1].id]
        assert b"the-quick-brown-secret" not in b"".join(path.read_bytes() for path in folder.glob("store.sqlite*"))
        assert store.recordings.drop(tool="calc") == 1


async def test_a_recording_that_was_altered_in_the_store_is_corrupt(
    cache: NativeCache, tmp_path: Path, key_path: Path
) -> None:
    with Store.open(tmp_path / "store", key_path=key_path) as store:
        async with open_bench(cache, store=store, policy=recording()) as bench:
            await bench.go(artifact("calc"))
            await bench.call("calc")
            (found,) = await kept(bench)
            with store._database.write() as connection:
                connection.execute("UPDATE recordings SET body = substr(body, 2)")
            with pytest.raises(Corrupt, match=f"recordings drop {found.id}"):
                store.recordings.get(found.id)
