"""A call's clock, on asyncio and trio, and what a source may do with a running call."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.calls import CallClock, CallMeter, RunningCall, ToolCall, ToolContext
from rho_wasm.results import ToolResult
from tests.helpers import call, context, make

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000


def left_ms(scope: anyio.CancelScope) -> float:
    return (scope.deadline - anyio.current_time()) * 1000


# -- the clock


async def test_before_the_start_the_whole_time_is_left() -> None:
    assert CallClock(50).remaining_ms() == 50
    assert CallClock(math.inf).remaining_ms() == math.inf


async def test_the_start_sets_the_deadline_of_the_scope() -> None:
    clock = CallClock(HOUR_MS)
    with anyio.CancelScope() as scope:
        clock.start(scope)
        await anyio.lowlevel.checkpoint()
        assert 0 < left_ms(scope) <= HOUR_MS
        assert 0 < clock.remaining_ms() <= HOUR_MS


async def test_at_the_deadline_the_scope_is_cancelled() -> None:
    clock = CallClock(1)
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        clock.start(scope)
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert clock.remaining_ms() == 0


async def test_paused_the_clock_stands_still_and_nothing_cancels() -> None:
    clock = CallClock(1)
    with anyio.CancelScope() as scope:
        clock.start(scope)
        with clock.paused():
            before = clock.remaining_ms()
            assert scope.deadline == math.inf
            await anyio.sleep(0.005)
            assert clock.remaining_ms() == before
        assert left_ms(scope) <= before
        assert scope.deadline != math.inf
    assert not scope.cancelled_caught


async def test_pauses_may_be_nested_and_only_the_outermost_ends_the_pause() -> None:
    clock = CallClock(HOUR_MS)
    with anyio.CancelScope() as scope:
        clock.start(scope)
        await anyio.lowlevel.checkpoint()
        with clock.paused():
            with clock.paused():
                before = clock.remaining_ms()
            assert scope.deadline == math.inf
            assert clock.remaining_ms() == before
        assert scope.deadline != math.inf


async def test_a_pause_that_ends_with_an_error_ends() -> None:
    clock = CallClock(HOUR_MS)
    with anyio.CancelScope() as scope:
        clock.start(scope)
        await anyio.lowlevel.checkpoint()
        for _ in range(3):
            with pytest.raises(ValueError, match="x"), clock.paused():
                raise ValueError("x")
            assert 0 < left_ms(scope) <= HOUR_MS


async def test_a_pause_before_the_start_changes_nothing() -> None:
    clock = CallClock(HOUR_MS)
    with clock.paused():
        assert clock.remaining_ms() == HOUR_MS
    with anyio.CancelScope() as scope:
        clock.start(scope)
        await anyio.lowlevel.checkpoint()
        assert 0 < left_ms(scope) <= HOUR_MS


async def test_a_clock_started_paused_stands_still_for_the_whole_call() -> None:
    clock = CallClock(HOUR_MS)
    with anyio.CancelScope() as scope:
        clock.start(scope, paused=True)
        await anyio.lowlevel.checkpoint()
        with clock.paused():
            pass
        assert scope.deadline == math.inf
        assert clock.remaining_ms() == HOUR_MS
        clock.spend(1_000)
        assert clock.remaining_ms() == pytest.approx(HOUR_MS - 1_000)
        assert scope.deadline == math.inf


async def test_a_clock_of_a_handler_that_keeps_its_deadline_needs_no_scope() -> None:
    clock = CallClock(HOUR_MS)
    clock.start(None, paused=True)
    with clock.paused():
        await anyio.lowlevel.checkpoint()
        assert clock.remaining_ms() == HOUR_MS
        clock.spend(1_000)
    assert clock.remaining_ms() == pytest.approx(HOUR_MS - 1_000)


async def test_what_was_spent_inside_a_pause_is_taken() -> None:
    clock = CallClock(HOUR_MS)
    with anyio.CancelScope() as scope:
        clock.start(scope)
        await anyio.lowlevel.checkpoint()
        with clock.paused():
            before = clock.remaining_ms()
            clock.spend(60_000)
            assert clock.remaining_ms() == pytest.approx(before - 60_000)
        assert left_ms(scope) <= before - 60_000


async def test_spending_more_than_is_left_ends_the_call_and_leaves_nothing() -> None:
    clock = CallClock(HOUR_MS)
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        clock.start(scope)
        clock.spend(2 * HOUR_MS)
        assert clock.remaining_ms() == 0
        await anyio.sleep_forever()
    assert scope.cancelled_caught


# -- a running call


def running(cancelled: list[bool]) -> RunningCall:
    return RunningCall(make(), context(), lambda: cancelled.append(True), 7)


RESULT = ToolResult(call_id="1", tool="t", status="ok", kind="ok")


async def test_a_source_is_told_of_the_call_its_tool_and_generation() -> None:
    told = running([])
    assert (told.call, told.tool.name, told.generation) == (call(), "t", 7)
    assert told.meter is told.context.meter


async def test_a_source_may_cancel() -> None:
    cancelled: list[bool] = []
    running(cancelled).cancel()
    assert cancelled == [True]


async def test_callbacks_hear_the_result_once_in_their_order() -> None:
    told = running([])
    heard: list[tuple[str, ToolResult]] = []
    told.add_done_callback(lambda result: heard.append(("a", result)))
    told.add_done_callback(lambda result: heard.append(("b", result)))
    assert told.finish(RESULT) == []
    assert heard == [("a", RESULT), ("b", RESULT)]


async def test_a_callback_that_comes_late_is_called_at_once() -> None:
    told = running([])
    told.finish(RESULT)
    heard: list[ToolResult] = []
    told.add_done_callback(heard.append)
    assert heard == [RESULT]


async def test_a_callback_that_raises_costs_the_others_nothing() -> None:
    told = running([])
    heard: list[ToolResult] = []
    error = ValueError("x")

    def raising(result: ToolResult) -> None:
        raise error

    told.add_done_callback(raising)
    told.add_done_callback(heard.append)
    assert told.finish(RESULT) == [error]
    assert heard == [RESULT]


# -- what a handler is told


async def test_a_call_and_its_context_do_not_change() -> None:
    given = context()
    with pytest.raises(FrozenInstanceError):
        given.session_id = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        given.call.name = "other"  # type: ignore[misc]


async def test_a_meter_starts_with_nothing_used() -> None:
    meter = CallMeter(CallClock(1))
    assert (meter.fuel_used, meter.guest_ms, meter.guest_cpu_ms, meter.generation, meter.artifact) == (
        None,
        0.0,
        0.0,
        None,
        None,
    )
    assert (len(meter.log), meter.backtrace, meter.own_bound) == (0, (), True)


async def test_each_context_has_a_meter_of_its_own_that_does_not_make_it_differ() -> None:
    one, other = ToolContext(call=ToolCall("1", "t")), ToolContext(call=ToolCall("1", "t"))
    assert one.meter is not other.meter
    assert one == other
    assert one.meter.clock.remaining_ms() == math.inf
