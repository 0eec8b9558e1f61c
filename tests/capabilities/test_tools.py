"""A tool that calls another: through every gate that a model's call goes through, and no further than its grant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities.granted import Granted, GrantedCapabilities
from rho_wasm.capabilities.tools import tool_capabilities
from rho_wasm.errors import CapabilityError
from rho_wasm.events import StrikeCounted, ToolFinished, ToolRunning
from rho_wasm.gates import Allow, Block
from rho_wasm.grants import ToolCallBounds
from rho_wasm.host import Host
from rho_wasm.limits import HostLimits, Limits
from rho_wasm.names import WORKSHOP
from rho_wasm.policy import Policy
from rho_wasm.results import AskUser, Failed, Halt, Image, Ok
from rho_wasm.sandbox.ways import Way, why_not_native
from rho_wasm.tools import Tool
from tests.capabilities.relay import SPIN, TRAP, calling, relay
from tests.helpers import PNG, Events, Waiting, answering, call, context, echo, make, raising, runner_of

SOON = 60
"""Seconds: a bound for what must not hang."""
RELAYS = ("a", "b", "c", "d", "e", "f")

PAIRS = (("a", calling("b", calling("echo"))), ("b", calling("a", calling("echo"))))


@asynccontextmanager
async def opened(*core: Tool, tools: tuple[str, ...] = ("*",), **options: Any) -> AsyncIterator[Host]:
    """A host of relays that may call ``tools``."""
    policy = Policy.model_validate({"tools": {"*": {"grants": {"tool.call": {"tools": list(tools)}}}}})
    async with Host.open(":memory:", core=core, policy=policy, **options) as host:
        await host.source.activate(await host.source.stage(add=[relay(*RELAYS)], author="test"))
        with anyio.fail_after(SOON):
            yield host


async def reply(host: Host, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """What ``a`` is answered when it calls ``name``."""
    return (await host.runner.run(call("a", calling(name, arguments)), **options)).value


async def refusal(host: Host, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
    """The kind of error that ``a`` is answered when it calls ``name``."""
    result = await host.runner.run(call("a", calling(name, arguments)), **options)
    assert result.reason == "failed", result
    kind: str = result.value["kind"]
    return kind


@pytest.fixture
def anyio_backend(slow_on_trio: str) -> str:
    """Each test opens a host or two."""
    return slow_on_trio


def innermost(value: Any) -> Any:
    """What stands inside replies inside replies."""
    while isinstance(value, dict) and value.keys() <= {"value", "error"} and value:
        (value,) = value.values()
    return value


def contexts() -> tuple[list[ToolContext], Tool]:
    """A tool that keeps the contexts it is told."""
    told: list[ToolContext] = []

    async def handler(arguments: Any, context: ToolContext) -> Ok:
        told.append(context)
        return Ok(None)

    return told, make(handler, name="told")


@pytest.mark.parametrize("way", ["native", "public"])
async def test_a_tool_calls_another_and_reads_its_value(way: Way) -> None:
    if way == "native" and (reason := why_not_native()) is not None:
        pytest.skip(reason)
    async with opened(echo(), way=way) as host:
        assert await reply(host, "echo", {"n": [1, b"\0"]}) == {"value": {"n": [1, b"\0"]}}
        assert await reply(host, "b", calling("echo", {"n": 1})) == {"value": {"value": {"n": 1}}}


async def test_a_failure_that_the_other_tool_reports_is_an_answer() -> None:
    async with opened(answering(Failed({"why": "no"}), name="no")) as host:
        assert await reply(host, "no") == {"error": {"why": "no"}}


async def test_the_other_tool_acts_for_the_same_session_and_request() -> None:
    told, tool = contexts()
    events, own, model = Events(), object(), object()
    async with opened(tool, on_event=events.append) as host:
        offered = host.registry.snapshot()
        ids = {"session_id": "s", "request_id": "r"}
        given: dict[str, Any] = {**ids, "context": own, "model": model, "values": {"v": 1}, "attempt": 2}
        await host.runner.run(call("a", calling("b", calling("told")), id="7"), tools=offered, **given)
    (heard,) = told
    assert {name: getattr(heard, name) for name in given} == given
    assert heard.tools is offered
    assert [caller.call.name for caller in heard.callers()] == ["b", "a"]
    assert heard.call.id == "7/1/1"
    assert [event.call.id for event in events.of(ToolRunning)] == ["7", "7/1", "7/1/1"]
    assert [event.call.id for event in events.of(ToolFinished)] == ["7/1/1", "7/1", "7"]


async def test_a_tool_calls_neither_itself_nor_one_that_waits_for_it() -> None:
    async with opened() as host:
        assert await refusal(host, "a", TRAP) == "denied"
        assert innermost(await reply(host, "b", calling("a", TRAP)))["kind"] == "denied"
        assert innermost(await reply(host, "b", calling("c", calling("b", TRAP))))["kind"] == "denied"


async def test_calls_nest_as_deeply_as_the_lowest_limit_in_the_chain_says() -> None:
    def chain(*names: str) -> dict[str, Any]:
        return calling(names[0], chain(*names[1:]) if len(names) > 1 else {"n": 1})

    async with opened(echo()) as host:
        assert innermost(await reply(host, "b", chain("c", "d", "echo"))) == {"n": 1}
        deep = innermost(await reply(host, "b", chain("c", "d", "e", "echo")))
        assert (deep["kind"], "host_call_depth=4" in deep["message"]) == ("denied", True)
    async with opened(echo(), limits=Limits(host_call_depth=1)) as host:
        assert await reply(host, "echo") == {"value": {}}
        assert innermost(await reply(host, "b", calling("echo")))["kind"] == "denied"
    async with opened(echo(), limits=Limits(host_call_depth=0)) as host:
        assert await refusal(host, "echo") == "denied"


async def test_only_tools_that_the_grant_names_are_called() -> None:
    async with opened(echo(), echo("db_read"), echo("db-write"), tools=("echo", "db_*")) as host:
        assert await reply(host, "db_read") == {"value": {}}
        for name in ("db-write", "b", "db", "a", "", "echo ", "Echo", "*", "db_*", "no\nsuch"):
            assert await refusal(host, name) == "denied"
        assert await refusal(host, "x" * 65) == "invalid_arguments"
    async with opened(echo(), tools=()) as host:
        assert await refusal(host, "echo") == "denied"


async def test_the_workshops_tools_are_never_called_and_the_hosts_own_only_by_their_very_name() -> None:
    never = (*WORKSHOP, "call_tool")
    core = [echo(name) for name in (*never, "todo", "read_artifact")]
    async with opened(*core, tools=("*", *never, "todo")) as host:
        for name in (*never, "read_artifact"):
            assert await refusal(host, name) == "denied"
        assert await reply(host, "todo") == {"value": {}}


async def asks(call: ToolCall, context: ToolContext) -> Allow | Block:
    if call.name == "broken":
        raise RuntimeError("a secret of the gate")
    return Block("closed today") if call.name == "blocked" else Allow()


async def test_what_a_person_or_a_gate_must_decide_is_denied() -> None:
    manual, ran = Waiting("manual", manual=True), echo("blocked")
    questions = answering(AskUser("which?"), name="question"), answering(Halt("enough", 1), name="halting")
    async with opened(manual.tool, ran, echo("broken"), *questions, gate=asks) as host:
        for name in ("manual", "blocked", "broken", "question", "halting", "nobody"):
            assert await refusal(host, name) == "denied"
        assert manual.runs == 0
        told = await reply(host, "blocked"), await reply(host, "broken")
    assert [each["message"] for each in told] == ["Blocked: closed today", "broken did not answer (gate_failed)"]


async def test_arguments_that_do_not_fit_are_told_as_a_model_is_told() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with opened(echo(input_schema=schema)) as host:
        assert (await reply(host, "echo", {"n": 1})) == {"value": {"n": 1}}
        told = await reply(host, "echo")
    assert told["kind"] == "invalid_arguments"
    assert "n: missing" in told["message"]


async def test_a_crash_is_the_other_tools_fault_and_says_nothing_of_the_host() -> None:
    events = Events()
    core = raising(RuntimeError("postgres://user:password@db"), name="broken")
    async with opened(core, on_event=events.append) as host:
        told = await reply(host, "broken")
        assert told == {"kind": "unavailable", "message": "broken did not answer (handler_raised)"}
        assert await refusal(host, "b", TRAP) == "unavailable"
    assert [(event.tool, event.reason) for event in events.of(StrikeCounted)] == [("b", "trapped")]


async def test_what_is_quarantined_or_finds_no_room_is_unavailable() -> None:
    async with opened(limits=HostLimits(max_concurrent_calls=2)) as host:
        offered = host.registry.snapshot()
        full = innermost(await reply(host, "b", calling("c", calling("echo"))))
        assert full == {"kind": "unavailable", "message": "c did not answer (overloaded)"}
        for _ in range(3):
            assert (await reply(host, "b", TRAP))["message"] == "b did not answer (trapped)"
        assert await reply(host, "b", TRAP, tools=offered) == {
            "kind": "unavailable",
            "message": "b did not answer (quarantined)",
        }
        assert await refusal(host, "b", TRAP) == "denied"


async def test_one_call_may_call_others_only_so_often_and_each_under_an_id_of_its_own() -> None:
    told, tool = contexts()
    (capability,) = tool_capabilities(runner_of(tool).run_for)
    granted = GrantedCapabilities(
        {"tool.call": Granted(capability, ToolCallBounds(tools=("told",), calls=2))},
        tool="a",
        artifact="",
        generation=1,
        context=context("a"),
        limits=Limits(),
    )
    for _ in range(2):
        await granted.answer("tool.call", {"name": "told"}, remaining_ms=1_000)
    with pytest.raises(CapabilityError, match="quota"):
        await granted.answer("tool.call", {"name": "told"}, remaining_ms=1_000)
    assert [each.call.id for each in told] == ["1/1", "1/2"]


async def test_pictures_are_left_out_with_a_line_in_the_log_and_details_without() -> None:
    answer = Ok("seen", images=(Image("image/png", PNG),), details={"secret": 1})
    async with opened(answering(answer, name="camera")) as host:
        result = await host.runner.run(call("a", calling("camera")))
    assert (result.value, result.images, result.details) == ({"value": "seen"}, (), None)
    assert [line.text for line in result.log] == ["images of camera left out: 1; tools pass on plain data alone"]


async def test_an_inherited_deadline_is_nobodys_strike() -> None:
    events = Events()
    async with opened(on_event=events.append, limits=Limits(fuel=10**15)) as host:
        result = await host.runner.run(call("a", calling("b", SPIN)), timeout_ms=100)
    assert result.reason in ("deadline", "failed")
    assert events.of(StrikeCounted) == []


async def test_cancelling_a_call_cancels_those_that_it_waits_for() -> None:
    waiting, events = Waiting(), Events()
    async with opened(waiting.tool, on_event=events.append) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.runner.run, call("a", calling("b", calling("waiting"))))
            await waiting.began.wait()
            tasks.cancel_scope.cancel()
        assert host.sandbox.statistics().running == 0
        ended = [(event.tool, event.result.reason) for event in events.of(ToolFinished)]
    assert ended == [("waiting", "cancelled"), ("b", "cancelled"), ("a", "cancelled")]
    assert events.of(StrikeCounted) == []


async def test_it_is_answered_from_what_the_model_was_shown() -> None:
    async with opened() as host:
        host.registry.register(answering(Ok("shown"), name="x"))
        offered = host.registry.snapshot()
        host.registry.register(answering(Ok("newer"), name="x"))
        assert await reply(host, "x", tools=offered) == {"value": "shown"}
        assert await reply(host, "x") == {"value": "newer"}
        host.registry.unregister("x")
        assert await refusal(host, "x", tools=offered) == "denied"


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits",
    [
        HostLimits(max_concurrent_calls=64, max_concurrent_per_tool=64, call=Limits(memory_bytes=2**20)),
        HostLimits(max_concurrent_calls=64, max_concurrent_per_tool=64, total_memory_bytes=2**20 * 64).model_copy(
            update={"call": Limits(memory_bytes=2**20)}
        ),
    ],
    ids=["slots", "memory"],
)
async def test_64_calls_that_all_wait_for_another_end_and_most_of_them_well(limits: HostLimits) -> None:
    callers, all_there = 0, anyio.Event()

    async def gate(call: ToolCall, context: ToolContext) -> Allow:
        nonlocal callers
        if context.caller is not None:
            callers += 1
            if callers == 64:
                all_there.set()
            await all_there.wait()
        return Allow()

    async with opened(echo(), limits=limits, gate=gate) as host:
        calls = [call("a", calling("b", calling("echo")), id=str(number)) for number in range(64)]
        results = await host.runner.run_many(calls)
        assert host.sandbox.statistics().running == 0
    refused = [result.value["kind"] for result in results if result.status == "error"]
    assert set(refused) == {"unavailable"}
    assert len(refused) < 32


async def test_two_tools_that_call_each_other_hold_no_slots_for_ever() -> None:
    limits = HostLimits(max_concurrent_per_tool=2, queue_ms=SOON * 1_000)
    async with opened(echo(), limits=limits) as host:
        calls = [call(*pair, id=str(n)) for n in range(4) for pair in PAIRS]
        results = await host.runner.run_many(calls)
    assert {result.value.get("kind") for result in results} <= {None, "unavailable"}
    assert any(result.ok for result in results)


@pytest.mark.slow
async def test_in_worker_processes_a_call_that_finds_no_worker_is_told_at_once() -> None:
    async with opened(echo(), workers=1) as host:
        assert await reply(host, "echo") == {"value": {}}
        assert (await reply(host, "b", TRAP))["message"] == "b did not answer (overloaded)"
    async with opened(echo(), workers=2) as host:
        assert await reply(host, "b", calling("echo")) == {"value": {"value": {}}}


@pytest.mark.anyio
async def test_what_tools_call_of_each_other_counts_once_for_each_call_of_a_model() -> None:
    async def storm(arguments: Mapping[str, Any], context: ToolContext) -> str:
        for _ in range(5):
            await host.runner.run(call("b", arguments), caller=context)
        return "done"

    events = Events()
    async with opened(make(storm, name="storm"), on_event=events.append) as host:
        for strikes in (1, 2):
            await host.runner.run(call("storm", TRAP))
            assert len(events.of(StrikeCounted)) == strikes
            assert host.source.lookup("b") is not None
        # Five of another's calls are one call of traffic: the crashes of its own users are not too few among them.
        for _ in range(3):
            await host.runner.run(call("storm", calling("echo")))
        await host.runner.run(call("b", TRAP))
        assert host.source.lookup("b") is None
