"""Daemon threads of our own: values, exceptions, abandonment, and an interpreter that still ends."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import subprocess
import sys
import threading
import weakref

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.host_threads import Aside, HostThreads, HostThreadsStatistics, NoThread, on_behalf_of
from tests.helpers import until

pytestmark = pytest.mark.anyio

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


async def test_a_function_runs_in_another_daemon_thread() -> None:
    outcome = await HostThreads().run(lambda: threading.current_thread())
    assert outcome.value is not threading.current_thread()
    assert outcome.value.daemon


async def test_what_it_raises_is_kept_and_not_raised() -> None:
    def stop() -> None:
        raise StopIteration(3)

    outcome = await HostThreads().run(stop)
    assert isinstance(outcome.error, StopIteration)
    assert isinstance((await HostThreads().run(sys.exit)).error, SystemExit)


async def test_it_sees_the_callers_context_variables_and_changes_none() -> None:
    def change() -> str:
        before = VARIABLE.get()
        VARIABLE.set("changed")
        return before

    VARIABLE.set("mine")
    assert (await HostThreads().run(change)).value == "mine"
    assert VARIABLE.get() == "mine"


async def test_it_may_run_an_event_loop_of_its_own() -> None:
    async def inside() -> str:
        await anyio.lowlevel.checkpoint()
        return "ran"

    assert (await HostThreads().run(anyio.run, inside)).value == "ran"


async def test_a_thread_is_used_again() -> None:
    threads = HostThreads()
    first = (await threads.run(threading.get_ident)).value
    for _ in range(20):
        await until(lambda: threads.statistics().idle == 1)
        assert (await threads.run(threading.get_ident)).value == first


async def test_a_cancelled_caller_leaves_at_once_and_its_thread_is_counted_until_it_ends() -> None:
    threads = HostThreads()
    gate = threading.Event()
    with anyio.move_on_after(0.02) as scope:
        await threads.run(gate.wait, 30)
    assert scope.cancelled_caught
    assert threads.statistics() == HostThreadsStatistics(running=1, abandoned=1, abandoned_ever=1, idle=0)
    gate.set()
    await until(lambda: threads.statistics().abandoned == 0)
    assert (threads.statistics().running, threads.statistics().abandoned_ever) == (0, 1)


async def test_at_the_bound_of_abandoned_threads_no_further_one_starts_until_one_ends() -> None:
    threads = HostThreads(max_abandoned=2)
    gate = threading.Event()
    for _ in range(2):
        with anyio.move_on_after(0.01):
            await threads.run(gate.wait, 30)
    with pytest.raises(NoThread, match="2 calls before it"):
        await threads.run(int)
    gate.set()
    await until(lambda: threads.statistics().abandoned == 0)
    assert (await threads.run(int)).value == 0


async def test_one_guest_leaves_a_quarter_of_them_behind_at_most_and_others_go_on() -> None:
    threads, let_go = HostThreads(max_abandoned=8), threading.Event()

    async def abandon(*guests: str) -> None:
        with anyio.CancelScope() as scope, contextlib.ExitStack() as stack:
            for guest in guests:
                stack.enter_context(on_behalf_of(guest))
            async with anyio.create_task_group() as group:
                group.start_soon(threads.run, let_go.wait)
                await until(lambda: threads.statistics().running > threads.statistics().abandoned)
                scope.cancel()

    await abandon("evil", "whom it calls")
    await abandon("evil")
    with on_behalf_of("evil"), pytest.raises(NoThread, match="2 calls that the same guest asked for"):
        await threads.run(threading.get_ident)
    with on_behalf_of("another"):
        assert (await threads.run(threading.get_ident)).error is None
    assert (await threads.run(threading.get_ident)).error is None
    let_go.set()
    await until(lambda: threads.statistics().abandoned == 0)
    with on_behalf_of("evil"):
        assert (await threads.run(threading.get_ident)).error is None


async def test_a_system_that_starts_no_further_thread_is_no_fault_of_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = HostThreads()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NoThread):
            await threads.run(int)
    assert threads.statistics().running == 0
    assert (await threads.run(int)).value == 0


class Asks:
    """A function that may have something awaited, as a call does."""

    def __init__(self, aside: Aside) -> None:
        self.aside = aside

    def __call__(self) -> None:
        raise AssertionError("there is no thread for it")


@pytest.mark.parametrize("none_starts", [False, True])
async def test_what_finds_no_thread_is_let_go_without_the_collector(
    none_starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    if none_starts:
        monkeypatch.setattr(threading.Thread, "start", refuse)
    aside = Aside()
    asks = Asks(aside)
    let_go = weakref.ref(asks)
    gc.disable()
    try:
        with contextlib.suppress(NoThread):
            await HostThreads(max_abandoned=16 if none_starts else 0).run(asks, aside=aside)
        del asks, aside
        assert let_go() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_abandoned_thread_does_not_keep_the_interpreter_from_ending(backend: str) -> None:
    program = f"""
import anyio, time
from rho_wasm.host_threads import HostThreads
async def main():
    with anyio.move_on_after(0.05):
        await HostThreads().run(time.sleep, 600)
    print("left")
anyio.run(main, backend={backend!r})
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")
