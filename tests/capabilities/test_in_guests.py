"""The small capabilities as guests meet them: through a host, its policy and its store."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from rho_wasm import Artifact, Host, Policy, Store, ToolCall, ToolResult, plain
from rho_wasm.events import ToolFinished, ToolLogged, ToolProgress, ToolRunning
from rho_wasm.limits import HostLimits
from rho_wasm.manifest import Manifest, embed
from rho_wasm.results import LogLine

CAPABILITIES = (
    *("clock.monotonic", "clock.now", "kv.delete", "kv.get", "kv.list", "kv.put"),
    *("log.write", "progress.report", "random.bytes"),
)
# The arguments are the last of a request, and what is asked for is the last of them: the host's request as bytes, and
# their number in two bytes more. A reply of the host reads as an answer, so it becomes the answer.
ASKING = """
    (module
      (import "rho" "host_call" (func $host_call (param i32 i32) (result i32)))
      (import "rho" "host_take" (func $host_take (param i32 i32) (result i32)))
      (memory (export "memory") 4)
      (global i32 (i32.const SALT))
      (func (export "rho_alloc") (param i32) (result i32) (i32.const 1024))
      (func (export "rho_call") (param $p i32) (param $n i32) (result i64) (local $last i32) (local $size i32)
        (local.set $last (i32.sub (i32.add (local.get $p) (local.get $n)) (i32.const 2)))
        (local.set $size (i32.load16_u align=1 (local.get $last)))
        (local.set $size (call $host_call (i32.sub (local.get $last) (local.get $size)) (local.get $size)))
        (drop (call $host_take (i32.const 131072) (local.get $size)))
        (i64.or (i64.const 0x2000000000000) (i64.extend_i32_u (local.get $size)))))
"""


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


def guest(*names: str, salt: int = 0, capabilities: tuple[str, ...] = CAPABILITIES) -> Artifact:
    """Tools that ask for what they are told to ask for, and answer what they were answered."""
    tools = [{"name": name, "description": "Asks.", "input_schema": {"type": "object"}} for name in names]
    manifest = Manifest.from_json({"tools": tools, "capabilities": list(capabilities)})
    return Artifact.from_wasm(embed(bytes(wasmtime.wat2wasm(ASKING.replace("SALT", str(salt)))), manifest))


@asynccontextmanager
async def host(
    store: Path | Store | str,
    *artifacts: Artifact,
    grants: dict[str, Any] | None = None,
    told: list[Any] | None = None,
    bounds: HostLimits | None = None,
) -> AsyncIterator[Host]:
    granted = {name: {} for name in CAPABILITIES} if grants is None else grants
    policy = Policy(tools={"*": {"grants": granted}})
    on_event = None if told is None else told.append
    async with Host.open(store, core=[], policy=policy, on_event=on_event, limits=bounds) as opened:
        if artifacts:
            await opened.source.activate(await opened.source.stage(add=artifacts, author="model"))
        yield opened


async def run(opened: Host, tool: str, capability: str, /, **arguments: Any) -> ToolResult:
    request = plain.encode({"capability": capability, "arguments": arguments})
    asked = {"request": request + len(request).to_bytes(2, "little")}
    return await opened.runner.run(ToolCall("1", tool, asked))


async def ask(opened: Host, tool: str, capability: str, /, **arguments: Any) -> Any:
    result = await run(opened, tool, capability, **arguments)
    assert result.ok, result
    return result.value


async def test_what_a_tool_kept_is_there_for_its_next_version_and_its_next_host(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    async with host(folder, guest("a", "b")) as opened:
        assert await ask(opened, "a", "kv.put", key="n", value={"count": 1}) == {"stored": True}
        assert await ask(opened, "b", "kv.get", key="n") == {}
        assert await ask(opened, "b", "kv.get", key="../a/n") == {}
    async with host(folder, guest("a", salt=1)) as opened:
        assert await ask(opened, "a", "kv.get", key="n") == {"value": {"count": 1}}
        swap = {"expected": {"count": 1}, "value": {"count": 2}}
        assert await ask(opened, "a", "kv.put", key="n", **swap) == {"stored": True}
        assert await ask(opened, "a", "kv.put", key="n", **swap) == {"stored": False}
        assert await ask(opened, "a", "kv.list") == {"keys": ["n"], "more": False}
        assert await ask(opened, "a", "kv.delete", key="n") == {"deleted": True}


async def test_what_is_over_a_bound_of_the_policy_is_a_quota_and_no_strike(tmp_path: Path) -> None:
    grants: dict[str, Any] = {"kv.put": {"bytes": 10}, "random.bytes": {"max_bytes": 4}}
    async with host(":memory:", guest("a"), grants=grants) as opened:
        too_long = await run(opened, "a", "kv.put", key="key", value="too long")
        too_many = await run(opened, "a", "random.bytes", count=5)
        assert [(each.reason, each.value["kind"]) for each in (too_long, too_many)] == [("failed", "quota")] * 2
        refused = await run(opened, "a", "kv.get", key="key")
        assert refused.value["kind"] == "denied"
        assert opened.source.strikes() == ()


async def test_a_module_of_many_tools_leaves_room_for_what_others_keep() -> None:
    tools = ("a", "b", "c")
    grants: dict[str, Any] = {"kv.put": {"bytes": 20}}
    async with host(
        ":memory:", guest(*tools), guest("other", salt=1), grants=grants, bounds=HostLimits(kv_bytes=100)
    ) as opened:
        kinds = []
        for tool in tools:
            result = await run(opened, tool, "kv.put", key="key", value="v" * 6)
            kinds.append("stored" if result.ok else result.value["kind"])
        assert kinds == ["stored", "stored", "quota"]
        assert await ask(opened, "other", "kv.put", key="key", value="v" * 16) == {"stored": True}


async def test_a_store_for_reading_only_is_no_fault_of_the_tool(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    async with host(folder, guest("a")) as opened:
        await ask(opened, "a", "kv.put", key="n", value=1)
    with Store.open(folder, read_only=True) as store:
        async with host(store) as opened:
            assert await ask(opened, "a", "kv.get", key="n") == {"value": 1}
            refused = await run(opened, "a", "kv.put", key="n", value=2)
            assert refused.value == {"kind": "unavailable", "message": "the store is open for reading only"}


async def test_events_are_told_while_the_call_runs() -> None:
    told: list[Any] = []
    async with host(":memory:", guest("a"), told=told) as opened:
        told.clear()
        result = await run(opened, "a", "log.write", message="asked\n", level="warning", fields={"city": "Oslo"})
        assert result.value is None
        assert list(result.log) == [LogLine(30, "asked\\n city=Oslo")]
        await run(opened, "a", "progress.report", done=3, total=10, text="pages")
    assert [type(event) for event in told] == [
        ToolRunning,
        ToolLogged,
        ToolFinished,
        ToolRunning,
        ToolProgress,
        ToolFinished,
    ]
    assert (told[1].level, told[1].message, told[1].fields) == (30, "asked\\n", {"city": "Oslo"})
    assert (told[4].done, told[4].total, told[4].text, told[4].call.id) == (3.0, 10.0, "pages", "1")


async def test_a_granted_clock_and_granted_randomness_are_real() -> None:
    async with host(":memory:", guest("a")) as opened:
        assert await ask(opened, "a", "clock.now") == pytest.approx(time.time(), abs=3_600)
        assert await ask(opened, "a", "clock.monotonic") == 0
        drawn = [await ask(opened, "a", "random.bytes", count=16) for _ in range(2)]
        assert drawn[0] != drawn[1]
        assert [len(each) for each in drawn] == [16, 16]
