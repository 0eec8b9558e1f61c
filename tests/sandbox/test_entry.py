"""What a function that is sure to be entered does while a handler of a signal waits to raise."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import operator
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from rho_wasm.sandbox.capi import Trampolines
from rho_wasm.sandbox.entry import enters_surely, sure_entry, traced

KNOWN = pytest.mark.skipif(not Trampolines.cannot_be_interrupted(), reason="this Python is not one that is known")


class Raised(BaseException):
    pass


@pytest.fixture
def raising() -> Iterator[None]:
    def handler(number: int, frame: FrameType | None) -> None:
        raise Raised

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


class Seen:
    """Remembers which of its methods began."""

    began = False

    def plain(self) -> None:
        self.began = True

    @sure_entry
    def sure(self) -> None:
        self.began = True

    @sure_entry
    async def coroutine(self) -> None:
        self.began = True


def entered(function: Callable[[], Any]) -> None:
    """Calls it from C, with the signal tripped just before: Python has not looked since."""
    both: tuple[Callable[[], Any], ...] = (partial(_thread.interrupt_main, signal.SIGUSR1), function)
    call: Callable[[Callable[[], Any]], Any] = operator.call
    with contextlib.suppress(Raised):
        tuple(map(call, both))
        raise AssertionError("nothing was raised")


@KNOWN
@pytest.mark.usefixtures("raising")
def test_a_sure_function_begins_where_a_plain_one_is_interrupted_before() -> None:
    plain, sure = Seen(), Seen()
    entered(plain.plain)
    entered(sure.sure)
    assert (plain.began, sure.began) == (False, True)


@KNOWN
@pytest.mark.usefixtures("raising")
def test_a_sure_coroutine_begins_too() -> None:
    seen = Seen()
    coroutine = seen.coroutine()
    with contextlib.suppress(StopIteration):
        entered(partial(coroutine.send, None))
    assert seen.began


@KNOWN
def test_it_is_seen_whether_a_function_is_sure() -> None:
    assert enters_surely(Seen.sure)
    assert enters_surely(Seen.coroutine)
    assert not enters_surely(Seen.plain)
    assert asyncio.iscoroutinefunction(Seen.coroutine)


def test_on_a_python_that_is_not_known_functions_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))

    def function() -> int:
        return 1

    before = function.__code__
    assert sure_entry(function)() == 1
    assert function.__code__ is before
    assert not enters_surely(function)


def test_a_closure_stays_as_it_is() -> None:
    there = 1

    def closure() -> int:
        return there

    assert sure_entry(closure)() == 1
    assert not enters_surely(closure)


def test_a_tracer_and_a_profiler_are_noticed() -> None:
    before = sys.gettrace(), sys.getprofile()
    try:
        sys.settrace(None)
        sys.setprofile(None)
        calm = traced()
        sys.settrace(lambda *event: None)
        with_tracer = traced()
        sys.settrace(None)
        sys.setprofile(lambda *event: None)
        with_profiler = traced()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    assert (calm, with_tracer, with_profiler) == (False, True, True)
