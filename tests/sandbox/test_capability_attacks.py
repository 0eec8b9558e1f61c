"""Guests that misuse host calls, and capabilities that answer badly. What is answered at once is in test_imports.py."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
import wasmtime

from rho_wasm import plain
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.asking_call import AskingCall
from rho_wasm.sandbox.imports import EXTRA_HOST_CALLS
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.state import CallState
from rho_wasm.sandbox.virtual import START_NS
from rho_wasm.sandbox.wasi import CLOCK_NOTE, RANDOM_NOTE
from rho_wasm.sandbox.ways import why_not_native
from tests.sandbox.guests import Granting, Waiting, answering, called, data, guest, over_wasi, wat

ASK = plain.encode({"arguments": {}, "capability": "clock"})
ASKS = f"(call $host_call (i32.const 0) (i32.const {len(ASK)}))"
ENDLESS = Limits(fuel=10**15, deadline_ms=60_000)
SOON = 60


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


@pytest.fixture(name="sandbox")
def _sandbox(native_first: Sandbox) -> Sandbox:
    return native_first


class Counting:
    """Awaits each answer, which is what it was given."""

    def __init__(self, answer: Any = 1) -> None:
        self.asked = 0
        self._answer = answer

    async def __call__(self, capability: str, arguments: dict[str, Any]) -> Any:
        self.asked += 1
        await anyio.lowlevel.checkpoint()
        return self._answer


@pytest.mark.parametrize("later", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_a_million_host_calls_and_one_are_stopped_long_before(sandbox: Sandbox, later: bool) -> None:
    counting = Counting()
    asked = 0

    def now(capability: str, arguments: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        return 1

    body = f"""(loop $l (drop {ASKS}) (br_if $l
        (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000001)))) unreachable"""
    wasm = guest(body, extra=data(0, ASK), capabilities=("clock",))
    limits = ENDLESS.model_copy(update={"host_calls": 20})
    with anyio.fail_after(SOON):
        ended = await called(sandbox, wasm, limits=limits, capabilities=Waiting(counting) if later else Granting(now))
    assert ended.reason == "too_many_host_calls"
    assert (counting.asked if later else asked) == 20
    assert ended.meter.fuel_used is not None
    assert ended.meter.fuel_used > 10_000 * (20 + EXTRA_HOST_CALLS), "each was paid for"


@pytest.mark.parametrize("later", [False, True], ids=["at once", "awaited"])
async def test_a_reply_that_is_larger_than_the_guests_memory_does_it_no_good(sandbox: Sandbox, later: bool) -> None:
    large = "x" * 200_000
    capabilities = Waiting(Counting(large)) if later else Granting(lambda *_: large)
    take = "(call $host_take (i32.const {at}) (local.get $n))"
    for at in (0, -1):
        body = f"(local.set $n {ASKS}) (drop {take.format(at=at)}) unreachable"
        ended = await called(
            sandbox, guest(body, extra=data(0, ASK), capabilities=("clock",)), capabilities=capabilities
        )
        assert ended.error is not None
        assert (ended.reason, "leave a memory" in ended.error.detail) == ("trapped", True)
    check = f"(if (i32.lt_u {ASKS} (i32.const 200000)) (then unreachable))"
    some = "(if (i32.ne (call $host_take (i32.const 64) (i32.const 100)) (i32.const 100)) (then unreachable))"
    wasm = answering({"ok": 1}, before=check + some, extra=data(0, ASK), capabilities=("clock",))
    ended = await called(sandbox, wasm, capabilities=capabilities)
    assert ended.result == Ok(1)
    assert ended.meter.fuel_used is not None
    assert ended.meter.fuel_used > 2_000_000, "its bytes were paid for, though they were not taken"


async def test_a_reply_over_the_bound_of_a_request_is_over_the_quota(sandbox: Sandbox) -> None:
    limits = Limits(request_bytes=1_000)
    for capabilities in (Waiting(Counting("x" * 2_000)), Granting(lambda *_: "x" * 2_000)):
        ended = await called(sandbox, asking_raw(), limits=limits, capabilities=capabilities)
        assert isinstance(ended.result, Ok)
        assert plain.decode(ended.result.value)["error"]["kind"] == "quota"


def asking_raw() -> bytes:
    """A guest that answers the bytes of the reply, fewer than 256."""
    body = f"""(drop {ASKS}) (local.set $i (call $host_take (i32.const 4096) (i32.const 255)))
        (i32.store (i32.const 4089) (i32.const 0x6b6f62a1)) (i32.store8 (i32.const 4093) (i32.const 0x59))
        (i32.store8 (i32.const 4095) (local.get $i))
        (i64.or (i64.const {4089 << 32}) (i64.extend_i32_u (i32.add (local.get $i) (i32.const 7))))"""
    return guest(body, extra=data(0, ASK), capabilities=("clock",))


async def test_nothing_is_asked_before_the_call(sandbox: Sandbox) -> None:
    counting = Counting()
    denied = f"""(global $n (mut i32) (i32.const 0))
        (func (export "_initialize") (global.set $n {ASKS}))"""
    alloc = f"(if (i32.eqz {ASKS}) (then unreachable)) i32.const 1024"
    wasm = answering({"ok": 1}, extra=denied + data(0, ASK), alloc=alloc, capabilities=("clock",))
    assert (await called(sandbox, wasm, capabilities=Waiting(counting))).result == Ok(1)
    assert counting.asked == 0


_ODD: list[Any] = [object(), {1: 2}, (1,), {"a": object()}, 2**64, "\ud800", type("Text", (str,), {})("x")]
_LOOP: list[Any] = []
_LOOP.append(_LOOP)


@pytest.mark.parametrize(
    "value", [*_ODD[:1], *(pytest.param(each, marks=pytest.mark.slow) for each in (*_ODD[1:], _LOOP))]
)
async def test_an_answer_that_is_not_plain_reaches_no_guest(sandbox: Sandbox, value: Any) -> None:
    for capabilities in (Waiting(Counting(value)), Granting(lambda *_: value)):
        ended = await called(sandbox, asking_raw(), capabilities=capabilities)
        assert isinstance(ended.result, Ok), ended.error
        assert plain.decode(ended.result.value)["error"]["kind"] in ("unavailable", "quota")


async def test_a_call_that_asked_is_never_begun_again(sandbox: Sandbox) -> None:
    """Neither for a row of host calls without a loop, nor for a backtrace whose names are many."""
    row = "(call $log (i32.const 20) (i32.const 0) (i32.const 0))" * 400
    names = " ".join(f"(func $a_name_that_is_long_{n:0100})" for n in range(100))
    body = f"(drop {ASKS}) {row} unreachable"
    wasm = guest(body, extra=names + data(0, ASK), capabilities=("clock",))
    with await sandbox.load(wasm):
        for _ in range(2):
            counting = Counting()
            ended = await called(sandbox, wasm, capabilities=Waiting(counting))
            assert (ended.reason, counting.asked, len(ended.meter.log)) == ("trapped", 1, 400)
            assert ended.meter.backtrace[0].startswith("call ")


@pytest.mark.skipif(why_not_native() is not None, reason=str(why_not_native()))
async def test_a_guest_that_waits_runs_no_instruction_meanwhile() -> None:
    """So it cannot trap either: whatever ends the call then is the host's own doing."""
    runtime = Runtime(HostLimits(), way="native")
    counting = Counting()
    code = wasmtime.Module(runtime.engine, wat(f"(drop {ASKS}) unreachable", extra=data(0, ASK)))
    state = CallState(limits=Limits(), declared=frozenset({"clock"}), capabilities=Waiting(counting))
    linked = runtime.link(bytes(code.serialize()))
    call = AskingCall(runtime, linked, state, deadline_ms=10_000)
    call.prepare(b"request", sliced=True)
    try:
        while not call.waits:
            assert not call.advance_on_loop()
            if not call.waits:
                assert not call.advance_in_thread()
        left = call._fiber.fuel_left()
        with runtime.ticking():
            runtime.ask_all()
            runtime.tick()
            await anyio.sleep(0.05)
        assert call._fiber.fuel_left() == left
        assert state.fault is None
        call.cancel()
        assert call._fiber.fuel_left() == left
    finally:
        call.close()
    assert not runtime.calls
    assert state.fault is None
    linked.close()
    runtime.close()


_ASK_FD = f"""(i32.store (i32.const 512) (i32.const 0)) (i32.store (i32.const 516) (i32.const {len(ASK)}))
  (if (call $fd_write (i32.const 3) (i32.const 512) (i32.const 1) (i32.const 600)) (then unreachable))
  (if (i32.ne (i32.load (i32.const 600)) (i32.const {len(ASK)})) (then unreachable))"""
_READ_FD = """(i32.store (i32.const 512) (i32.const 4096)) (i32.store (i32.const 516) (i32.const {size}))
  (if (call $fd_read (i32.const 3) (i32.const 512) (i32.const 1) (i32.const 600)) (then unreachable))
  (local.set $n (i32.load (i32.const 600)))"""
_ANSWER_READ = "(i64.or (i64.const 17592186044416) (i64.extend_i32_u (local.get $n)))"


async def test_a_write_to_the_descriptor_waits_for_its_reply(sandbox: Sandbox) -> None:
    for capabilities in (Waiting(Counting(7)), Granting(lambda *_: 7)):
        wasm = over_wasi(f"{_ASK_FD} {_READ_FD.format(size=1000)} {_ANSWER_READ}", data(0, ASK))
        assert (await called(sandbox, wasm, capabilities=capabilities)).result == Ok(7)


async def test_what_the_descriptor_gives_ends_and_is_gone(sandbox: Sandbox) -> None:
    nothing = f"{_READ_FD.format(size=9)} (if (local.get $n) (then unreachable))"
    body = f"{nothing} {_ASK_FD} {_ASK_FD} {_READ_FD.format(size=1000)} (local.set $i (local.get $n)) {nothing}"
    counting = Counting(7)
    wasm = over_wasi(f"{body} (local.set $n (local.get $i)) {_ANSWER_READ}", data(0, ASK))
    assert (await called(sandbox, wasm, capabilities=Waiting(counting))).result == Ok(7)
    assert counting.asked == 2


async def test_time_and_chance_begin_where_the_grant_says(sandbox: Sandbox) -> None:
    begins, seed = 1_800_000_000_000_000_000, b"s" * 32
    # {"ok": 16 bytes}: the clock, then what is random.
    body = f"""(drop (call $clock (i32.const 0) (i64.const 0) (i32.const 40)))
      (drop (call $random (i32.const 48) (i32.const 8)))
      (i32.store (i32.const 35) (i32.const 0x6b6f62a1)) (i32.store8 (i32.const 39) (i32.const 0x50))
      (i64.const {35 << 32 | 21})"""
    wasm = over_wasi(body)
    granted = Granting(lambda *_: 1, clock_ns=begins, seed=seed)
    seen = []
    for capabilities in (granted, granted, Granting(lambda *_: 1, seed=b"t" * 32), None):
        ended = await called(sandbox, wasm, capabilities=capabilities)
        assert isinstance(ended.result, Ok), ended.error
        told = ended.result.value
        seen.append((int.from_bytes(told[:8], "little"), told[8:], {line.text for line in ended.meter.log.lines}))
    assert seen[0] == seen[1] == (begins + 1_000, seen[0][1], set())
    assert (seen[2][0], seen[2][2]) == (START_NS + 1_000, {CLOCK_NOTE})
    assert (seen[3][0], seen[3][2]) == (START_NS + 1_000, {CLOCK_NOTE, RANDOM_NOTE})
    assert len({chance for _, chance, _ in seen}) == 3
