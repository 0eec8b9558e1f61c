from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from rho_wasm.calls import ToolCall
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.generation import Generation
from rho_wasm.dynamic.handler import GuestHandler
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.dynamic.store import Store
from rho_wasm.errors import Closed, GenerationConflict, NameInvalid, StoreError, UnknownGeneration
from rho_wasm.events import GenerationSwitched, SourceFailed
from rho_wasm.limits import Limits
from rho_wasm.policy import Policy
from rho_wasm.registry import ToolRegistry
from rho_wasm.runner import ToolRunner
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.testing import FakeSource
from rho_wasm.tools import Tool
from tests.dynamic.bench import open_bench
from tests.dynamic.guests import SPINS_IF_TOLD, artifact, declaration
from tests.dynamic.processes import WAIT_S

pytestmark = pytest.mark.anyio

ECHOES = """
(local.set $ptr (i32.sub (local.get $ptr) (i32.const 4)))
(i32.store8 (local.get $ptr) (i32.const 0xa1))
(i32.store8 offset=1 (local.get $ptr) (i32.const 0x62))
(i32.store16 offset=2 (local.get $ptr) (i32.const 0x6b6f))
(return (i64.or (i64.shl (i64.extend_i32_u (local.get $ptr)) (i64.const 32))
  (i64.extend_i32_u (i32.add (local.get $len) (i32.const 4)))))
"""
"""Answers ``{"ok": request}``: "ok" stands before the request, where rho_alloc left no room but memory has some."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path, key_path: Path) -> Iterator[Store]:
    with Store.open(folder, key_path=key_path) as store:
        yield store


async def test_nothing_staged_is_offered_before_it_is_activated(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        candidate = await bench.source.stage([artifact("calc")], author="model", note="adds")
        assert bench.source.list() == ()
        assert (await bench.call("calc")).reason == "not_found"
        live = await bench.source.activate(candidate)
        assert (live.number, live.state, live.note) == (1, "live", "adds")
        assert [tool.name for tool in bench.source.list()] == ["calc"]
        result = await bench.call("calc")
        assert (result.value, result.generation) == ("done", 1)
        assert bench.events == [GenerationSwitched(number=1, previous=0, author="model", note="adds", added=("calc",))]


async def test_an_artifact_brings_all_its_tools_and_a_removal_takes_one_away(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc", "text"))
        assert [tool.name for tool in bench.source.list()] == ["calc", "text"]
        await bench.go(remove=("calc",))
        assert bench.source.lookup("calc") is None
        assert (await bench.call("text")).ok


async def test_a_switch_is_seen_at_the_next_look_and_a_snapshot_stays(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc", answer="old"))
        shown, version = bench.registry.snapshot(), bench.source.version
        await bench.go(artifact("calc", answer="new"))
        assert bench.source.version != version
        assert (await bench.call("calc")).value == "new"
        late = await bench.call("calc", tools=shown)
        assert (late.value, late.generation) == ("old", 1)


async def test_a_call_that_began_on_a_generation_ends_on_it_and_then_its_module_goes(cache: NativeCache) -> None:
    async with open_bench(cache, limits=Limits(fuel=10**15, deadline_ms=60_000)) as bench:
        old, new = artifact("calc", body=SPINS_IF_TOLD), artifact("calc", answer="new")
        await bench.go(old)
        watching = FakeSource()
        runner = ToolRunner(ToolRegistry([], sources=[bench.source, watching]))
        results = []

        async def spin() -> None:
            results.append(await runner.run(ToolCall("spin", "calc", {"n": True})))

        async with anyio.create_task_group() as group:
            group.start_soon(spin)
            while not bench.sandbox.statistics().running:  # noqa: ASYNC110 - nothing tells when a guest began
                await anyio.sleep(0.001)
            await bench.go(new)
            assert bench.source.loaded_modules() == tuple(sorted([old.sha256, new.sha256]))
            assert (await bench.call("calc")).value == "new"
            watching.watched[0].cancel()
        assert (results[0].reason, results[0].generation) == ("cancelled", 1)
        assert bench.source.loaded_modules() == (new.sha256,)
        assert bench.sandbox.statistics().modules == 1


async def test_rollback_returns_to_what_was_live_and_modules_follow(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        old, new = artifact("calc", answer="old"), artifact("calc", answer="new")
        await bench.go(old)
        await bench.go(new)
        live = await bench.source.rollback()
        assert (live.number, live.state) == (1, "live")
        assert (await bench.call("calc")).value == "old"
        assert bench.source.loaded_modules() == (old.sha256,)
        assert bench.events[-1] == GenerationSwitched(number=1, previous=2, author="operator", changed=("calc",))
        live = await bench.source.rollback(2, author="ops", note="it was fine")
        assert (await bench.call("calc")).value == "new"
        assert bench.events[-1] == GenerationSwitched(
            number=2, previous=1, author="ops", note="it was fine", changed=("calc",)
        )


async def test_of_two_candidates_for_one_tool_the_second_is_refused(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        first = await bench.source.stage([artifact("calc", salt=1)], author="one")
        second = await bench.source.stage([artifact("calc", salt=2)], author="two")
        other = await bench.source.stage([artifact("text")], author="three")
        await bench.source.activate(first)
        with pytest.raises(GenerationConflict):
            await bench.source.activate(second.number)
        assert (await bench.source.activate(other)).number == 4
        assert [tool.name for tool in bench.source.list()] == ["calc", "text"]


async def test_staging_is_refused_with_a_reason(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        calc: list[Any] = [artifact("calc")]
        with pytest.raises(NameInvalid, match="two of the added artifacts"):
            await bench.source.stage([*calc, artifact("calc", salt=1)], author="model")
        with pytest.raises(NameInvalid, match="both added and removed"):
            await bench.source.stage(calc, ["calc"], author="model")
        with pytest.raises(NameInvalid, match="no such tool"):
            await bench.source.stage([], ["calc"], author="model")
        with pytest.raises(NameInvalid, match="no added artifact declares it"):
            await bench.source.stage(calc, author="model", limits={"text": {"fuel": 1}})
        with pytest.raises(ValueError, match="nothing to stage"):
            await bench.source.stage(author="model")
        with pytest.raises(ValueError, match="author"):
            await bench.source.stage(calc, author="")
        with pytest.raises(ValueError, match="author"):
            await bench.source.stage(calc, author="strikes")
        with pytest.raises(ValueError, match="deadline_ms"):
            await bench.source.stage(calc, author="model", limits={"calc": {"deadline_ms": 10**9}})
        with pytest.raises(TypeError, match="not a bytes"):
            await bench.source.stage([calc[0].wasm], author="model")
        with pytest.raises(TypeError, match="list of tool names"):
            await bench.source.stage(calc, "calc", author="model")
        assert [generation.number for generation in bench.source.generations()] == [0]


async def test_staging_the_same_artifact_again_changes_nothing(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc"))
        candidate = await bench.source.stage([artifact("calc")], author="model")
        assert candidate.changes.names == frozenset()
        assert (await bench.source.activate(candidate)).number == 2
        assert (await bench.call("calc")).generation == 2


async def test_what_authors_write_is_kept_inert_and_bounded(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        candidate = await bench.source.stage(
            [artifact("calc")], author="\x1b[31m" + "a" * 500, note="\u202e" + "n" * 9_000
        )
        assert candidate.author.startswith("\\x1b")
        assert len(candidate.author) <= 128
        assert candidate.note.startswith("\\u202e")
        assert len(candidate.note) <= 2_000


async def test_a_tool_says_of_itself_what_the_host_lets_it_say(cache: NativeCache) -> None:
    guest = artifact(
        declaration("calc", metadata={"unit": "m", "rho_wasm": "built here"}, timeout_ms=1_000),
        declaration("dark", read_only=False, idempotent=False),
        declaration("grim", destructive=True),
        manifest={"language": "zig"},
    )
    async with open_bench(cache) as bench:
        await bench.go(guest)
        tools = {tool.name: tool for tool in bench.source.list()}
        calc = tools["calc"]
        assert calc.untrusted
        assert not calc.manual
        assert calc.metadata == {"unit": "m", "rho_wasm": {"artifact": guest.sha256, "language": "zig"}}
        assert calc.timeout_ms == 1_000

        def hints(tool: Tool) -> tuple[bool | None, ...]:
            return tool.read_only, tool.destructive, tool.idempotent

        assert hints(calc) == (True, False, True)  # nothing is granted, so nothing can be reached
        assert hints(tools["dark"]) == (False, False, False)
        assert hints(tools["grim"]) == (False, True, True)


async def test_a_manifest_cannot_claim_to_be_harmless(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact(declaration("calc", read_only=True, destructive=False, idempotent=True)))
        tool = bench.source.lookup("calc")
        assert tool is not None
        assert (tool.read_only, tool.destructive, tool.idempotent) == (True, False, True)


async def test_the_lowest_of_all_bounds_holds(cache: NativeCache) -> None:
    async with open_bench(cache, limits=Limits(deadline_ms=3_000, fuel=500)) as bench:
        guest = artifact(declaration("calc", timeout_ms=90_000), declaration("text", timeout_ms=100))
        candidate = await bench.source.stage([guest], author="model", limits={"calc": {"fuel": 7, "log_bytes": 9}})
        assert candidate.tools["calc"].limits == {"fuel": 7, "log_bytes": 9}
        await bench.source.activate(candidate)

        def limits(name: str) -> Limits:
            tool = bench.source.lookup(name)
            assert tool is not None
            assert isinstance(tool.handler, GuestHandler)
            return tool.handler.limits

        assert (limits("calc").deadline_ms, limits("calc").fuel, limits("calc").log_bytes) == (3_000, 7, 9)
        assert (limits("text").deadline_ms, limits("text").fuel) == (100, 500)


async def test_todays_policy_lowers_bounds_and_the_most_specific_line_decides(cache: NativeCache) -> None:
    lines = {"*": {"limits": {"fuel": 900, "log_bytes": 7}}, "calc": {"limits": {"fuel": 800}}}
    async with open_bench(cache, policy=Policy.model_validate({"tools": lines})) as bench:
        await bench.go(artifact("calc", "text"))
        found = {}
        for tool in bench.source.list():
            assert isinstance(tool.handler, GuestHandler)
            found[tool.name] = (tool.handler.limits.fuel, tool.handler.limits.log_bytes)
        assert found == {"calc": (800, 7), "text": (900, 7)}


async def test_only_the_calls_id_and_plain_values_cross_unless_the_policy_says_more(cache: NativeCache) -> None:
    guest = artifact("calc", body=ECHOES)
    more: dict[str, Any] = {
        "session_id": "s1",
        "request_id": "r1",
        "context": object(),
        "values": {"tenant": "blue", "list": (1, 2)},
    }
    async with open_bench(cache) as bench:
        await bench.go(guest)
        result = await bench.call("calc", {"n": 1}, call_id="c1", **more)
        assert result.value == {
            "abi": 1,
            "tool": "calc",
            "arguments": {"n": 1},
            "context": {"call_id": "c1", "values": {"tenant": "blue", "list": [1, 2]}},
        }
    policy = Policy.model_validate({"guests": {"session_ids": True}})
    async with open_bench(cache, policy=policy) as bench:
        await bench.go(guest)
        result = await bench.call("calc", call_id="c1", session_id="s1", request_id="r1")
        assert result.value["context"] == {"call_id": "c1", "session_id": "s1", "request_id": "r1"}


async def test_a_question_names_the_tool_that_asks(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc", answer={"ask_user": "which city?", "options": {"a": "Oslo"}}))
        result = await bench.call("calc")
        assert (result.status, result.text, result.options) == ("ask_user", "calc asks: which city?", {"a": "Oslo"})
        await bench.go(artifact("calc", answer={"ask_user": "y" * 2_000}))
        assert len((await bench.call("calc")).text) <= 2_000


@pytest.mark.parametrize(("key", "answer"), [("ask_user", {"ask_user": "?"}), ("halt", {"halt": "enough", "value": 1})])
async def test_a_policy_may_refuse_questions_and_halts(cache: NativeCache, key: str, answer: dict[str, Any]) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc", answer=answer))
        assert (await bench.call("calc")).status == key
    async with open_bench(cache, policy=Policy.model_validate({"guests": {key: False}})) as bench:
        await bench.go(artifact("calc", answer=answer))
        result = await bench.call("calc")
        assert (result.kind, result.reason) == ("crashed", "invalid_return")


async def test_a_core_names_thief_is_staged_and_never_offered(cache: NativeCache) -> None:
    async def pay(arguments: Any) -> Any:
        raise AssertionError

    core = Tool(name="pay", description="Pays.", input_schema={"type": "object"}, handler=pay)
    async with open_bench(cache) as bench:
        await bench.go(artifact("pay", "p4y_", "calc"))
        registry = ToolRegistry([core], sources=[bench.source])
        assert registry.lookup("pay") is core
        assert [tool.name for tool in registry.list() if tool.untrusted] == ["calc", "p4y_"]
        assert [shadowed.tool for shadowed in registry.shadowed()] == ["pay"]


async def test_a_restarted_host_offers_what_was_live(folder: Path, key_path: Path, cache: NativeCache) -> None:
    with Store.open(folder, key_path=key_path) as store:
        async with open_bench(cache, store=store) as bench:
            await bench.go(artifact("calc"))
    with Store.open(folder, key_path=key_path) as store:
        async with open_bench(cache, store=store) as bench:
            assert bench.source.loaded_modules() == ()  # loaded at the first call, which is not billed for it
            assert (await bench.call("calc")).value == "done"
            assert bench.events == []


def damage(store: Store, built: Artifact) -> None:
    assert store.folder is not None
    os.truncate(store.folder / "artifacts" / built.sha256[:2] / f"{built.sha256}.wasm", 20)


async def test_a_truncated_artifact_costs_its_own_tools_only(folder: Path, key_path: Path, cache: NativeCache) -> None:
    broken, whole = artifact("calc", "other"), artifact("text")
    with Store.open(folder, key_path=key_path) as store:
        async with open_bench(cache, store=store) as bench:
            await bench.go(broken, whole)
        damage(store, broken)
    with Store.open(folder, key_path=key_path) as store:
        async with open_bench(cache, store=store) as bench:
            assert [tool.name for tool in bench.source.list()] == ["text"]
            assert (await bench.call("text")).ok
            assert set(bench.source.damaged()) == {"calc", "other"}
            assert broken.sha256 in bench.source.damaged()["calc"]
            told = bench.told(SourceFailed)
            assert [event.tools for event in told] == [("calc",), ("other",)]
            await bench.source.stage([broken], author="model")  # mends the file
            assert [tool.name for tool in bench.source.list()] == ["calc", "other", "text"]
            assert (await bench.call("calc")).ok


async def test_an_artifact_that_is_damaged_while_it_is_offered_is_not_the_tools_fault(
    store: Store, cache: NativeCache
) -> None:
    built = artifact("calc", salt=77)
    async with open_bench(cache, store=store) as bench:
        await bench.go(built)
    async with open_bench(cache, store=store) as bench:
        damage(store, built)
        result = await bench.call("calc")
        assert (result.kind, result.reason) == ("refused", "not_found")
        assert built.sha256 in result.text
        assert bench.source.strikes() == ()


async def test_a_read_only_store_offers_what_is_live(folder: Path, key_path: Path, cache: NativeCache) -> None:
    with Store.open(folder, key_path=key_path) as store:
        async with open_bench(cache, store=store) as bench:
            await bench.go(artifact("calc"))
    with Store.open(folder, read_only=True, key_path=key_path) as store:
        async with open_bench(cache, store=store) as bench:
            assert (await bench.call("calc")).ok
            with pytest.raises(StoreError) as caught:
                await bench.go(artifact("calc", salt=1))
            assert caught.value.reason == "read_only"
            with pytest.raises(StoreError):
                await bench.source.rollback()


async def test_a_closed_source_says_so(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        await bench.go(artifact("calc"))
        await bench.source.aclose()
        await bench.source.aclose()
        with pytest.raises(Closed, match="dynamic source"):
            await bench.source.stage([artifact("calc")], author="model")


async def test_unknown_generations_are_said_to_be(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        for attempt in (bench.source.activate(9), bench.source.rollback(9), bench.source.rollback()):
            with pytest.raises(UnknownGeneration):
                await attempt


async def test_many_calls_at_once_load_a_module_once(cache: NativeCache, store: Store) -> None:
    async with open_bench(cache, store=store) as bench:
        await bench.go(artifact("calc"))
    async with open_bench(cache, store=store) as bench:
        results = await bench.runner.run_many([ToolCall(f"{number}", "calc", {}) for number in range(8)])
        assert all(result.ok for result in results)
        assert bench.sandbox.statistics().modules == 1


async def test_what_is_live_is_an_immutable_generation(cache: NativeCache) -> None:
    async with open_bench(cache) as bench:
        live = await bench.go(artifact("calc"))
        assert isinstance(live, Generation)
        assert bench.source.live() == live == bench.source.generations()[-1]


async def test_the_runner_of_a_prefixed_source_still_counts_for_the_tool(cache: NativeCache) -> None:
    from rho_wasm.sources import PrefixedSource

    async with open_bench(cache) as bench:
        await bench.go(artifact("calc", body="unreachable"))
        runner = ToolRunner(ToolRegistry([], sources=[PrefixedSource(bench.source, "my_")]))
        for number in range(3):
            await runner.run(ToolCall(f"{number}", "my_calc", {}))
        assert bench.source.list() == ()


async def test_a_source_that_nobody_closed_ends_its_thread(cache: NativeCache, store: Store) -> None:
    async with Sandbox(cache=cache) as sandbox:
        before = set(threading.enumerate())
        source = DynamicSource(store, sandbox)
        (thread,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "rho_wasm-store"]
        del source
        gc.collect()
        await anyio.to_thread.run_sync(thread.join, WAIT_S)
        assert not thread.is_alive()


async def test_a_damaged_row_is_reported_once_and_stops_nothing_else(cache: NativeCache, store: Store) -> None:
    async with open_bench(cache, store=store) as bench:
        await bench.go(artifact("calc", body="unreachable"))
        with store._database.write() as connection:
            connection.execute("INSERT INTO quarantines VALUES ('x', 'y', 1, 0.0, 'revert', NULL, 0, '?', '[]', NULL)")
        failed = await bench.until_told(SourceFailed)
        assert "a quarantine in it cannot be read" in failed.error
        await bench.crash("calc")
        assert len(bench.source.strikes()) == 1
        assert len(bench.told(SourceFailed)) == 1


async def test_where_too_many_candidates_are_open_not_even_bytes_are_kept(
    cache: NativeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rho_wasm.dynamic.room._CANDIDATES", 1)
    async with open_bench(cache) as bench:
        await bench.source.stage([artifact("calc")], author="model")
        with pytest.raises(StoreError) as caught:
            await bench.source.stage([artifact("calc", salt=1)], author="model")
        assert caught.value.reason == "too_many_candidates"
        assert bench.store.artifact_if_whole(artifact("calc", salt=1).sha256) is None
        await bench.source.activate(1)
        await bench.go(artifact("calc", salt=1))
