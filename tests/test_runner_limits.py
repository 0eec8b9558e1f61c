"""Deadlines, cancellation, and calls side by side: the design, "Runner", and ``seeds/rho-tool-runner.txt``.

* (seed) the timeout clock; a call killed at its timeout; timeout_text
  -> test_a_call_that_takes_too_long_is_deadline
* (seed) or any other abnormal end of the task (a kill)
  -> test_cancelling_a_running_call_is_cancelled
* Only the caller's own cancellation and KeyboardInterrupt leave run, never an ExceptionGroup
  -> test_the_callers_cancellation_leaves_and_everybody_hears_the_end,
     test_the_callers_cancellation_leaves_alone_out_of_a_handlers_task_group, test_keyboard_interrupt_leaves
* A handler's own TimeoutError is handler_raised, not deadline
  -> test_a_timeout_of_the_handlers_own_is_handler_raised
* an async handler is cancelled
  -> test_a_call_that_takes_too_long_is_deadline
* sync handlers ... are abandoned at their deadline and counted, and at 16 abandoned ones overloaded
  -> test_sync_handlers_are_abandoned_at_their_deadline_and_sixteen_of_them_are_overloaded
* Waiting for a slot is not the tool's time
  -> test_waiting_for_a_slot_is_not_the_tools_time
* run_many runs calls side by side under one limiter, each with its own timeout
  -> test_many_calls_run_side_by_side_under_one_limiter, test_each_of_many_calls_has_its_own_timeout
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.calls import RunningCall, ToolCall, ToolContext
from rho_wasm.events import ToolFinished
from rho_wasm.executor import DefaultExecutor
from rho_wasm.gates import Allow
from rho_wasm.host import Host
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.results import Ok, ToolResult
from rho_wasm.testing import FakeSource, guest
from tests.helpers import Events, Waiting, answering, call, echo, make, raising, runner_of, until

pytestmark = pytest.mark.anyio


async def sleeps(arguments: Any) -> Ok:
    await anyio.sleep(60)
    return Ok("woke")


async def test_a_call_that_takes_too_long_is_deadline() -> None:
    events = Events()
    result = await runner_of(make(sleeps, timeout_ms=10), events=events).run(call())
    assert (result.status, result.kind, result.reason) == ("error", "crashed", "deadline")
    assert result.text.startswith("t crashed (deadline, timeout_ms=10): ")
    assert result.duration_ms >= 10
    assert events.of(ToolFinished)[0].result is result


async def test_a_tool_without_a_bound_has_the_runners() -> None:
    assert (await runner_of(make(sleeps), default_timeout_ms=10).run(call())).reason == "deadline"


async def test_a_bound_of_one_call_lowers_the_tools_own_and_is_not_held_against_it() -> None:
    own: list[bool] = []

    async def handler(arguments: Any, context: ToolContext) -> Ok:
        own.append(context.meter.own_bound)
        return await sleeps(arguments)

    runner = runner_of(make(handler, timeout_ms=20))
    assert "timeout_ms=10" in (await runner.run(call(), timeout_ms=10)).text
    assert "timeout_ms=20" in (await runner.run(call(), timeout_ms=60_000)).text
    assert own == [False, True]


async def test_a_timeout_of_the_handlers_own_is_handler_raised() -> None:
    async def handler(arguments: Any) -> Ok:
        with anyio.fail_after(0.001):
            await anyio.sleep(60)
        return Ok(None)

    assert (await runner_of(make(handler)).run(call())).reason == "handler_raised"
    assert (await runner_of(raising(TimeoutError())).run(call())).reason == "handler_raised"


async def test_a_handlers_own_scope_is_its_own_business() -> None:
    async def handler(arguments: Any) -> Ok:
        with anyio.move_on_after(0.001):
            await anyio.sleep(60)
        return Ok("went on")

    assert (await runner_of(make(handler)).run(call())).text == "went on"


@pytest.mark.parametrize("what", ["answers", "raises", "awaits again"])
async def test_a_handler_that_swallows_its_cancellation_is_deadline_whatever_it_does_then(what: str) -> None:
    async def handler(arguments: Any) -> Ok:
        try:
            await anyio.sleep(60)
        except anyio.get_cancelled_exc_class():
            if what == "raises":
                raise ValueError("in the way out") from None
            if what == "awaits again":
                await anyio.sleep(60)
        return Ok("late")

    assert (await runner_of(make(handler, timeout_ms=10)).run(call())).reason == "deadline"


async def test_sync_handlers_are_abandoned_at_their_deadline_and_sixteen_of_them_are_overloaded() -> None:
    let_go = threading.Event()

    def hangs(arguments: Any) -> Ok:
        let_go.wait(60)
        return Ok("late")

    def quick(arguments: Any) -> Ok:
        return Ok("quick")

    runner = runner_of(make(hangs, name="hangs", timeout_ms=10), make(quick, name="quick"), echo())
    assert isinstance(runner.executor, DefaultExecutor)
    threads = runner.executor.threads
    results = await runner.run_many([call("hangs", id=str(n)) for n in range(16)])
    assert {result.reason for result in results} == {"deadline"}
    refused = await runner.run(call("quick"))
    assert (refused.kind, refused.reason) == ("host", "overloaded")
    assert "max_abandoned_handlers=16" in refused.text
    assert (await runner.run(call("echo"))).ok  # async tools go on
    let_go.set()
    await until(lambda: threads.statistics().abandoned == 0)
    assert (await runner.run(call("quick"))).ok


async def test_cancelling_a_running_call_is_cancelled() -> None:
    source, waiting, results = FakeSource(), Waiting(), []
    runner = runner_of(waiting.tool, sources=[source])

    async def one() -> None:
        results.append(await runner.run(call("waiting")))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        await waiting.began.wait()
        source.watched[0].cancel()
    assert [(result.kind, result.reason) for result in results] == [("host", "cancelled")]
    source.watched[0].cancel()  # does nothing once it ended


class Guest(Waiting):
    """A handler as the host makes them for guests: it keeps its deadline itself."""

    trusted_errors = True

    async def __call__(self, arguments: Any) -> Ok:
        return await self._handle(arguments)


@pytest.mark.parametrize("interrupted", [True, False])
async def test_a_guest_is_interrupted_unless_every_source_said_that_it_cancels_no_calls(interrupted: bool) -> None:
    class Quiet(FakeSource):
        cancels_calls = False

    source, guest, results = Quiet(), Guest(), []
    runner = runner_of(make(guest), sources=[source, FakeSource()] if interrupted else [source])

    async def one() -> None:
        results.append(await runner.run(call()))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        await guest.began.wait()
        source.watched[0].cancel()
        if not interrupted:
            guest.let_go.set()
    assert [(result.kind, result.reason) for result in results] == [("host", "cancelled")]


async def test_a_cancelled_call_is_cancelled_also_if_its_handler_answers_all_the_same() -> None:
    source = FakeSource()

    async def handler(arguments: Any) -> Ok:
        source.watched[0].cancel()
        return Ok("all the same")

    assert (await runner_of(make(handler), sources=[source]).run(call())).reason == "cancelled"


async def test_a_source_may_cancel_a_call_before_anything_of_it_runs() -> None:
    class Strict(FakeSource):
        def watch(self, call: RunningCall) -> None:
            call.cancel()

    waiting = Waiting()
    result = await runner_of(waiting.tool, sources=[Strict()]).run(call("waiting"))
    assert (result.reason, waiting.runs) == ("cancelled", 0)


async def run_and_cancel(runner: Any, waiting: Waiting, name: str = "waiting") -> Any:
    """Runs a call and cancels its caller once the handler began; answers what came out."""
    came_out: list[Any] = []

    async def caller(scope: anyio.CancelScope) -> None:
        with scope:
            try:
                came_out.append(await runner.run(call(name)))
            except BaseException as error:
                came_out.append(error)
                raise

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(caller, scope)
        await waiting.began.wait()
        scope.cancel()
    return came_out[0]


async def test_the_callers_cancellation_leaves_and_everybody_hears_the_end() -> None:
    source, events, waiting = FakeSource(), Events(), Waiting()
    runner = runner_of(waiting.tool, sources=[source], events=events, max_concurrent=1)
    error = await run_and_cancel(runner, waiting)
    assert isinstance(error, anyio.get_cancelled_exc_class())
    ended: list[ToolResult] = []
    source.watched[0].add_done_callback(ended.append)
    assert [result.reason for result in ended] == ["cancelled"]
    assert [event.result.reason for event in events.of(ToolFinished)] == ["cancelled"]
    waiting.let_go.set()
    assert (await runner.run(call("waiting"))).ok  # its slot is free again


async def test_the_callers_cancellation_leaves_alone_out_of_a_handlers_task_group() -> None:
    waiting = Waiting("inner")

    async def handler(arguments: Any) -> Ok:
        async with anyio.create_task_group() as group:
            group.start_soon(waiting._handle, arguments)
            group.start_soon(fails_when_cancelled)
            await anyio.sleep(60)
        return Ok(None)

    async def fails_when_cancelled() -> None:
        try:
            await anyio.sleep(60)
        finally:
            raise ValueError("in the way out")

    outcome = await run_and_cancel(runner_of(make(handler, name="outer")), waiting, "outer")
    assert not isinstance(outcome, BaseExceptionGroup)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("swallows", [False, True])
async def test_a_cancelled_asyncio_task_is_cancelled_though_its_handler_swallows_it(swallows: bool) -> None:
    began = asyncio.Event()

    async def handler(arguments: Any) -> Ok:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not swallows:
                raise
        return Ok("as if nothing had been")

    runner = runner_of(make(handler))
    task = asyncio.create_task(runner.run(call()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_asked_for_before_the_call_is_the_callers() -> None:
    waiting = Waiting()

    async def caller() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await runner_of(waiting.tool).run(call("waiting"))

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(caller())
    assert waiting.runs == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_the_caller_caught_long_ago_is_not_asked_for_again() -> None:
    async def caller() -> ToolResult:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
        return await runner_of(raising(asyncio.CancelledError())).run(call())

    assert (await asyncio.create_task(caller())).reason == "handler_exit"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_asyncio_timeouts_inside_and_outside_keep_their_meaning() -> None:
    async def handler(arguments: Any) -> Ok:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        except TimeoutError:
            return Ok("its own")
        return Ok("none")

    assert (await runner_of(make(handler)).run(call())).text == "its own"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await runner_of(make(sleeps)).run(call())


async def test_a_caller_cancelled_while_its_gate_waits_hears_of_it_and_nothing_ran() -> None:
    asked = anyio.Event()

    async def gate(call: Any, context: Any) -> Allow:
        asked.set()
        await anyio.sleep(60)
        return Allow()

    events, waiting = Events(), Waiting()
    runner = runner_of(waiting.tool, gate=gate, events=events)
    async with anyio.create_task_group() as group:
        group.start_soon(runner.run, call("waiting"))
        await asked.wait()
        group.cancel_scope.cancel()
    assert waiting.runs == 0
    assert [event.result.reason for event in events.of(ToolFinished)] == ["cancelled"]


async def test_keyboard_interrupt_leaves() -> None:
    events = Events()
    runner = runner_of(raising(KeyboardInterrupt()), events=events)
    with pytest.raises(KeyboardInterrupt):
        await runner.run(call())
    group = BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError()])
    with pytest.raises(KeyboardInterrupt):
        await runner_of(raising(group)).run(call())
    assert len(events.of(ToolFinished)) == 1


async def test_many_calls_come_back_in_the_order_of_the_calls() -> None:
    first, second = Waiting("first"), Waiting("second")

    async def let_second_end_first() -> None:
        await first.began.wait()
        await second.began.wait()
        second.let_go.set()
        await anyio.wait_all_tasks_blocked()
        first.let_go.set()

    runner = runner_of(first.tool, second.tool)
    async with anyio.create_task_group() as group:
        group.start_soon(let_second_end_first)
        results = await runner.run_many([call("first", id="a"), call("second", id="b"), call("none", id="c")])
    assert [(result.call_id, result.tool) for result in results] == [("a", "first"), ("b", "second"), ("c", "none")]


async def test_one_of_many_calls_that_fails_affects_no_other() -> None:
    tools = (
        raising(ValueError(), name="raises"),
        raising(SystemExit(), name="exits"),
        raising(BaseExceptionGroup("g", [ValueError()]), name="group"),
        make(sleeps, name="sleeps", timeout_ms=10),
        answering(7, name="invalid"),
        echo(),
    )
    calls = [call(tool.name, id=tool.name) for tool in tools]
    results = await runner_of(*tools).run_many(calls)
    assert [result.reason for result in results] == [
        "handler_raised",
        "handler_exit",
        "handler_raised",
        "deadline",
        "invalid_return",
        None,
    ]


async def test_calls_of_one_id_have_a_result_each() -> None:
    results = await runner_of(echo()).run_many([call("echo", {"n": n}, id="same") for n in range(3)])
    assert [result.value["n"] for result in results] == [0, 1, 2]


async def test_many_calls_that_never_wait_leave_the_event_loop_its_turns() -> None:
    begun, seen = 0, []

    async def counts(arguments: Any) -> Ok:
        nonlocal begun
        begun += 1
        return Ok(begun)

    async def watch(scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                seen.append(begun)
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()
        group.start_soon(watch, scope)
        results = await runner_of(make(counts)).run_many([call(id=str(n)) for n in range(500)])
        scope.cancel()
    assert [result.call_id for result in results] == [str(n) for n in range(500)]
    assert max(later - earlier for earlier, later in itertools.pairwise([*seen, begun])) <= 2 * 64


async def test_of_many_calls_that_are_cancelled_those_that_wait_for_others_do_not_begin() -> None:
    begun = 0

    async def handler(arguments: Any) -> Ok:
        nonlocal begun
        begun += 1
        if begun == 64:
            scope.cancel()
        await anyio.sleep(60)
        return Ok(None)

    with anyio.CancelScope() as scope:
        await runner_of(make(handler)).run_many([call(id=str(n)) for n in range(200)])
    assert scope.cancelled_caught
    assert begun == 64


async def test_no_calls_have_no_results() -> None:
    assert await runner_of().run_many([]) == []


# asyncio itself lets a KeyboardInterrupt of any task out of the event loop at once.
@pytest.mark.parametrize(("anyio_backend", "count"), [("asyncio", 1), ("trio", 1), ("trio", 3)])
async def test_keyboard_interrupt_leaves_many_calls_by_itself(count: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        await runner_of(raising(KeyboardInterrupt())).run_many([call()] * count)


async def test_many_calls_run_side_by_side_under_one_limiter() -> None:
    running = most = 0

    async def handler(arguments: Any) -> Ok:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return Ok(None)

    runner = runner_of(make(handler), max_concurrent=3)
    results = await runner.run_many([call(id=str(n)) for n in range(20)])
    assert all(result.ok for result in results)
    assert most == 3


async def test_waiting_for_a_slot_is_not_the_tools_time() -> None:
    told: list[ToolContext] = []

    async def gate(call: Any, context: ToolContext) -> Allow:
        told.append(context)
        return Allow()

    holder, results = Waiting("holder"), []
    runner = runner_of(holder.tool, echo("waiter", timeout_ms=7_000), gate=gate, max_concurrent=1)

    async def wait() -> None:
        results.append(await runner.run(call("waiter")))

    async with anyio.create_task_group() as group:
        group.start_soon(runner.run, call("holder"))
        await holder.began.wait()
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert told[1].meter.clock.remaining_ms() == 7_000  # exactly: it has not started
        holder.let_go.set()
    assert results[0].ok
    assert told[1].meter.clock.remaining_ms() < 7_000


async def test_what_is_withdrawn_while_a_call_waits_for_a_slot_does_not_run() -> None:
    holder, late, results = Waiting("holder"), Waiting("late"), []
    runner = runner_of(holder.tool, max_concurrent=1)
    runner.registry.register(late.tool)
    offered = runner.registry.snapshot()

    async def wait() -> None:
        results.append(await runner.run(call("late"), tools=offered))

    async with anyio.create_task_group() as group:
        group.start_soon(runner.run, call("holder"))
        await holder.began.wait()
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        runner.registry.unregister("late")
        holder.let_go.set()
    assert ([result.reason for result in results], late.runs) == (["not_found"], 0)


async def test_each_of_many_calls_has_its_own_timeout() -> None:
    runner = runner_of(make(sleeps, name="slow", timeout_ms=10), echo("quick"), max_concurrent=1)
    results = await runner.run_many([call("slow"), call("quick")])
    assert [result.reason for result in results] == ["deadline", None]


async def test_a_tool_may_run_other_tools_through_the_registry_that_it_was_told() -> None:
    runner = runner_of(echo("inner"), make(None, name="unused"))

    async def handler(arguments: Any, context: ToolContext) -> Ok:
        return Ok((await runner.run(call("inner", {"x": 1}))).value)

    runner.registry.register(make(handler, name="outer"))
    assert (await runner.run(call("outer"))).value == {"x": 1}


async def test_a_runner_made_outside_an_event_loop_serves_calls_inside() -> None:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(runner_of(echo("t"), max_concurrent=1)))
    thread.start()
    thread.join(timeout=60)
    assert all(result.ok for result in await made[0].run_many([call()] * 3))


async def test_one_slow_guest_keeps_neither_core_tools_nor_other_guests_waiting() -> None:
    limits = HostLimits(call=Limits(deadline_ms=60_000, fuel=10**15), max_concurrent_calls=4, max_concurrent_per_tool=2)
    async with Host.open(":memory:", core=[echo("core")], limits=limits) as host:
        made = [guest("spin", body="(loop $again (br $again))"), guest("other")]
        await host.source.activate(await host.source.stage(add=made, author="test"))
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(host.runner.run, ToolCall(id=f"spin-{number}", name="spin"))
            await until(lambda: host.sandbox.statistics().running == 2)
            with anyio.fail_after(60):
                assert (await host.runner.run(ToolCall(id="1", name="core"))).ok
                assert (await host.runner.run(ToolCall(id="2", name="other"))).ok
            group.cancel_scope.cancel()
