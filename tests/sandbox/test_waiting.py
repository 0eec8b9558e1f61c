"""Capabilities that have to be awaited: who waits meanwhile, and how such a call ends."""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rho_wasm import plain
from rho_wasm.errors import CapabilityError
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import LATER, NativeCache, Sandbox
from rho_wasm.sandbox.ways import Way
from tests.sandbox.guests import MEBIBYTE, Granting, Waiting, answering, asking, called, data, guest

ASK = plain.encode({"arguments": {}, "capability": "clock"})
ASKS = f"(drop (call $host_call (i32.const 0) (i32.const {len(ASK)})))"
LONG = """(loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3000000))))"""
SOON = 60
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO")


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


@pytest.fixture(name="sandbox")
def _sandbox(native_first: Sandbox) -> Sandbox:
    return native_first


def asks(then: str, **options: Any) -> bytes:
    """A guest that asks for the clock and then does something else."""
    return guest(f"{ASKS} {then}", extra=data(0, ASK), capabilities=("clock",), **options)


async def hang(capability: str, arguments: dict[str, Any]) -> Any:
    await anyio.sleep_forever()


async def nothing(capability: str, arguments: dict[str, Any]) -> Any:
    await anyio.lowlevel.checkpoint()


async def test_an_answer_is_awaited_in_the_task_that_called(sandbox: Sandbox) -> None:
    tasks: list[Any] = []

    async def answer(capability: str, arguments: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        tasks.append((anyio.get_current_task().id, threading.get_ident(), WHO.get()))
        return {"ok": {"n": len(tasks)}}

    WHO.set("me")
    here = (anyio.get_current_task().id, threading.get_ident(), "me")
    ended = await called(sandbox, asking("clock"), capabilities=Waiting(answer))
    assert ended.result == Ok({"ok": {"n": 1}})
    assert tasks == [here]


@pytest.mark.parametrize("before", ["", LONG], ids=["at once", "after a slice"])
async def test_a_guest_goes_on_where_it_was_left_however_often_it_waits(sandbox: Sandbox, before: str) -> None:
    asked = 0

    async def answer(capability: str, arguments: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        if asked % 2:
            await anyio.lowlevel.checkpoint()
        return asked

    once = f"(local.set $i (i32.const 0)) {before} {ASKS}"
    logs = "(call $log (i32.const 20) (i32.const 0) (i32.const 1))"
    wasm = answering({"ok": 1}, before=f"{once * 4} {logs}", extra=data(0, ASK), capabilities=("clock",))
    ended = await called(sandbox, wasm, capabilities=Waiting(answer))
    assert (ended.result, asked, len(ended.meter.log)) == (Ok(1), 4, 1)


async def test_many_that_wait_hold_up_nobody(anyio_backend: str, shared_cache: NativeCache, way: Way) -> None:
    many = 100
    waiting, go_on = 0, anyio.Event()

    async def answer(capability: str, arguments: dict[str, Any]) -> Any:
        nonlocal waiting
        waiting += 1
        await go_on.wait()
        return {"ok": 1}

    limits = HostLimits(max_concurrent_calls=many + 1, max_concurrent_per_tool=many + 1)
    results: list[Any] = []

    async def one() -> None:
        mine = Limits(memory_bytes=MEBIBYTE, deadline_ms=60_000)
        ended = await called(sandbox, wasm, limits=mine, capabilities=Waiting(answer))
        results.append(ended.result)

    wasm = asking("clock")
    async with Sandbox(cache=shared_cache, way=way, limits=limits) as sandbox:
        with anyio.fail_after(SOON), await sandbox.load(wasm):
            async with anyio.create_task_group() as tasks:
                for _ in range(many):
                    tasks.start_soon(one)
                while waiting < many:
                    await anyio.lowlevel.checkpoint()
                if way == "native":
                    assert sandbox._threads.statistics().running == 0, "no thread waits"
                for _ in range(10):
                    assert (await called(sandbox, answering({"ok": 2}))).result == Ok(2)
                assert results == []
                go_on.set()
    assert results == [Ok({"ok": 1})] * many


async def test_a_deadline_that_passes_meanwhile_is_no_time_of_the_guests(sandbox: Sandbox) -> None:
    wasm = asks("unreachable")
    with anyio.fail_after(SOON), await sandbox.load(wasm):
        await called(sandbox, wasm, capabilities=Waiting(nothing))  # So a worker has the module from here on.
        ended = await called(sandbox, wasm, limits=Limits(deadline_ms=600), capabilities=Waiting(hang))
    assert ended.error is not None
    assert (ended.reason, ended.error.limit, ended.error.value) == ("deadline", "deadline_ms", 600)
    assert "while it waited for clock" in ended.error.detail
    assert ended.meter.guest_cpu_ms < 400
    assert ended.meter.guest_ms < 400, "the guest stood still for the rest"


async def test_a_sandbox_that_closes_cancels_what_is_awaited(
    anyio_backend: str, shared_cache: NativeCache, way: Way
) -> None:
    inside = anyio.Event()
    ends: list[str | None] = []

    async def answer(capability: str, arguments: dict[str, Any]) -> Any:
        inside.set()
        await anyio.sleep_forever()

    async def one() -> None:
        ends.append((await called(sandbox, asks("unreachable"), capabilities=Waiting(answer))).reason)

    sandbox = Sandbox(cache=shared_cache, way=way)
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            await inside.wait()
            await sandbox.aclose()
    assert ends == ["cancelled"]
    assert not sandbox._runtime.calls


async def test_one_that_does_not_let_itself_be_cancelled_holds_only_its_own_call(sandbox: Sandbox) -> None:
    told, let_go = anyio.Event(), anyio.Event()
    ends: list[str | None] = []
    wasm = asks("unreachable")

    async def stubborn(capability: str, arguments: dict[str, Any]) -> Any:
        while anyio.current_effective_deadline() > -math.inf:  # Until its deadline passed.
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.001)
        told.set()
        with anyio.CancelScope(shield=True):
            await let_go.wait()
        return 1

    async def one() -> None:
        limits = Limits(deadline_ms=500)
        ends.append((await called(sandbox, wasm, limits=limits, capabilities=Waiting(stubborn))).reason)

    with anyio.fail_after(SOON), await sandbox.load(wasm):
        await called(sandbox, wasm, capabilities=Waiting(nothing))  # So a worker has the module from here on.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            await told.wait()
            for _ in range(5):
                assert (await called(sandbox, answering({"ok": 2}))).result == Ok(2)
            assert ends == []
            let_go.set()
    assert ends == ["deadline"]


@pytest.mark.parametrize("later", [False, True], ids=["at once", "awaited"])
@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("secret", [KeyError("secret")]),
        pytest.param(ZeroDivisionError("secret"), marks=pytest.mark.slow),
        pytest.param(SystemExit("secret"), marks=pytest.mark.slow),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_a_capability_raises_is_not_available_and_tells_the_guest_nothing(
    sandbox: Sandbox, error: BaseException, later: bool
) -> None:
    crashed = await called(sandbox, asks("unreachable"), capabilities=raising(error, later))
    assert crashed.error is not None
    assert crashed.reason == "capability_fault"
    assert "secret" not in str(crashed.error)
    assert "clock was not available" in crashed.error.detail
    if isinstance(error, Exception):
        assert crashed.error.cause is error


def raising(error: BaseException, later: bool) -> Granting | Waiting:
    def now(capability: str, arguments: dict[str, Any]) -> Any:
        raise error

    async def awaited(capability: str, arguments: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        raise error

    return Waiting(awaited) if later else Granting(now)


@pytest.mark.parametrize("later", [False, True], ids=["at once", "awaited"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), BaseExceptionGroup("", [KeyboardInterrupt(), ValueError()])])
async def test_an_interrupt_inside_a_capability_reaches_the_caller(
    sandbox: Sandbox, error: BaseException, later: bool
) -> None:
    with pytest.raises(KeyboardInterrupt):
        await called(sandbox, asking("clock"), capabilities=raising(error, later))
    assert (await called(sandbox, answering({"ok": 2}))).result == Ok(2)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_nobody_asked_for_is_not_available(sandbox: Sandbox) -> None:
    ended = await called(sandbox, asks("unreachable"), capabilities=raising(asyncio.CancelledError(), True))
    assert ended.reason == "capability_fault"


@pytest.mark.parametrize(
    "kind",
    [
        "unavailable",
        "quota",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("denied", "undeclared", "invalid_arguments")),
    ],
)
async def test_a_crash_is_the_guests_own_unless_something_was_not_available(sandbox: Sandbox, kind: str) -> None:
    capabilities = raising(CapabilityError(kind, "no"), True)
    ended = await called(sandbox, asks("unreachable"), capabilities=capabilities)
    assert ended.reason == ("capability_fault" if kind == "unavailable" else "trapped")
    endless = asks("(loop $l (br $l)) unreachable")
    ended = await called(sandbox, endless, limits=Limits(fuel=10**6), capabilities=capabilities)
    assert ended.reason == "out_of_fuel", "that is no want of a capability"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("conflict", "conflict"),
        *(pytest.param(odd, "unavailable", marks=pytest.mark.slow) for odd in ("", "x" * 65, "a b", "\x1b")),
    ],
)
async def test_a_kind_may_be_the_capabilitys_own_if_it_is_a_word(sandbox: Sandbox, kind: str, told: str) -> None:
    take = "(call $host_take (i32.const 4096) (i32.const 60000))"
    wasm = asks(f"(call $log (i32.const 20) (i32.const 4096) {take}) unreachable")
    ended = await called(sandbox, wasm, capabilities=raising(CapabilityError(kind, "no"), True))
    assert told in ended.meter.log.lines[0].text


async def test_a_message_of_a_capability_is_bounded_and_inert(sandbox: Sandbox) -> None:
    error = CapabilityError("denied", "\x1b[31m" + "x" * 100_000)
    wasm = asks(
        "(call $log (i32.const 20) (i32.const 4096) (call $host_take (i32.const 4096) (i32.const 60000))) unreachable"
    )
    ended = await called(sandbox, wasm, capabilities=raising(error, True))
    (line,) = ended.meter.log.lines
    assert "x" * 100 in line.text
    assert len(line.text) < 1_500
    assert "\x1b" not in line.text


async def test_answers_that_are_there_at_once_do_not_hold_the_event_loop(sandbox: Sandbox) -> None:
    turns, calls = 0, 300

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async def answer(capability: str, arguments: dict[str, Any]) -> Any:
        return 1

    loop = f"""(loop $l {ASKS} (br_if $l
        (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {calls}))))"""
    wasm = answering({"ok": 1}, before=loop, extra=data(0, ASK), capabilities=("clock",))
    with anyio.fail_after(SOON), await sandbox.load(wasm):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            assert (await called(sandbox, wasm, capabilities=Waiting(answer))).result == Ok(1)
            tasks.cancel_scope.cancel()
    assert turns > 3


async def test_later_is_no_answer_of_the_second_asking(sandbox: Sandbox) -> None:
    async def answer(capability: str, arguments: dict[str, Any]) -> Any:
        return LATER

    ended = await called(sandbox, asks("unreachable"), capabilities=Waiting(answer))
    assert ended.reason == "capability_fault"
