"""What a call leaves behind: nothing. A host function that could reach its store once left 1.5 GB after 1,500 calls."""

from __future__ import annotations

import contextlib
import gc
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import wasmtime

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import ToolError
from rho_wasm.limits import Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.state import CallState
from tests.helpers import until
from tests.sandbox.guests import MEBIBYTE, Waiting, answering, asking, called, guest

TOUCHES_MEMORY = answering(
    {"ok": 1},
    before="""(call $log (i32.const 20) (i32.const 0) (i32.const 9))
              (drop (call $host_call (i32.const 0) (i32.const 0)))
              (memory.fill (i32.const 65536) (i32.const 7) (i32.const 1048576))""",
    memory="17",
)
TRAPS = guest(
    """(call $log (i32.const 20) (i32.const 0) (i32.const 9))
       (call $log (i32.const 0) (i32.const -1) (i32.const 9)) (i64.const 0)"""
)


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


def stores() -> list[wasmtime.Store]:
    return [thing for thing in gc.get_objects() if type(thing) is wasmtime.Store]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_a_call_that_waited_for_a_capability_is_gone_at_once(sandbox: Sandbox) -> None:
    asked = 0

    async def answer(capability: str, arguments: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        await anyio.lowlevel.checkpoint()
        if asked % 2:
            raise ZeroDivisionError
        return {"ok": 1}

    wasm = asking("clock")
    gc.collect()
    before = states()
    gc.disable()
    try:
        for _ in range(6):
            await called(sandbox, wasm, capabilities=Waiting(answer))
        await until(lambda: states() <= before)  # Threads may still be on their way back.
    finally:
        gc.enable()


def states() -> int:
    return sum(type(thing) is CallState for thing in gc.get_objects())


async def test_no_store_outlives_its_call(sandbox: Sandbox) -> None:
    await called(sandbox, TOUCHES_MEMORY)
    await called(sandbox, TRAPS)
    gc.collect()
    before = stores()  # of other tests
    gc.disable()
    try:
        for _ in range(5):
            assert (await called(sandbox, TOUCHES_MEMORY)).result == Ok(1)
            assert (await called(sandbox, TRAPS)).reason == "trapped"
        # Without a collection: no cycle keeps one alive. Threads may still be on their way back.
        await until(lambda: all(any(store is old for old in before) for store in stores()))
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_memory_does_not_grow_with_the_number_of_calls(sandbox: Sandbox) -> None:
    # Each call touches 1 MiB: 120 that were kept would be 120 MiB.
    with await sandbox.load(TOUCHES_MEMORY):
        for _ in range(30):
            await called(sandbox, TOUCHES_MEMORY)
        before = resident()
        for _ in range(120):
            await called(sandbox, TOUCHES_MEMORY, limits=Limits(memory_bytes=4 * MEBIBYTE))
        assert resident() - before < 30 * MEBIBYTE


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _many(sandbox: Sandbox, calls: int) -> tuple[int, int]:
    """How much memory and how many descriptors more there are after ``calls`` calls; some are long, some trap."""
    turns = "(local.tee $i (i32.add (local.get $i) (i32.const 1)))"
    long = answering({"ok": 1}, before=f"(loop $l (br_if $l (i32.lt_u {turns} (i32.const 600000))))")
    guests = [answering({"ok": 1})] * 40 + [TRAPS] * 4 + [long]
    meter = CallMeter(CallClock(60_000))
    before = (0, 0)
    with contextlib.ExitStack() as stack:
        modules = {wasm: stack.enter_context(await sandbox.load(wasm)) for wasm in guests}
        for n in range(calls):
            if n == calls // 4:
                before = resident(), descriptors()
            with contextlib.suppress(ToolError):
                await sandbox.call(
                    modules[guests[n % len(guests)]], tool="t", arguments={}, context={}, limits=Limits(), meter=meter
                )
        return resident() - before[0], descriptors() - before[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_thousand_calls_leave_neither_memory_nor_descriptors(sandbox: Sandbox) -> None:
    memory, files = await _many(sandbox, 1_200)
    assert memory < 4 * MEBIBYTE
    assert files <= 0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_tens_of_thousands_of_calls_leave_neither_memory_nor_descriptors(sandbox: Sandbox) -> None:
    memory, files = await _many(sandbox, 20_000)
    assert memory < 8 * MEBIBYTE
    assert files <= 0


async def test_native_code_goes_with_the_last_who_holds_it(sandbox: Sandbox) -> None:
    for n in range(10):
        await called(sandbox, answering({"ok": n % 2}))
    assert sandbox.statistics().modules == 0
