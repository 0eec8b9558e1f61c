"""A guest made with rho.h in the real sandbox: its answers, its crashes and its log reach the host as they should."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import ToolError
from rho_wasm.limits import Limits
from rho_wasm.results import AskUser, Failed, Halt, HandlerResult, Ok
from rho_wasm.sandbox import GuestModule, Sandbox
from tests.guest_sdk.test_rho_h import VALUES, same

pytestmark = pytest.mark.anyio


class Guest:
    """One guest in a sandbox of its own. ``meter`` is that of the latest call."""

    def __init__(self, sandbox: Sandbox, module: GuestModule) -> None:
        self._sandbox = sandbox
        self._module = module
        self.meter = CallMeter(CallClock(5_000))

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> HandlerResult:
        self.meter = CallMeter(CallClock(5_000))
        return await self._sandbox.call(
            self._module, tool=tool, arguments=arguments, context={}, limits=Limits(), meter=self.meter
        )

    async def fault(self, tool: str, arguments: Mapping[str, Any]) -> ToolError:
        with pytest.raises(ToolError) as caught:
            await self.call(tool, arguments)
        return caught.value


@pytest.fixture
async def guest(sandbox: Sandbox, values_artifact: Artifact) -> AsyncIterator[Guest]:
    with await sandbox.load(values_artifact.wasm) as module:
        yield Guest(sandbox, module)


async def test_plain_values_come_back_as_they_went(guest: Guest) -> None:
    for value in VALUES.values():
        answer = await guest.call("echo", {"value": value})
        assert isinstance(answer, Ok)
        assert same(answer.value, {"value": value})


async def test_every_answer_becomes_its_result(guest: Guest) -> None:
    assert await guest.call("answers", {"shape": "ok"}) == Ok("fine", details={"key": "value"})
    assert await guest.call("answers", {"shape": "failed"}) == Failed("not today", details={"key": "value"})
    assert await guest.call("answers", {"shape": "halt"}) == Halt("done", {"key": "value"})
    asked = await guest.call("answers", {"shape": "ask"})
    assert isinstance(asked, AskUser)
    assert (asked.question, dict(asked.options)) == ("which one?", {"key": "value"})
    pictured = await guest.call("answers", {"shape": "images"})
    assert isinstance(pictured, Ok)
    assert [image.mime_type for image in pictured.images] == ["image/gif", "image/gif"]
    assert (await guest.fault("answers", {"shape": "raised"})).reason == "handler_raised"


async def test_a_misuse_is_a_trap_whose_backtrace_and_log_say_what_and_where(guest: Guest) -> None:
    fault = await guest.fault("misuse", {"how": "no_key"})
    assert fault.reason == "trapped"
    assert any("misuse" in line for line in guest.meter.backtrace)
    assert [(line.level, line.text) for line in guest.meter.log] == [(40, "a value in a map wants a key first")]


async def test_no_memory_left_is_told_from_a_trap(guest: Guest) -> None:
    assert (await guest.fault("allocate", {"count": 2**30})).reason == "out_of_memory"


async def test_a_request_near_its_bound_is_taken(guest: Guest) -> None:
    text = "x" * 1_000_000
    assert await guest.call("echo", {"value": text}) == Ok({"value": text})


async def test_a_capability_that_nobody_granted_is_refused(sandbox: Sandbox, asking_artifact: Artifact) -> None:
    with await sandbox.load(asking_artifact.wasm) as module:
        answer = await Guest(sandbox, module).call("asks_host", {"url": "x"})
    assert isinstance(answer, Ok)
    assert answer.value["granted"] is False
    assert set(answer.value["reply"]) == {"kind", "message"}
