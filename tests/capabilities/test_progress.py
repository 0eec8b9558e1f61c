from __future__ import annotations

import threading
from typing import Any

import pytest

from rho_wasm.capabilities import Capability
from rho_wasm.capabilities.progress import progress_capabilities
from rho_wasm.errors import CapabilityError
from rho_wasm.events import ToolProgress
from tests.capabilities.asking import Asking


class Watching:
    """Who watches progress, with a clock that stands still."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.threads: set[int] = set()
        self.milliseconds = 0

    def capabilities(self) -> tuple[Capability, ...]:
        return progress_capabilities(self.hear, monotonic_ns=lambda: self.milliseconds * 1_000_000)

    def hear(self, event: Any) -> None:
        self.told.append(event)
        self.threads.add(threading.get_ident())

    def done(self) -> list[float]:
        return [event.done for event in self.told]


async def test_a_report_is_an_event_of_the_call_in_the_event_loops_thread() -> None:
    watching = Watching()
    call = Asking(watching.capabilities(), tool="copy")
    assert await call.later("progress.report", done=3, total=10.5, text="pages") is None
    assert watching.told == [
        ToolProgress(call=call.call, tool="copy", done=3.0, total=10.5, text="pages", session_id="s")
    ]
    assert watching.threads == {threading.get_ident()}


@pytest.mark.parametrize("total", [None, 0, 0.0])
async def test_a_total_may_be_unknown(total: float | None) -> None:
    watching = Watching()
    await Asking(watching.capabilities()).later("progress.report", done=3, total=total)
    await Asking(watching.capabilities()).later("progress.report", done=3)
    assert [event.total for event in watching.told] == [None, None]


async def test_text_reaches_a_terminal_as_text_and_is_bounded() -> None:
    watching = Watching()
    call = Asking(watching.capabilities())
    await call.later("progress.report", done=0, text="\x1b[2J\n\u202e")
    await call.later("progress.report", done=0, text="x" * 100_000)
    assert watching.told[0].text == "\\x1b[2J\\n\\u202e"
    assert len(watching.told[1].text) <= 500


async def test_a_guest_that_reports_in_a_loop_is_told_of_at_a_steady_rate() -> None:
    watching = Watching()
    call = Asking(watching.capabilities())
    for number in range(1_000):
        await call.later("progress.report", done=number)
    assert watching.done() == list(range(20))
    for second in range(1, 4):
        watching.milliseconds = second * 1_000
        for number in range(100):
            await call.later("progress.report", done=second * 1_000 + number)
        assert len(watching.told) == 20 + 10 * second
    watching.milliseconds = 60_000  # what was not spent is not saved up beyond the burst
    for number in range(100):
        await call.later("progress.report", done=number)
    assert len(watching.told) == 50 + 20


async def test_that_all_is_done_is_told_once_however_much_was_told_before() -> None:
    watching = Watching()
    call = Asking(watching.capabilities())
    for number in range(1, 101):
        await call.later("progress.report", done=number, total=100)
    for _ in range(50):
        await call.later("progress.report", done=100, total=100)
    assert watching.done() == [*range(1, 21), 100]


async def test_each_call_has_its_own_rate() -> None:
    watching = Watching()
    for _ in range(2):
        call = Asking(watching.capabilities())
        for number in range(30):
            await call.later("progress.report", done=number)
    assert len(watching.told) == 40


async def test_a_subscriber_that_raises_costs_the_guest_nothing() -> None:
    def hear(event: Any) -> None:
        raise RuntimeError("a screen is gone")

    assert await Asking(progress_capabilities(hear)).later("progress.report", done=1) is None


async def test_nobody_has_to_watch() -> None:
    assert await Asking(progress_capabilities(None)).later("progress.report", done=1) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"done": -1},
        {"done": "1"},
        {"done": float("nan")},
        {"done": 1, "total": float("inf")},
        {"done": 1, "more": 1},
    ],
)
async def test_what_is_no_number_is_no_report(arguments: dict[str, Any]) -> None:
    watching = Watching()
    with pytest.raises(CapabilityError) as caught:
        await Asking(watching.capabilities()).later("progress.report", **arguments)
    assert caught.value.kind == "invalid_arguments"
    assert not watching.told
