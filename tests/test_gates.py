"""The call gate: closed unless it says exactly ``Allow()``."""

from __future__ import annotations

import functools
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.errors import ToolError
from rho_wasm.gates import Allow, Block, Gate, Gatekeeper, allow_all
from rho_wasm.host_threads import HostThreads
from tests.helpers import call, context

pytestmark = pytest.mark.anyio


async def ask(gate: Gate, *, threads: HostThreads | None = None) -> None:
    await Gatekeeper(gate, threads=threads or HostThreads()).ask(call(), context())


async def refusal(gate: Gate) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await ask(gate)
    return caught.value


def of(answer: Any) -> tuple[Gate, Gate, Gate]:
    """An async gate, a sync one, and a sync one that answers an awaitable, all of which answer ``answer``."""

    async def asynchronous(call: ToolCall, context: ToolContext) -> Any:
        await anyio.lowlevel.checkpoint()
        return answer

    return asynchronous, lambda call, context: answer, lambda call, context: asynchronous(call, context)


class Permissive(Allow):
    __slots__ = ()


async def test_the_default_gate_allows_everything() -> None:
    assert await allow_all(call(), context()) == Allow()
    assert Gatekeeper(allow_all, threads=HostThreads()).allows_all
    await ask(allow_all)


async def test_allow_opens_it() -> None:
    for gate in of(Allow()):
        await ask(gate)


@pytest.mark.parametrize("answer", [None, True, Allow, "allow", 1, Permissive(), Block, Block(7), Block(None)])  # type: ignore[arg-type]
async def test_anything_else_than_allow_or_block_is_gate_failed(answer: Any) -> None:
    for gate in of(answer):
        assert (await refusal(gate)).reason == "gate_failed"


async def test_block_says_why_in_one_inert_line() -> None:
    for gate in of(Block("payments are\nclosed \x1b[31m")):
        error = await refusal(gate)
        assert (error.reason, error.detail) == ("blocked", "payments are\\nclosed \\x1b[31m")


@pytest.mark.parametrize("error", [RuntimeError("password=hunter2"), TimeoutError(), SystemExit(), StopIteration()])
async def test_a_gate_that_raises_is_gate_failed_and_what_it_said_is_for_the_log_alone(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def asynchronous(call: ToolCall, context: ToolContext) -> Any:
        raise error

    def synchronous(call: ToolCall, context: ToolContext) -> Any:
        raise error

    for gate in (asynchronous, synchronous):
        caplog.clear()
        failed = await refusal(gate)
        assert failed.reason == "gate_failed"
        assert "hunter2" not in failed.detail
        assert type(error).__name__ in caplog.text or isinstance(error, StopIteration)


async def test_keyboard_interrupt_in_a_gate_leaves() -> None:
    async def asynchronous(call: ToolCall, context: ToolContext) -> Any:
        raise KeyboardInterrupt

    def synchronous(call: ToolCall, context: ToolContext) -> Any:
        raise KeyboardInterrupt

    for gate in (asynchronous, synchronous):
        with pytest.raises(KeyboardInterrupt):
            await ask(gate)


async def test_a_sync_gate_that_blocks_blocks_nothing_else() -> None:
    opened = threading.Event()

    def blocks(call: ToolCall, context: ToolContext) -> Allow:
        assert opened.wait(30)
        return Allow()

    async with anyio.create_task_group() as group:
        group.start_soon(functools.partial(ask, blocks))
        await anyio.wait_all_tasks_blocked()
        opened.set()  # reached only because the event loop went on


async def test_a_caller_that_goes_away_leaves_its_gate_and_too_many_left_are_overloaded() -> None:
    threads, opened = HostThreads(max_abandoned=1), threading.Event()

    def blocks(call: ToolCall, context: ToolContext) -> Allow:
        opened.wait(30)
        return Allow()

    with anyio.move_on_after(0.01) as scope:
        await ask(blocks, threads=threads)
    assert scope.cancelled_caught
    with pytest.raises(ToolError) as caught:
        await ask(blocks, threads=threads)
    assert caught.value.reason == "overloaded"
    opened.set()
