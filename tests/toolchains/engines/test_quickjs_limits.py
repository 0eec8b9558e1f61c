"""Whatever a JavaScript tool does ends with its reason and within bounds, and the next call sees a clean engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import BuildError, ToolError
from rho_wasm.limits import MIB, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.images import EngineBinary
from rho_wasm.toolchains import EngineShelf, ImageBuilder
from rho_wasm.toolchains.engines.quickjs import SPEC

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_LIMITS = Limits(fuel=2_000_000_000, deadline_ms=60_000, memory_bytes=64 * MIB)


@pytest.fixture(scope="session")
def quickjs_shelf(tmp_path_factory: pytest.TempPathFactory) -> EngineShelf:
    key = tmp_path_factory.mktemp("key") / "host.key"
    cache = NativeCache(tmp_path_factory.mktemp("native"), key)
    return EngineShelf(tmp_path_factory.mktemp("engines"), key, cache=cache)


class Tools:
    """Builds and calls tools as a host does."""

    def __init__(self, builder: ImageBuilder, sandbox: Sandbox) -> None:
        self._builder = builder
        self._sandbox = sandbox
        self.meter = CallMeter(CallClock(60_000))

    async def ends(self, source: str, *calls: str, limits: Limits = _LIMITS) -> list[Any]:
        """What each call of a tool of ``source`` came to: its value, or the reason and the type of what it raised."""
        artifact = await self._builder.build(source, language="javascript")
        results = []
        with await self._sandbox.load(artifact.wasm) as module:
            for tool in calls:
                self.meter = CallMeter(CallClock(60_000))
                try:
                    result = await self._sandbox.call(
                        module, tool=tool, arguments={}, context={}, limits=limits, meter=self.meter
                    )
                except ToolError as error:
                    results.append(error.reason)
                else:
                    assert isinstance(result, Ok)
                    results.append(result.value)
        return results


@pytest.fixture
async def tools(quickjs_shelf: EngineShelf) -> AsyncIterator[Tools]:
    def find(sha256: bytes) -> EngineBinary | None:
        return quickjs_shelf.find(sha256)

    async with (
        Sandbox(cache=quickjs_shelf.cache, engines=find) as sandbox,
        ImageBuilder(shelf=quickjs_shelf, sandbox=sandbox, specs=[SPEC]) as builder,
    ):
        yield Tools(builder, sandbox)


def tool(body: str, name: str = "t") -> str:
    kind = "async function" if "await" in body else "function"
    return f"/** Tries. */\nexport {kind} {name}() {{\n  {body}\n}}\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for (;;);", "out_of_fuel"),
        ("for (;;) await null;", "out_of_fuel"),
        ("const f = () => 1 + f(); return f();", "handler_raised"),
        ("const a = []; for (;;) a.push(new Uint8Array(1 << 20));", "out_of_memory"),
        ("const a = []; for (;;) a.push({ a: [1] });", "out_of_memory"),
        ("globalThis.kept = []; for (;;) kept.push(new Uint8Array(1 << 20));", "out_of_memory"),
        ("return 'a'.repeat(2 ** 29);", "out_of_memory"),
        ("return new Array(2 ** 31).fill(0);", "out_of_memory"),
        ("let s = 'a'; for (;;) s += s;", "handler_raised"),
        ("return /(a+)+$/.test('a'.repeat(40) + 'b');", "out_of_fuel"),
        ("return /^(([a-z])+.)+[A-Z]([a-z])+$/.test('a'.repeat(60));", "out_of_fuel"),
        ("return (10n ** 1000000n).toString().length;", "out_of_fuel"),
        ("let n = 3n; for (;;) n *= n;", "out_of_fuel"),
        ("return [...(function* () { for (;;) yield 1; })()];", "out_of_fuel"),
        ("for (const x of (function* () { for (;;) yield 1; })());", "out_of_fuel"),
        ("const s = new Set([1]); for (const x of s) s.add(x + 1);", "out_of_fuel"),
        ("return JSON.parse('['.repeat(1e6));", "trapped"),
        ("return eval('('.repeat(1e6));", "trapped"),
        ("return { get x() { for (;;); } };", "out_of_fuel"),
        ("throw { get message() { for (;;); } };", "out_of_fuel"),
        ("return Array.from({ length: 200000 }, () => 0);", "bad_answer"),
        ("return 'a'.repeat(2e6);", "bad_answer"),
        ("for (;;) console.log('x'.repeat(1e5));", "out_of_fuel"),
        ("return await new Promise(() => {});", "handler_raised"),
        ("return [3, 1, 2].sort(() => { for (;;); });", "out_of_fuel"),
        ("return 'a'.padEnd(2 ** 28).normalize('NFD').length;", "out_of_memory"),
        ("return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);", "handler_raised"),
    ],
)
async def test_each_ends_with_its_reason(tools: Tools, body: str, reason: str) -> None:
    source = "let calls = 0;\n" + tool(body) + tool("calls += 1; return calls;", "next")
    assert await tools.ends(source, "next", "t", "next") == [1, reason, 1]


async def test_the_deadline_stops_what_has_fuel_enough(tools: Tools) -> None:
    limits = Limits(fuel=10**15, deadline_ms=300, memory_bytes=64 * MIB)
    assert await tools.ends(tool("for (;;);"), "t", limits=limits) == ["deadline"]


async def test_what_one_call_tampers_with_the_next_does_not_see(tools: Tools) -> None:
    tampering = """
      globalThis.left = 1; kept.push(1); Object.prototype.left = 1; Array.prototype.map = null; JSON.parse = null;
      Math.random = () => 4; delete globalThis.Map; for (const k in log) log[k] = null; return 'tampered';
    """
    looking = """
      return [typeof left, kept.length, ({}).left ?? null, typeof [].map, typeof JSON.parse, Math.random() < 1,
        typeof Map, typeof log.info];
    """
    source = 'import { log } from "rho";\nconst kept = [];\n' + tool(tampering) + tool(looking, "look")
    clean = ["undefined", 0, None, "function", "function", True, "function", "function"]
    assert await tools.ends(source, "look", "t", "look") == [clean, "tampered", clean]


async def test_the_same_request_gives_the_same_answer(tools: Tools) -> None:
    source = tool("return [Math.random(), Math.random(), Date.now(), new Date().toString(), performance.now()];")
    first, second = await tools.ends(source, "t", "t")
    assert first == second


async def test_what_a_file_keeps_its_calls_begin_with(tools: Tools) -> None:
    source = "const table = new Map([['a', 1]]); let n = 5;\n" + tool("n += table.get('a'); return n;")
    assert await tools.ends(source, "t", "t") == [6, 6]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("for (;;);", "build_timeout"),
        ("const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1));", "image_too_large"),
        ("export const a = new Uint8Array(20 << 20).fill(7);\n" + tool("return 1;"), "image_too_large"),
        ("const f = () => f(); f();", "build_failed"),
        ("(" * 100_000, "build_failed"),
        ("import 'fs';", "build_failed"),
        ("Object.defineProperty(Object.prototype, 'ok', { get() { for (;;); } });\n" + tool("return 1;"), None),
        ("globalThis.Object = globalThis.Array = globalThis.RegExp = undefined;\n" + tool("return 1;"), None),
        ("String.prototype.split = () => { for (;;); };\n" + tool("return 1;"), "build_timeout"),
    ],
)
async def test_a_file_that_harms_its_loading_harms_nothing_else(tools: Tools, source: str, reason: str | None) -> None:
    if reason is None:
        assert await tools.ends(source, "t") == [1]
    else:
        with pytest.raises(BuildError) as refused:
            await tools.ends(source)
        assert refused.value.reason == reason
    assert await tools.ends(tool("return 'clean';"), "t") == ["clean"]


async def test_a_pure_tool_costs_the_same_each_time(tools: Tools) -> None:
    source = tool("return 'a b c'.split(' ').map((x) => x + 1);")
    costs = set()
    for _ in range(3):
        await tools.ends(source, "t")
        costs.add(tools.meter.fuel_used)
    assert len(costs) == 1


async def test_images_are_small_and_the_same_for_the_same_file(quickjs_shelf: EngineShelf) -> None:
    async with ImageBuilder(shelf=quickjs_shelf, specs=[SPEC]) as builder:
        first = await builder.build(tool("return 1;"), language="javascript")
        second = await builder.build(tool("return 1;"), language="javascript")
    assert first.wasm == second.wasm
    assert len(first.wasm) < 32 * 1024
