"""Events, and subscribers that raise."""

from __future__ import annotations

import logging
from dataclasses import FrozenInstanceError, is_dataclass
from functools import partial
from typing import Any, get_args

import pytest

from rho_wasm import events
from rho_wasm.calls import ToolCall
from rho_wasm.dynamic.teller import Teller
from rho_wasm.events import Event, SourceFailed, ToolFinished, ToolRunning, emit, subscriber
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.sources import PrefixedSource, RefreshingSource
from rho_wasm.testing import FakeSource
from rho_wasm.tools import Tool

CALL = ToolCall("1", "t")


def test_every_event_is_public_frozen_data() -> None:
    for kind in get_args(Event):
        assert kind.__name__ in events.__all__
        assert is_dataclass(kind)
    running = ToolRunning(call=CALL, tool="t")
    with pytest.raises(FrozenInstanceError):
        running.tool = "u"  # type: ignore[misc]


def test_a_subscriber_is_told() -> None:
    told: list[Any] = []
    event = SourceFailed(source="s", operation="list", error="e")
    emit(told.append, event)
    assert told == [event]


def test_without_a_subscriber_nothing_happens() -> None:
    emit(None, ToolRunning(call=CALL, tool="t"))


def test_a_subscriber_that_raises_costs_nothing_but_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Sly(Exception):
        def __str__(self) -> str:
            raise AssertionError("foreign code ran")

    def subscriber(event: Event) -> None:
        raise Sly

    with caplog.at_level(logging.ERROR, logger="rho_wasm"):
        emit(subscriber, ToolRunning(call=CALL, tool="t"))
    assert caplog.messages == ["on_event raised Sly for ToolRunning"]


async def fetch() -> list[Tool]:
    return []


class Awaited:
    async def __call__(self, event: Event) -> None:
        raise AssertionError("nobody awaits it")


@pytest.mark.parametrize(
    "make",
    [
        lambda hear: ToolRegistry([], on_event=hear),
        lambda hear: ToolRunner(ToolRegistry([]), on_event=hear),
        lambda hear: RefreshingSource(fetch, on_event=hear),
        lambda hear: PrefixedSource(FakeSource(), "p_", on_event=hear),
        Teller,
        subscriber,
    ],
)
def test_whatever_tells_refuses_an_async_subscriber(make: Any) -> None:
    for hear in (Awaited(), Awaited().__call__, partial(Awaited())):
        with pytest.raises(TypeError, match="on_event is called where nothing waits"):
            make(hear)


def test_a_coroutine_that_a_subscriber_answers_all_the_same_is_closed_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, logger="rho_wasm"):
        emit(lambda event: Awaited()(event), ToolRunning(call=CALL, tool="t"))
    assert caplog.messages == ["on_event answered a coroutine for ToolRunning, which nobody awaits"]


def test_what_must_end_the_process_is_not_swallowed() -> None:
    def subscriber(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        emit(subscriber, ToolRunning(call=CALL, tool="t"))


def test_a_finished_call_carries_its_details() -> None:
    result = ToolResult(call_id="1", tool="t", status="ok", kind="ok", details={"a": 1})
    assert ToolFinished(call=CALL, tool="t", result=result).details == {"a": 1}
