"""A host owns its parts: it opens them together, closes them in order, and starts nothing when something is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rho_wasm import (
    Allow,
    Artifact,
    Block,
    Closed,
    HostLimits,
    Limits,
    Policy,
    PolicyError,
    Store,
    StoreError,
    ToolCall,
    ToolContext,
    tool,
)
from rho_wasm.events import Event, GenerationSwitched, ToolFinished, ToolRunning
from rho_wasm.host import Host
from rho_wasm.resources import fixture
from rho_wasm.results import HandlerResult
from rho_wasm.testing import FakeSource, guest
from rho_wasm.tools import Tool
from tests.helpers import echo

pytestmark = pytest.mark.anyio


@tool(read_only=True)
async def invoice(number: str) -> dict[str, str]:
    """Look up one invoice."""
    return {"number": number, "total": "12.50"}


async def gate(call: ToolCall, context: ToolContext) -> Allow | Block:
    return Block("payments are closed") if call.name == "pay" else Allow()


async def switched_on(host: Host, *names: str) -> None:
    await host.source.activate(await host.source.stage(add=[guest(name) for name in names], author="model"))


async def test_core_tools_and_agent_written_ones_answer_through_one_runner(tmp_path: Path) -> None:
    events: list[Event] = []
    async with Host.open(tmp_path / "tools.rho", core=[invoice], gate=gate, on_event=events.append) as host:
        await switched_on(host, "answer", "pay")
        offered = host.registry.snapshot()
        assert [each.name for each in offered.list()] == ["answer", "invoice", "pay"]
        answer = await host.runner.run(ToolCall(id="1", name="answer"), tools=offered)
        assert (answer.status, answer.value, answer.generation) == ("ok", "done", 1)
        assert answer.fuel_used
        looked_up = await host.runner.run(ToolCall(id="2", name="invoice", arguments={"number": "7"}), tools=offered)
        assert looked_up.value == {"number": "7", "total": "12.50"}
        refused = await host.runner.run(ToolCall(id="3", name="pay"), tools=offered)
        assert (refused.reason, refused.text) == ("blocked", "Blocked: payments are closed")
    kinds = [type(event) for event in events]
    assert kinds.count(GenerationSwitched) == 1
    assert kinds.count(ToolRunning) == 2
    assert kinds.count(ToolFinished) == 3


async def test_a_second_host_on_the_folder_finds_what_the_first_left(tmp_path: Path) -> None:
    async with Host.open(tmp_path / "tools.rho") as host:
        await switched_on(host, "answer")
    async with Host.open(str(tmp_path / "tools.rho")) as host:
        assert host.source.live().number == 1
        assert (await host.runner.run(ToolCall(id="1", name="answer"))).value == "done"


async def test_after_the_end_its_parts_say_that_they_are_closed(tmp_path: Path) -> None:
    async with Host.open(tmp_path / "tools.rho") as host:
        await switched_on(host, "answer")
    with pytest.raises(Closed):
        host.store.generations()
    with pytest.raises(Closed):
        await host.source.stage(add=[guest("other")], author="model")
    with pytest.raises(Closed):
        await host.sandbox.load(guest("other").wasm)


async def test_a_store_that_was_handed_in_stays_open() -> None:
    with Store.open(":memory:") as store:
        async with Host.open(store) as host:
            await switched_on(host, "answer")
        assert store.live().number == 1


class Shouting:
    """An executor that alters the arguments."""

    async def execute(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> HandlerResult:
        assert isinstance(arguments, dict)
        arguments["text"] = arguments["text"].upper()
        result: HandlerResult = await tool.invoke(arguments, context)
        return result


async def test_what_an_executor_makes_of_the_arguments_is_what_a_guest_gets() -> None:
    async with Host.open(":memory:", core=[]) as host:
        artifact = Artifact.from_wasm(fixture("echo.wasm").read_bytes())
        await host.source.activate(await host.source.stage(add=[artifact], author="model"))
        call = ToolCall(id="1", name="echo", arguments={"text": "quiet"})
        assert (await host.runner.run(call)).value == {"text": "quiet"}
        host.runner.executor = Shouting()
        assert (await host.runner.run(call)).value == {"text": "QUIET"}
    assert call.arguments == {"text": "quiet"}


async def test_sources_come_after_the_dynamic_one_in_their_order() -> None:
    async with Host.open(":memory:", core=[], sources=[FakeSource(echo("a"), echo("b"))]) as host:
        await switched_on(host, "a")
        found = {each.name: each.untrusted for each in host.registry.list()}
        assert found == {"a": True, "b": False}
        assert [each.tool for each in host.registry.shadowed()] == ["a"]


async def test_limits_of_one_call_and_of_the_host_are_both_taken() -> None:
    spin = guest("spin", body="(loop $again (br $again))")
    for limits in (Limits(fuel=1_000_000), HostLimits(call=Limits(fuel=1_000_000))):
        async with Host.open(":memory:", limits=limits) as host:
            await host.source.activate(await host.source.stage(add=[spin], author="model"))
            ended = await host.runner.run(ToolCall(id="1", name="spin"))
            assert (ended.reason, ended.fuel_used) == ("out_of_fuel", 1_000_000)


async def test_a_policy_is_a_model_or_a_file_and_never_silently_none(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[tools.spin]\nlimits = { fuel = 1_000 }\n")
    for policy in (tmp_path / "policy.toml", Policy.load(tmp_path / "policy.toml")):
        async with Host.open(":memory:", policy=policy) as host:
            assert host.policy.limits_for("spin", Limits()).fuel == 1_000
    with pytest.raises(PolicyError):
        async with Host.open(tmp_path / "store", policy=tmp_path / "missing.toml"):
            raise AssertionError("it started")
    assert not (tmp_path / "store").exists()


async def test_a_store_that_cannot_be_opened_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError):
        async with Host.open(tmp_path / "file"):
            raise AssertionError("it started")


async def _hears(event: object) -> None:
    pass


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        ({"store": 5}, "a store is .*, not a int"),
        ({"limits": {"fuel": 1}}, "limits are Limits or HostLimits, not a dict"),
        ({"policy": {"tools": {}}}, "a policy is .*, not a dict"),
        ({"gate": None}, "a gate is a function .*, not a NoneType"),
        ({"approve": True}, "approve is a function .*, not a bool"),
        ({"redact": 5}, "redact is a function .*, not a int"),
        ({"redact": _hears}, "redact is a function .*, not an async one"),
        ({"on_event": 3}, "on_event is a function .*, not a int"),
        ({"on_event": _hears}, "on_event .* not async"),
        ({"core": echo("a")}, "core is a list of Tools, not a Tool"),
        ({"sources": [3]}, "sources are a list of .*, not a int"),
        ({"sources": FakeSource()}, "sources are a list of .*, not a FakeSource"),
        ({"capabilities": 3}, "capabilities are a list .*, not a int"),
        ({"secrets": ["hidden"]}, "secrets are a map .*, not a list"),
        ({"workers": "2"}, "workers is a whole number, at least 0, not a str"),
        ({"workers": True}, "workers is a whole number, at least 0, not a bool"),
        ({"way": 3}, "way is 'native' or 'public', not a int"),
        ({"engines": 5}, "engines is a shelf, .*, not a int"),
        ({"workshop": 1}, "a workshop is .*, not a int"),
        ({"elsewhere": "no"}, "elsewhere is True or False, not a str"),
    ],
)
async def test_an_option_of_another_kind_is_a_type_error_that_says_what_is_wanted(
    tmp_path: Path, wrong: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(TypeError, match=wanted):
        async with Host.open(**{"store": tmp_path / "store", **wrong}):
            raise AssertionError("it started")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [({"workers": -1}, "at least 0, not -1"), ({"way": "fast"}, "not 'fast'"), ({"way": ""}, "'native' or 'public'")],
)
async def test_a_number_or_a_word_that_there_is_not_opens_no_host(
    tmp_path: Path, wrong: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(ValueError, match=wanted):
        async with Host.open(tmp_path / "store", **wrong):
            raise AssertionError("it started")
    assert not (tmp_path / "store").exists()


async def test_a_claimed_artifact_with_its_source_is_built_again_and_believed_if_it_is_the_same(tmp_path: Path) -> None:
    from rho_wasm import Artifact, build

    built = await build(fixture("echo.wat"))
    claimed = Artifact.from_wasm(built.wasm, source=built.source, language="wat")
    other = Artifact.from_wasm(guest("other").wasm, source=built.source, language="wat")
    async with Host.open(tmp_path / "tools.rho") as host:
        review = await host.source.review(await host.source.stage(add=[claimed, other], author="somebody"))
    assert {each.tool: each.provenance for each in review.tools} == {"echo": "built here", "other": "claimed"}
