"""The capabilities of one call: what was granted answers, everything else looks alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities import Capability, CapabilityContext, capability
from rho_wasm.capabilities.clock import clock_capabilities
from rho_wasm.capabilities.granted import Granted, GrantedCapabilities
from rho_wasm.capabilities.random import random_capabilities
from rho_wasm.errors import CapabilityError
from rho_wasm.limits import Limits
from rho_wasm.results import CallLog, LogLine

pytestmark = pytest.mark.anyio


def granted(capabilities: Iterable[Capability], *, limits: Limits | None = None) -> GrantedCapabilities:
    return GrantedCapabilities(
        {each.name: Granted(each, each.bounds()) for each in capabilities},
        tool="t",
        artifact="0" * 64,
        generation=3,
        context=ToolContext(call=ToolCall("1", "t"), session_id="s", request_id="r"),
        limits=limits or Limits(),
        clock_ns=lambda: 7,
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
