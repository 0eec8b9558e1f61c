"""Whoever closes a sandbox waits for all that goes on in it, and for nothing else."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import anyio

from rho_wasm import plain
from rho_wasm.host_threads import HostThreads
from rho_wasm.limits import Limits
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.sandbox.errands import Errands
from rho_wasm.sandbox.ways import Way
from tests.sandbox.guests import Waiting, called, data, guest

SOON = 60
ASK = plain.encode({"arguments": {}, "capability": "clock"})
SPIN_ONCE_ASKED = guest(
    f"(drop (call $host_call (i32.const 0) (i32.const {len(ASK)}))) (loop $l (br $l)) unreachable",
    extra=data(0, ASK),
    capabilities=("clock",),
)


class Errand:
    """Remembers what becomes of it."""

    def __init__(self) -> None:
        self.became: list[str] = []

    def in_thread(self) -> None:
        self.became.append("done")

    def cancel(self) -> None:
        self.became.append("cancelled")

    def close(self) -> None:
        self.became.append("closed")


async def test_what_is_given_up_before_its_thread_comes_to_it_is_waited_for_no_longer() -> None:
    threads, errand, stopped = HostThreads(), Errand(), anyio.Event()
    threads._idle.append(SimpleQueue())  # A thread that never comes to it.
    errands = Errands(threads, most=1)
    given_up = anyio.CancelScope()

    async def run() -> None:
        with given_up:
            await errands.run(errand)

    async def stop() -> None:
        await errands.stop()
        stopped.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(stop)
        await anyio.wait_all_tasks_blocked()
        given_up.cancel()
        with anyio.fail_after(SOON):
            await stopped.wait()
    assert errand.became == ["cancelled", "closed"]


async def test_closing_stops_a_call_that_goes_on_in_a_thread_while_another_is_waited_for(
    anyio_backend: str, shared_cache: NativeCache, way: Way
) -> None:
    inside, closing, go_on = [anyio.Event(), anyio.Event()], anyio.Event(), anyio.Event()
    ends: list[str | None] = []

    async def stubborn(capability: str, arguments: dict[str, Any]) -> Any:
        inside[0].set()
        with anyio.CancelScope(shield=True):
            await go_on.wait()

    async def answered(capability: str, arguments: dict[str, Any]) -> Any:
        inside[1].set()
        await closing.wait()

    async def call(answer: Any) -> None:
        limits = Limits(fuel=10**15, deadline_ms=60_000)
        ended = await called(sandbox, SPIN_ONCE_ASKED, limits=limits, capabilities=Waiting(answer))
        ends.append(ended.reason)

    sandbox = Sandbox(cache=shared_cache, way=way)
    with anyio.fail_after(SOON), await sandbox.load(SPIN_ONCE_ASKED):
        async with anyio.create_task_group() as tasks:
            for each, answer in zip(inside, (stubborn, answered), strict=True):
                tasks.start_soon(call, answer)
                await each.wait()
            tasks.start_soon(sandbox.aclose)
            await anyio.wait_all_tasks_blocked()
            closing.set()
            await anyio.wait_all_tasks_blocked()
            go_on.set()
    assert ends == ["cancelled"] * 2
    assert not sandbox._runtime.calls
