"""Events, and subscribers that raise."""

from __future__ import annotations

import logging
from dataclasses import FrozenInstanceError, is_dataclass
from typing import Any, get_args

import pytest

from rho_wasm import events
from rho_wasm.calls import ToolCall
from rho_wasm.events import Event, SourceFailed, ToolFinished, ToolRunning, emit
from rho_wasm.results import ToolResult

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


def test_what_must_end_the_process_is_not_swallowed() -> None:
    def subscriber(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        emit(subscriber, ToolRunning(call=CALL, tool="t"))


def test_a_finished_call_carries_its_details() -> None:
    result = ToolResult(call_id="1", tool="t", status="ok", kind="ok", details={"a": 1})
    assert ToolFinished(call=CALL, tool="t", result=result).details == {"a": 1}
