"""The capabilities of one call: what was granted answers, everything else looks alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities import Capability, CapabilityContext, capability
from rho_wasm.capabilities.clock import clock_capabilities
from rho_wasm.capabilities.granted import Granted, GrantedCapabilities, TellFailure
from rho_wasm.capabilities.random import random_capabilities
from rho_wasm.errors import CapabilityError
from rho_wasm.events import CapabilityFailed
from rho_wasm.limits import Limits
from rho_wasm.results import CallLog, LogLine

pytestmark = pytest.mark.anyio


def granted(
    capabilities: Iterable[Capability], *, limits: Limits | None = None, failed: TellFailure | None = None
) -> GrantedCapabilities:
    return GrantedCapabilities(
        {each.name: Granted(each, each.bounds()) for each in capabilities},
        tool="t",
        artifact="0" * 64,
        generation=3,
        context=ToolContext(call=ToolCall("1", "t"), session_id="s", request_id="r"),
        limits=limits or Limits(),
        clock_ns=lambda: 7,
        failed=failed,
    )


@capability("host.echo", quick=True)
def echo(value: Any, context: CapabilityContext) -> Any:
    return value


@capability("host.context", quick=True)
def told(context: CapabilityContext) -> list[Any]:
    context.used["n"] = context.used.get("n", 0) + 1
    return [
        context.capability,
        context.tool,
        context.artifact,
        context.generation,
        context.session_id,
        context.request_id,
        context.remaining_ms,
        context.used["n"],
    ]


@capability("host.log", quick=True)
def log(level: int, text: str, context: CapabilityContext) -> None:
    context.log(level, text)


async def test_what_is_not_granted_and_what_is_not_there_are_denied_alike() -> None:
    call = granted([echo])
    said = set()
    for name in ("kv.get", "no.such", "", "host.echo ", "HOST.ECHO", "__class__"):
        with pytest.raises(CapabilityError) as caught:
            call.answer_now(name, {}, remaining_ms=1.0)
        with pytest.raises(CapabilityError):
            await call.answer(name, {}, remaining_ms=1.0)
        said.add((caught.value.kind, caught.value.message.removeprefix(name)))
    assert said == {("denied", " is not granted")}


async def test_a_capability_is_told_of_the_call_and_counts_for_all_of_it() -> None:
    call = granted([told])
    first = call.answer_now("host.context", {}, remaining_ms=12.5)
    assert first == ["host.context", "t", "0" * 64, 3, "s", "r", 12.5, 1]
    assert (await call.answer("host.context", {}, remaining_ms=1.0))[-1] == 2


def test_time_and_chance_are_real_only_where_they_are_granted() -> None:
    none = granted([echo])
    assert (none.clock_ns, none.seed) == (None, None)
    both = granted([*clock_capabilities(), *random_capabilities()])
    assert both.clock_ns == 7
    assert both.seed is not None
    assert len(both.seed) == 32
    assert both.seed != granted(random_capabilities()).seed


def test_an_answer_that_is_too_large_is_a_quota_and_one_that_is_not_plain_a_fault() -> None:
    @capability("host.odd", quick=True)
    def odd(deep: bool) -> Any:
        answer: list[Any] = []
        answer.append(answer if not deep else [[[]]])
        return answer

    call = granted([odd], limits=Limits(depth=2))
    with pytest.raises(CapabilityError) as caught:
        call.answer_now("host.odd", {"deep": True}, remaining_ms=1.0)
    assert caught.value.kind == "quota"
    with pytest.raises(RuntimeError, match="cannot be made plain"):
        call.answer_now("host.odd", {"deep": False}, remaining_ms=1.0)


@pytest.mark.parametrize(
    "value", [object(), {"nested": [object()]}, len, int], ids=["object", "nested", "function", "type"]
)
def test_what_has_nothing_to_read_but_a_name_is_no_answer(value: Any) -> None:
    @capability("host.opaque", quick=True)
    def opaque() -> Any:
        return value

    with pytest.raises(RuntimeError, match="cannot be made plain"):
        granted([opaque]).answer_now("host.opaque", {}, remaining_ms=1.0)


async def test_a_capability_that_fails_is_told_of_and_logged_in_inert_words(caplog: pytest.LogCaptureFixture) -> None:
    @capability("host.fails", quick=True)
    def fails() -> None:
        raise ValueError("no \x1b[31m such\nline") from OSError(5, "gone")

    told: list[tuple[CapabilityFailed, bool]] = []
    call = granted([fails], failed=lambda event, in_loop: told.append((event, in_loop)))
    with pytest.raises(ValueError, match="such"), caplog.at_level("ERROR", logger="rho_wasm"):
        call.answer_now("host.fails", {}, remaining_ms=1.0)
    with pytest.raises(ValueError, match="such"):
        await call.answer("host.fails", {}, remaining_ms=1.0)
    (event, in_loop), (_, later_in_loop) = told
    assert (in_loop, later_in_loop) == (False, True)
    assert event == CapabilityFailed(
        call=ToolCall("1", "t"),
        tool="t",
        capability="host.fails",
        error=r"ValueError: no \x1b[31m such\nline, because of OSError: 5, gone",
        session_id="s",
    )
    first, innermost, *_ = caplog.messages[0].splitlines()
    assert first == f"the capability host.fails failed in a call of t: {event.error}"
    assert innermost.startswith("  in fails (test_granted.py:")


def test_a_guest_that_asks_again_and_again_for_what_fails_fills_no_log() -> None:
    @capability("host.fails", quick=True)
    def fails() -> None:
        raise KeyError

    told: list[CapabilityFailed] = []
    call = granted([fails], failed=lambda event, in_loop: told.append(event))
    for _ in range(20):
        with pytest.raises(KeyError):
            call.answer_now("host.fails", {}, remaining_ms=1.0)
    assert len(told) == 8


@pytest.mark.parametrize(("fault", "events"), [(False, 0), (True, 1)])
def test_a_no_is_told_to_the_host_only_where_it_is_the_hosts_own_fault(fault: bool, events: int) -> None:
    @capability("host.away", quick=True)
    def away() -> None:
        raise CapabilityError("unavailable", "away", fault=fault)

    told: list[CapabilityFailed] = []
    call = granted([away], failed=lambda event, in_loop: told.append(event))
    with pytest.raises(CapabilityError):
        call.answer_now("host.away", {}, remaining_ms=1.0)
    assert len(told) == events


def test_lines_of_capabilities_stand_after_the_guests_and_are_inert() -> None:
    call = granted([log])
    guests = CallLog(lines=(LogLine(10, "mine"),))
    assert call.finish(guests) is guests
    call.answer_now("host.log", {"level": 33, "text": "red \x1b[31m"}, remaining_ms=1.0)
    assert call.finish(guests).lines == (LogLine(10, "mine"), LogLine(30, r"red \x1b[31m"))


def test_all_lines_together_stay_within_the_bytes_of_a_log() -> None:
    call = granted([log], limits=Limits(log_bytes=20))
    for text in ("x" * 1_000_000, "y" * 12):
        call.answer_now("host.log", {"level": 20, "text": text}, remaining_ms=1.0)
    full = call.finish(CallLog(lines=(LogLine(20, "g" * 15),), dropped_bytes=1))
    assert [line.text for line in full.lines] == ["g" * 15]
    assert full.dropped_bytes == 1_000_000 + 12 + 1
