"""Turns: few at once, and none that outlives whoever had it, wherever an exception came in."""

from __future__ import annotations

import _thread
import gc
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from itertools import repeat, starmap
from types import FrameType, ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.sandbox import NativeCache, Sandbox, interpreters, loader, turns
from rho_wasm.sandbox.turns import Turns
from tests.sandbox.guests import answering
from tests.sandbox.toy_engine import find, raw_image

pytestmark = pytest.mark.anyio

SOON_S = 60


class Raised(BaseException):
    """What a handler of a signal raises."""


@contextmanager
def raising_at(number: int) -> Iterator[list[int]]:
    """Raises at the ``number``-th instruction of turns.py that this thread comes to. Yields the lines that it met."""
    met: list[int] = []

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            met.append(frame.f_lineno)
            if len(met) == number:
                raise Raised
        return local

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != turns.__file__:
            return None
        frame.f_trace_opcodes = True
        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield met
    finally:
        sys.settrace(before)


@contextmanager
def signal_raising_at(number: int, *modules: ModuleType) -> Iterator[list[int]]:
    """The same with a signal, whose handler is asked wherever Python looks for signals in ``modules``."""
    files = {module.__file__ for module in modules}
    met: list[int] = []
    armed = True
    trip: Iterator[None] = starmap(_thread.interrupt_main, repeat((signal.SIGUSR1,)))

    def handler(_: int, frame: FrameType | None) -> None:
        nonlocal armed
        if not armed:
            return
        if frame is not None and frame.f_code.co_filename in files:
            met.append(frame.f_lineno)
            if len(met) == number:
                armed = False
                raise Raised
        for _none in trip:  # A step trips the signal; unlike a call, it does so without a look at signals afterwards.
            return

    before = signal.signal(signal.SIGUSR1, handler)
    wakeup = signal.set_wakeup_fd(-1)  # Of the event loop, which would read what is written there as fast as it comes.
    gc.disable()  # It runs destructors of others.
    try:
        _thread.interrupt_main(signal.SIGUSR1)
        yield met
    finally:
        armed = False
        gc.enable()
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGUSR1, before)


async def nothing() -> int:
    await anyio.lowlevel.checkpoint()
    return 1


@pytest.mark.parametrize("most", [1, 2])
async def test_no_more_than_were_said_go_on_at_once(most: int) -> None:
    several, now, seen = Turns(), 0, []

    async def work() -> None:
        nonlocal now
        now += 1
        seen.append(now)
        await anyio.lowlevel.checkpoint()
        now -= 1

    async def take() -> None:
        await several.run("key", work, most=most)

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(take)
    assert len(seen) == 6
    assert max(seen) == most


async def test_turns_of_different_keys_do_not_wait_for_each_other() -> None:
    several = Turns()

    async def within() -> int:
        return await several.run("other", nothing)

    with anyio.fail_after(SOON_S):
        assert await several.run("key", within) == 1


async def test_a_turn_lasts_while_another_is_taken_within_it() -> None:
    several, began, order = Turns(), anyio.Event(), []

    async def first() -> None:
        began.set()
        await several.run("other", nothing)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        order.append("first")

    async def second() -> None:
        order.append("second")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(several.run, "key", first)
        await began.wait()
        await several.run("key", second)
    assert order == ["first", "second"]


async def test_a_turn_that_fails_or_is_cancelled_is_over() -> None:
    several = Turns()

    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await several.run("key", fails)
    with anyio.move_on_after(0.01):
        await several.run("key", anyio.sleep_forever)
    with anyio.fail_after(SOON_S):
        assert await several.run("key", nothing) == 1


async def test_whatever_is_raised_anywhere_no_turn_is_left_behind() -> None:
    several, number, kept = Turns(), 0, []
    made: list[Coroutine[Any, Any, int]] = []

    def work() -> Coroutine[Any, Any, int]:
        made.append(nothing())
        return made[-1]

    while True:
        number += 1
        with raising_at(number) as met:
            try:
                await several.run("key", work)
            except Raised as raised:
                kept.append(raised)  # With all frames that it passed.
        if len(met) < number:
            break
        with anyio.fail_after(SOON_S):
            assert await several.run("key", nothing) == 1
    assert len(kept) > 50
    for coroutine in made:
        coroutine.close()  # Python warns of those that never began.


async def test_a_module_can_be_loaded_again_wherever_an_exception_ended_the_load_before(
    anyio_backend: str, shared_cache: NativeCache
) -> None:
    for wasm in (answering({"ok": 1}), raw_image()):
        number = raised = 0
        while True:
            number += 1
            async with Sandbox(cache=shared_cache, way="public", engines=find) as sandbox:
                with signal_raising_at(number, turns, loader, interpreters) as met:
                    try:
                        (await sandbox.load(wasm)).close()
                    except Raised:
                        raised += 1
                with anyio.fail_after(SOON_S):
                    (await sandbox.load(wasm)).close()
            if len(met) < number:
                break
        assert raised > 20
