"""A call that is left on its stack after a slice, and gone on with in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import wasmtime

from rho_wasm import plain
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.runtime import Runtime
from rho_wasm.sandbox.slices import SlicedCall, State
from rho_wasm.sandbox.state import CallState, Elsewhere
from rho_wasm.sandbox.ways import why_not_native
from tests.sandbox.guests import ECHO, Granting, answering, called, data, guest, wat

pytestmark = pytest.mark.skipif(why_not_native() is not None, reason=str(why_not_native()))

SPIN = "(loop $l (br $l)) unreachable"
LONG = """(loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3000000))))"""
"""Some milliseconds of arithmetic."""
ASK = plain.encode({"arguments": {}, "capability": "clock"})
ASKS = f"(drop (call $host_call (i32.const 0) (i32.const {len(ASK)})))"
SOON = 60


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    opened = Runtime(HostLimits(), way="native")
    yield opened
    opened.close()


@pytest.fixture
async def native(anyio_backend: str, shared_cache: NativeCache) -> Any:
    async with Sandbox(cache=shared_cache, way="native") as opened:
        yield opened


def sliced(runtime: Runtime, body: str, **limits: int) -> SlicedCall:
    linked = runtime.link(bytes(wasmtime.Module(runtime.engine, wat(body)).serialize()))
    call = SlicedCall(runtime, linked, CallState(limits=Limits(**limits)), deadline_ms=10_000)
    call.prepare(b"request", sliced=True)
    return call


def test_a_short_call_is_done_in_its_advance(runtime: Runtime) -> None:
    one = sliced(runtime, ECHO)
    assert one.advance()
    assert (one.answer, one.at) == (b"request", State.DONE)
    assert one.fuel_used > 0
    one.close()


def test_a_long_call_is_left_and_goes_on_where_it_was(runtime: Runtime) -> None:
    one = sliced(runtime, LONG + ECHO)
    assert not one.advance()
    assert one.at is State.READY
    thread = threading.Thread(target=one.rest)
    thread.start()
    thread.join(SOON)
    assert (one.answer, one.at) == (b"request", State.DONE)
    same = sliced(runtime, LONG + ECHO)
    assert same.run(b"request") == b"request"
    assert same.fuel_used == one.fuel_used, "being left costs no fuel, and loses none"


def test_a_guest_that_only_calls_the_host_is_left_too(runtime: Runtime) -> None:
    storm = "(loop $l (call $log (i32.const 20) (i32.const 0) (i32.const 0)) (br $l)) unreachable"
    for _ in range(200):
        one = sliced(runtime, storm, fuel=100_000_000)
        try:
            assert not one.advance()
            break
        except Elsewhere:
            one.close()  # The machine took longer over one host call than a slice lasts: it begins anew in a thread.
    else:
        raise AssertionError("a slice is always over in the middle of a host call")
    with pytest.raises(Exception, match="out_of_fuel"):
        one.rest()
    assert one.fuel_used == 100_000_000


def test_what_is_left_can_be_let_go(runtime: Runtime) -> None:
    for _ in range(3):
        one = sliced(runtime, SPIN)
        assert not one.advance()
        one.close()
        one.close()
        assert one.at is State.CLOSED
    another = sliced(runtime, ECHO)
    assert another.advance(), "the slot of the pool is free again"


def test_a_call_that_is_done_or_closed_is_never_polled_again(runtime: Runtime) -> None:
    done = sliced(runtime, ECHO)
    done.advance()
    for step in (done.advance, done.rest):
        with pytest.raises(RuntimeError, match="done"):
            step()
    closed = sliced(runtime, SPIN)
    closed.advance()
    closed.close()
    with pytest.raises(RuntimeError, match="closed"):
        closed.rest()


def test_two_threads_never_poll_one_call_and_none_closes_what_runs(runtime: Runtime) -> None:
    one = sliced(runtime, SPIN, fuel=10**15)
    assert not one.advance()
    raised: list[BaseException] = []

    def rest() -> None:
        try:
            one.rest()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=rest)
    thread.start()
    until = time.monotonic() + SOON
    while one.at is not State.POLLING and time.monotonic() < until:
        time.sleep(0.001)
    for step in (one.rest, one.advance, one.close):
        with pytest.raises(RuntimeError, match="polling"):
            step()
    one.cancel()
    thread.join(SOON)
    assert [type(error).__name__ for error in raised] == ["CallFailed"]
    one.close()


def test_a_slice_that_faults_ends_the_call(runtime: Runtime) -> None:
    one = sliced(runtime, "unreachable")
    with pytest.raises(Exception, match="trapped"):
        one.advance()
    assert one.at is State.DONE


async def test_a_short_call_takes_no_thread(native: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with await native.load(answering({"ok": 1})):
        monkeypatch.setattr(native._threads, "run", None)
        assert (await called_again(native)).result == Ok(1)


async def called_again(sandbox: Sandbox) -> Any:
    return await called(sandbox, answering({"ok": 1}))


async def test_a_long_call_leaves_the_event_loops_thread(native: Sandbox) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    wasm = guest(SPIN)
    with anyio.fail_after(SOON), await native.load(wasm):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            await anyio.lowlevel.checkpoint()
            before = turns
            ended = await called(native, wasm, limits=Limits(fuel=10**15, deadline_ms=200))
            assert turns - before > 10
            tasks.cancel_scope.cancel()
    assert ended.reason == "deadline"


@pytest.mark.parametrize("before", ["", LONG], ids=["at once", "after a slice"])
async def test_a_capability_is_asked_once_wherever_the_call_goes_on(
    native: Sandbox, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    if not before:  # A thread that has to wait for its core is over its slice in the middle of a short call too.
        monkeypatch.setattr("rho_wasm.sandbox.guest_call.SLICE_S", 60.0)
    threads: list[int] = []

    def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
        threads.append(threading.get_ident())
        return 1

    logs = "(call $log (i32.const 20) (i32.const 0) (i32.const 1))"
    wasm = answering({"ok": 1}, before=f"{logs} {before} {ASKS}", extra=data(0, ASK), capabilities=("clock",))
    with await native.load(wasm):
        for number in range(1, 4):
            ended = await called(native, wasm, capabilities=Granting(capabilities))
            assert ended.result == Ok(1)
            assert len(threads) == number
            assert len(ended.meter.log) == 1, "nothing is begun again"
    assert (threads[-1] == threading.get_ident()) == (not before)


async def test_many_long_calls_at_once_all_come_to_their_end(native: Sandbox) -> None:
    results: list[Any] = []
    wasm = answering({"ok": 1}, before=LONG)

    async def one() -> None:
        results.append((await called(native, wasm)).result)

    with anyio.fail_after(SOON), await native.load(wasm):
        async with anyio.create_task_group() as tasks:
            for _ in range(24):
                tasks.start_soon(one)
    assert results == [Ok(1)] * 24


async def test_short_calls_in_a_row_let_others_run(native: Sandbox) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    wasm = answering({"ok": 1})
    with anyio.fail_after(SOON), await native.load(wasm) as module:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            for _ in range(200):
                await called(native, wasm)
            tasks.cancel_scope.cancel()
        module.close()
    assert turns > 1


async def test_a_large_request_and_a_large_answer_are_not_made_on_the_event_loops_thread(
    native: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = threading.get_ident()
    seen: list[tuple[int, bool]] = []
    encode, decode = plain.encode, plain.decode

    def encoding(value: Any, **bounds: int) -> bytes:
        made = encode(value, **bounds)
        seen.append((len(made), threading.get_ident() == here))
        return made

    def decoding(given: bytes, **bounds: int) -> Any:
        value = decode(given, **bounds)
        seen.append((len(given), threading.get_ident() == here))
        return value

    monkeypatch.setattr(plain, "encode", encoding)
    monkeypatch.setattr(plain, "decode", decoding)
    answer = [0] * 5_000
    with await native.load(wasm := answering({"ok": answer}, memory="4")):
        seen.clear()
        assert (await called(native, wasm, arguments={"many": answer})).result == Ok(answer)
    assert len(seen) == 2
    assert not any(on_loop for _, on_loop in seen)


async def test_a_module_that_holds_the_event_loops_thread_again_and_again_is_taken_off_it(
    native: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No slice ends inside code that neither loops nor calls. What that costs depends on the machine: here, all is much.
    monkeypatch.setattr("rho_wasm.sandbox.attempt._OVERRUN_SLICES", 0)
    handed_over: list[object] = []
    run = native._threads.run

    async def counting(*given: Any, **options: Any) -> Any:
        handed_over.append(given)
        return await run(*given, **options)

    monkeypatch.setattr(native._threads, "run", counting)
    wasm = answering({"ok": 1})
    with await native.load(wasm):
        for expected in (0, 0, 0, 1, 2):
            assert (await called(native, wasm)).result == Ok(1)
            assert len(handed_over) == expected
