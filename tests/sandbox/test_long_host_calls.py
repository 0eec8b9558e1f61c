"""Host calls with much in them: which thread answers them, and what they cost."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio.lowlevel
import pytest

from rho_wasm import plain
from rho_wasm.limits import Limits
from rho_wasm.long_work import LONG_BYTES, TURNS, Place
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.guest_call import HOST_ITEM_FUEL
from tests.sandbox.guests import Ended, Granting, Waiting, answering, called, data

BYTES = 3_000


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    return slow_on_trio


@pytest.fixture(name="sandbox")
def _sandbox(native_first: Sandbox) -> Sandbox:
    return native_first


def asks(value: Any) -> bytes:
    """A guest that asks for the clock with ``value``."""
    request = plain.encode({"arguments": {"value": value}, "capability": "clock"})
    assert len(request) > BYTES
    ask = f"(drop (call $host_call (i32.const 4096) (i32.const {len(request)})))"
    return answering({"ok": 1}, before=ask, extra=data(4096, request), capabilities=("clock",))


async def test_a_long_request_is_looked_at_by_another_thread(sandbox: Sandbox) -> None:
    threads: list[int] = []

    class Asked(Waiting):
        def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
            threads.append(threading.get_ident())
            return super().answer_now(capability, arguments, remaining_ms=remaining_ms)

    async def answer(capability: str, arguments: dict[str, Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        return arguments["value"]

    ended = await called(sandbox, asks([1] * BYTES), capabilities=Asked(answer))
    assert ended.error is None
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    assert ended.meter.host_cpu_ms + ended.meter.guest_cpu_ms > 0


@asynccontextmanager
async def turn_of_another() -> AsyncIterator[threading.Event]:
    """Another guest's turn, until the event is set."""
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with Place("another guest").turn():
            taken.set()
            over.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert taken.wait(60)
        with anyio.fail_after(60):
            yield over
    finally:
        over.set()
        holder.join()


async def until_one_waits() -> None:
    while TURNS.waiting == 0:
        await anyio.lowlevel.checkpoint()


LONG_VALUE = [1] * (LONG_BYTES + 1)
LONG_ANSWER = {"ok": LONG_VALUE}


async def test_what_is_long_waits_for_its_turn_and_what_is_short_for_none(sandbox: Sandbox) -> None:
    null = Granting(lambda capability, arguments: None)
    long_reply = Granting(lambda capability, arguments: LONG_VALUE)
    cases: list[tuple[bytes, Granting | None]] = [
        (asks(LONG_VALUE), null),
        (asks([1] * BYTES), long_reply),
        (answering(LONG_ANSWER), None),
    ]
    if sandbox.statistics().way != "process":  # A worker refuses what nobody granted, in turns of its own.
        cases.append((asks(LONG_VALUE), None))
    for wasm, capabilities in cases:
        ended: list[Ended] = []

        async def call(wasm: bytes, capabilities: Granting | None, ended: list[Ended] = ended) -> None:
            ended.append(await called(sandbox, wasm, capabilities=capabilities, limits=Limits(deadline_ms=60_000)))

        async with turn_of_another() as over, anyio.create_task_group() as tasks:
            tasks.start_soon(call, wasm, capabilities)
            await until_one_waits()
            await call(asks([1] * BYTES), null)
            assert len(ended) == 1
            over.set()
        assert [each.error for each in ended] == [None] * 2
        assert TURNS.waiting == 0


async def test_who_waits_for_a_turn_meets_the_deadline(sandbox: Sandbox) -> None:
    for wasm in (asks(LONG_VALUE), answering(LONG_ANSWER)):
        async with turn_of_another():
            ended = await called(
                sandbox, wasm, capabilities=Granting(lambda capability, arguments: None), limits=Limits(deadline_ms=200)
            )
        assert ended.error is not None
        assert (ended.reason, ended.error.limit, ended.error.value) == ("deadline", "deadline_ms", 200)
        assert TURNS.waiting == 0


async def test_who_is_cancelled_waits_for_no_turn(sandbox: Sandbox) -> None:
    for wasm in (asks(LONG_VALUE), answering(LONG_ANSWER)):
        async with turn_of_another(), anyio.create_task_group() as tasks:
            tasks.start_soon(partial(called, sandbox, wasm, capabilities=Granting(lambda capability, arguments: None)))
            await until_one_waits()
            tasks.cancel_scope.cancel()
        assert TURNS.waiting == 0
        assert sandbox.statistics().running == 0


async def test_each_item_asked_and_answered_costs_fuel_beside_its_bytes(sandbox: Sandbox) -> None:
    used: dict[str, int] = {}
    values: dict[str, Any] = {"one": "x" * BYTES, "many": [1] * BYTES}
    for name, value in values.items():
        echo = Granting(lambda capability, arguments: arguments["value"])
        ended = await called(sandbox, asks(value), capabilities=echo)
        assert ended.error is None
        assert ended.meter.fuel_used is not None
        used[name] = ended.meter.fuel_used
    assert used["many"] - used["one"] >= 2 * HOST_ITEM_FUEL * BYTES
