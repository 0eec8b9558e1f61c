"""The Sandbox as a whole: loading, cancellation, slots, closing, several event loops, several threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from rho_wasm import plain
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.errors import Closed, ModuleRejected, ToolError
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import HandlerResult, Ok
from rho_wasm.sandbox import Capabilities, GuestModule, NativeCache, Sandbox
from rho_wasm.sandbox.ways import Way
from tests.sandbox.guests import Granting, Waiting, answering, called, data, guest

SPIN = guest("(loop $l (br $l)) unreachable")
ENDLESS = Limits(fuel=10**15, deadline_ms=60_000)
SOON = 60  # seconds: a bound for what must not hang


ASK = plain.encode({"arguments": {}, "capability": "clock"})
SPIN_ONCE_ASKED = guest(
    f"(drop (call $host_call (i32.const 0) (i32.const {len(ASK)}))) (loop $l (br $l)) unreachable",
    extra=data(0, ASK),
    capabilities=("clock",),
)


async def spin(
    sandbox: Sandbox,
    module: GuestModule,
    meter: CallMeter | None = None,
    capabilities: Capabilities | None = None,
) -> HandlerResult:
    return await sandbox.call(
        module,
        tool="t",
        arguments={},
        context={},
        limits=ENDLESS,
        meter=meter or CallMeter(CallClock(60_000)),
        capabilities=capabilities,
    )


async def until_running(sandbox: Sandbox, count: int) -> None:
    while sandbox.statistics().running < count:  # noqa: ASYNC110 - a snapshot has no event
        await anyio.sleep(0.001)


async def test_an_odd_id_of_the_callers_is_nobodys_crash(sandbox: Sandbox) -> None:
    copied = plain.copied({"a": 1}, in_order=True)

    async def called_as(call_id: Any) -> HandlerResult:
        context, meter = {"call_id": call_id}, CallMeter(CallClock(5_000))
        return await sandbox.call(
            module, tool="t", arguments=copied.value, context=context, limits=Limits(), meter=meter, copied=copied
        )

    with await sandbox.load(answering({"ok": 1})) as module:
        for call_id in ("\x1b[31m", "", "x" * 1_000, 7, None):
            assert await called_as(call_id) == Ok(1)
        with pytest.raises(ToolError) as refused:
            await called_as("\ud800")
        assert refused.value.reason == "invalid_arguments"


async def test_the_same_bytes_compile_once_however_many_load_them(shared_cache: NativeCache) -> None:
    async with Sandbox() as sandbox:
        modules: list[GuestModule] = []

        async def load() -> None:
            modules.append(await sandbox.load(SPIN))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(load)
        statistics = sandbox.statistics()
        assert (statistics.compiled, statistics.modules) == (1, 1)
        for module in modules:
            module.close()
        assert sandbox.statistics().modules == 0


async def test_if_the_one_that_compiles_is_cancelled_the_next_takes_over() -> None:
    async with Sandbox() as sandbox:
        with anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                first = anyio.CancelScope()

                async def cancelled() -> None:
                    with first:
                        await sandbox.load(SPIN)

                async def other() -> None:
                    (await sandbox.load(SPIN)).close()

                tasks.start_soon(cancelled)
                await anyio.lowlevel.checkpoint()
                tasks.start_soon(other)
                await anyio.lowlevel.checkpoint()
                first.cancel()
        assert sandbox.statistics().compiled == 1


async def test_a_refusal_is_remembered_and_costs_no_second_child(here: Sandbox) -> None:
    invalid = guest("(drop (i32.const 1)) (i64.const 0)")
    broken = invalid.replace(b"\x41\x01\x1a", b"\x41\x01\x01")  # drop becomes nop: admitted, but not valid
    assert broken != invalid
    with pytest.raises(ModuleRejected) as first:
        await here.load(broken)
    with pytest.raises(ModuleRejected) as second:
        await here.load(broken)
    assert first.value.reason == second.value.reason == "invalid"
    assert str(first.value) == str(second.value)
    assert first.value is not second.value
    assert here.statistics().refused == 2


async def test_a_module_that_is_not_admitted_is_never_compiled(here: Sandbox) -> None:
    for wasm in (b"", b"\0asm\1\0\0\0", guest("unreachable")[:-1]):
        with pytest.raises(ModuleRejected):
            await here.load(wasm)
    assert here.statistics().compiled == 0


async def test_cancellation_stops_the_guest_and_leaves_nothing_running(sandbox: Sandbox) -> None:
    meter, began = CallMeter(CallClock(60_000)), threading.Event()
    with await sandbox.load(SPIN_ONCE_ASKED) as module, anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            # That a call has its slot says not yet that its guest runs: a thread or a worker may still be on its way.
            tasks.start_soon(spin, sandbox, module, meter, Granting(lambda *_: began.set()))
            while not began.is_set():  # noqa: ASYNC110 - a thread sets it
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
        assert sandbox.statistics().running == 0
        assert sandbox.statistics().modules == 1
    assert meter.guest_ms > 0
    assert sandbox.statistics().modules == 0


async def test_cancellation_inside_a_host_call_reaches_the_capability(sandbox: Sandbox) -> None:
    inside = anyio.Event()
    seen: list[str] = []

    async def capabilities(capability: str, arguments: Mapping[str, Any]) -> Any:
        inside.set()
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("cancelled")

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: called(sandbox, SPIN_ONCE_ASKED, limits=ENDLESS, capabilities=Waiting(capabilities))
            )
            await inside.wait()
            tasks.cancel_scope.cancel()
    assert seen == ["cancelled"]
    assert sandbox.statistics().running == 0


async def test_the_event_loop_goes_on_while_guests_spin(sandbox: Sandbox) -> None:
    with await sandbox.load(SPIN) as module, anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(spin, sandbox, module)
            await until_running(sandbox, 2)
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


async def test_a_call_that_finds_no_slot_is_overloaded_and_its_clock_stood_still() -> None:
    limits = HostLimits(max_concurrent_calls=1, queue_ms=300)
    async with Sandbox(limits=limits) as sandbox:
        with await sandbox.load(SPIN) as module, anyio.fail_after(SOON):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(spin, sandbox, module)
                await until_running(sandbox, 1)
                clock = CallClock(60_000)
                with anyio.CancelScope() as scope:
                    clock.start(scope)
                    with pytest.raises(ToolError) as caught:
                        await spin(sandbox, module, CallMeter(clock))
                assert (caught.value.reason, caught.value.limit) == ("overloaded", "max_concurrent_calls")
                assert clock.remaining_ms() > 60_000 - 300
                tasks.cancel_scope.cancel()


async def test_a_tool_that_the_module_does_not_have_is_not_found(sandbox: Sandbox) -> None:
    with await sandbox.load(SPIN) as module, pytest.raises(ToolError) as caught:
        await sandbox.call(
            module,
            tool="other",
            arguments={},
            context={},
            limits=Limits(),
            meter=CallMeter(CallClock(1_000)),
            name="offered",
        )
    assert (caught.value.reason, caught.value.tool) == ("not_found", "offered")


async def test_a_module_of_another_sandbox_is_refused(sandbox: Sandbox, shared_cache: NativeCache, way: Way) -> None:
    async with Sandbox(cache=shared_cache, way=way) as other:
        with await other.load(SPIN) as module, pytest.raises(ValueError, match="another sandbox"):
            await spin(sandbox, module)


async def test_a_call_ends_on_the_module_that_it_began_on(sandbox: Sandbox) -> None:
    module = await sandbox.load(SPIN)
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(spin, sandbox, module)
            await until_running(sandbox, 1)
            module.close()
            module.close()
            assert sandbox.statistics().modules == 1
            with pytest.raises(Closed):
                await spin(sandbox, module)
            tasks.cancel_scope.cancel()
    assert sandbox.statistics().modules == 0


async def test_closing_stops_the_calls_that_run(shared_cache: NativeCache) -> None:
    sandbox = Sandbox(cache=shared_cache)
    module = await sandbox.load(SPIN)
    reasons: list[str] = []

    async def call() -> None:
        with pytest.raises(ToolError) as caught:
            await spin(sandbox, module)
        reasons.append(caught.value.reason)

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await until_running(sandbox, 1)
            await sandbox.aclose()
    assert reasons == ["cancelled"]
    await sandbox.aclose()
    with pytest.raises(Closed):
        await sandbox.load(SPIN)
    with pytest.raises(Closed):
        await spin(sandbox, module)


def test_one_sandbox_serves_event_loops_one_after_another(shared_cache: NativeCache) -> None:
    sandbox = Sandbox(cache=shared_cache)
    wasm = answering({"ok": 1})

    async def several() -> list[Any]:
        results: list[Any] = []

        async def one() -> None:
            results.append((await called(sandbox, wasm)).result)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(one)
        return results

    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(several, backend=backend) == [Ok(1)] * 4
    anyio.run(sandbox.aclose)


async def test_the_ticker_rests_when_no_guest_runs(here: Sandbox, way: Way) -> None:
    statistics = here.statistics()
    assert (statistics.way, statistics.running, statistics.waiting) == (way, 0, 0)
    with await here.load(SPIN) as module, anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(spin, here, module)
            await until_running(here, 1)
            tasks.cancel_scope.cancel()
    assert here.statistics().running == 0


async def test_a_ticker_made_of_a_thread_stops_guests_too(shared_cache: NativeCache) -> None:
    async with Sandbox(cache=shared_cache, ticker="thread") as sandbox:
        assert sandbox.statistics().ticker == "thread"
        with anyio.fail_after(SOON):
            limits = Limits(fuel=10**15, deadline_ms=20)
            assert (await called(sandbox, SPIN, limits=limits)).reason == "deadline"


async def test_a_deadline_holds_while_python_threads_are_busy(sandbox: Sandbox) -> None:
    stop = threading.Event()
    threads = [threading.Thread(target=_busy, args=(stop,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with anyio.fail_after(SOON):
            ended = await called(sandbox, SPIN, limits=Limits(fuel=10**15, deadline_ms=100))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert ended.reason == "deadline"


def _busy(stop: threading.Event) -> None:
    while not stop.is_set():
        sum(range(1_000))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
async def test_a_forked_process_may_not_use_the_sandbox_of_its_parent(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Forking a process with threads is a warning of its own, so only the check is asked.
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    ended = await called(sandbox, answering({"ok": 1}))
    assert ended.error is not None
    assert ended.error.reason == "capability_fault"
    assert "forked" in ended.error.detail
