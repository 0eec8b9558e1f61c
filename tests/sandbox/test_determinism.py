"""Without grants a call is a pure function of its module and its request.

NaNs, threads and relaxed SIMD are test_config.py's; images of the interpreters are tests/toolchains/engines'.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.envelope import answer_of
from rho_wasm.errors import ModuleRejected, ToolError
from rho_wasm.limits import Limits
from rho_wasm.resources import fixture
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.ways import Way, why_not_native
from tests.sandbox.guests import Granting, asking, data, guest, over_wasi
from tests.sandbox.repeated import said

WAYS: tuple[Way, ...] = ("public",) if why_not_native() is not None else ("native", "public")
FIXTURES = sorted(path.stem for path in Path(fixture("echo.wasm")).parent.glob("*.wasm"))
ARGUMENTS: Mapping[str, Any] = {"text": "a wörd, a word", "n": 3, "value": [1.5, None, b"\x00"], "csv": "a,b\n1,2\n"}
QUICK = frozenset({"echo", "image", "raise", "trap", "word_count"})
"""What the fast suite looks at."""
ASK = plain.encode({"arguments": {}, "capability": "clock"})
ASKS = f"(call $host_call (i32.const 0) (i32.const {len(ASK)}))"


def request(tool: str) -> bytes:
    return plain.encode({"abi": 1, "tool": tool, "arguments": dict(ARGUMENTS), "context": {}})


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in FIXTURES]
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_fixture_says_and_costs_the_same_each_time_on_each_path(here: Sandbox, name: str) -> None:
    try:
        module = await here.load(fixture(f"{name}.wasm").read_bytes())
    except ModuleRejected:
        return
    with module:
        found = said(module, request(module.manifest.tools[0].name))
    assert len(found) == 1, found


CHANCE = f"""(drop (call $clock (i32.const 0) (i64.const 0) (i32.const 40)))
  (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 48))) (drop (call $random (i32.const 56) (i32.const 90)))
  (i32.store (i32.const 34) (i32.const 0x6b6f62a1)) (i32.store16 (i32.const 38) (i32.const 0x6a58))
  (i64.const {34 << 32 | 112})"""
"""Answers two times and 90 random bytes."""
FLOATS = f"""(i32.store (i32.const 34) (i32.const 0x6b6f62a1)) (i32.store8 (i32.const 38) (i32.const 0x50))
  (f64.store (i32.const 39) (f64.div (f64.const 0) (f64.convert_i32_u (i32.sub (local.get $n) (local.get $n)))))
  (f64.store (i32.const 47) (f64.sqrt (f64.neg (f64.convert_i32_u (local.get $n))))) (i64.const {34 << 32 | 21})"""
"""Answers the bits of two NaNs."""


@pytest.mark.parametrize("body", [CHANCE, FLOATS], ids=["time and chance", "NaNs"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_time_chance_and_nans_follow_from_the_request(here: Sandbox, body: str) -> None:
    with await here.load(over_wasi(body)) as module:
        found = said(module, request("t"))
        assert len(found) == 1
        assert next(iter(found)).answer.startswith(b"\xa1\x62ok")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_call_with_the_same_answers_says_and_costs_the_same_on_each_path(here: Sandbox) -> None:
    clock = Granting(lambda *_: {"ok": [1.5, "x" * 300]}, clock_ns=10**18, seed=b"s" * 32)
    body = f"(drop {ASKS}) (drop {ASKS}) unreachable"
    for wasm in (asking("clock"), guest(body, extra=data(0, ASK), capabilities=("clock",)), over_wasi(CHANCE)):
        with await here.load(wasm) as module:
            assert len(said(module, request("t"), capabilities=clock)) == 1


@pytest.mark.parametrize(
    "name",
    ["echo", *(pytest.param(each, marks=pytest.mark.slow) for each in ("word_count", "csv_stats", "trap", "raise"))],
)
async def test_all_ways_say_and_cost_the_same(shared_cache: NativeCache, with_workers: Sandbox, name: str) -> None:
    wasm = fixture(f"{name}.wasm").read_bytes()
    found = set()
    for way in WAYS:
        async with Sandbox(cache=shared_cache, way=way) as sandbox:
            found.add(await whole(sandbox, wasm))
    found.add(await whole(with_workers, wasm))
    assert len(found) == 1, found


async def whole(sandbox: Sandbox, wasm: bytes) -> tuple[Any, ...]:
    """What a caller learns of a call, but for its time."""
    meter = CallMeter(CallClock(60_000))
    with await sandbox.load(wasm) as module:
        given: dict[str, Any] = {"arguments": ARGUMENTS, "context": {}, "limits": Limits(), "meter": meter}
        try:
            result: Any = plain.encode(
                answer_of(await sandbox.call(module, tool=module.manifest.tools[0].name, **given))
            )
        except ToolError as error:
            result = str(error), error.backtrace
    return result, meter.fuel_used, tuple((line.level, line.text) for line in meter.log.lines)
