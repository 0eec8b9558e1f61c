"""What a model asked for in its own words is taken as it was meant, or refused with what it could have said."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm import Policy, Workshop
from rho_wasm.grants import BOUNDS
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.policy import GatePolicy
from rho_wasm.testing import guest
from rho_wasm.workshop.asked import check_schemas
from tests.workshop.shop import SPEAKING, Session, opened, switched, wat

pytestmark = pytest.mark.anyio


def written(**more: Any) -> dict[str, Any]:
    return {"language": "wat", "source": wat(), "name": "tool", "description": "A tool.", "schema": SPEAKING, **more}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"language": "cobol"}, "nothing is written in 'cobol' here: say one of wat"),
        (
            {"name": "my tool!"},
            "'my tool!' is no name of a tool: a name is 1 to 64 of A-Z a-z 0-9 _ -; call it 'my_tool'",
        ),
        ({"name": "\u202e"}, "'\\u202e' is no name of a tool"),
        (
            {"schema": {"text": {"type": "string"}}},
            'write it as {"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}',
        ),
        (
            {"schema": {"type": "object", "text": {"type": "string"}}},
            '{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}',
        ),
        ({"capabilities": ["network"]}, f"'network' is no capability: say http.fetch; there are {', '.join(BOUNDS)}"),
        ({"capabilities": ["http.fetsh"]}, "did you mean 'http.fetch'?; there are log.write, "),
    ],
)
async def test_what_cannot_be_meant_is_refused_with_what_can(more: dict[str, Any], said: str) -> None:
    async with opened(workshop=Workshop(languages=["wat"])) as host:
        assert said in (await Session(host).refused("write_tool", **written(**more))).text
        assert host.store.authorship.candidates() == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "propertyNames": {"maxLength": 8}},
        {"type": "object", "unevaluatedProperties": {"type": "string"}},
        {"dependentRequired": {"a": ["b"]}, "default": {}},
        {"dependentSchemas": {"a": {"minProperties": 2}}},
        {"not": {"minProperties": 9}},
        {"if": {"minProperties": 2}, "then": {"maxProperties": 4}, "else": {}},
        {"type": "object", "$defs": {"text": {"type": "string"}}},
        {"type": "object", "definitions": {"text": {"type": "string"}}},
        {"type": "object", "default": {"text": ""}},
        {"const": {}},
    ],
)
def test_a_schema_that_says_nothing_of_single_arguments_is_one(schema: dict[str, Any]) -> None:
    check_schemas([ToolDeclaration(name="tool", description="A tool.", input_schema=schema)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"language": " WebAssembly"},
        {"schema": {}},
        {"schema": {"additionalProperties": {"type": "string"}}},
        {"capabilities": ["invoice.lookup"]},
    ],
)
async def test_what_can_be_meant_is_taken(more: dict[str, Any]) -> None:
    async with opened(workshop=Workshop(languages=["wat"])) as host:
        assert (await Session(host).done("write_tool", **written(**more)))["candidate"] == 1


@pytest.mark.slow
async def test_a_session_that_comes_back_finds_what_it_left_by_its_name() -> None:
    async with opened(workshop=Workshop(languages=["wat"])) as host:
        before, after = Session(host, "before"), Session(host, "after")
        await before.done("write_tool", **written())
        assert (await after.done("test_tool", name="tool", arguments={"text": ""}))["tested"] == "candidate 1"
        assert '"state":"candidate 1"' in await after.done("read_tool", name="tool")
        other = await after.refused("test_tool", name="another")
        assert other.text == "live generation 0 has no tool 'another'; it has: none; open candidates bring: tool (1)"
    async with opened(workshop=Workshop(languages=["wat"], shared=False)) as host:
        await Session(host, "before").done("write_tool", **written())
        assert "candidates" not in (await Session(host, "after").refused("test_tool", name="tool")).text


@pytest.mark.slow
async def test_arguments_are_mended_in_a_test_as_in_a_call_and_that_is_said() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with opened(workshop=Workshop(languages=["wat"])) as host:
        session = Session(host)
        await session.done("write_tool", **written(schema=schema))
        (case,) = (await session.done("test_tool", name="tool", arguments={"n": "4"}))["cases"]
        assert case["answer"] == {"ok": "done"}
        assert "taken as the number" in case["arguments_repaired"][0]
        (case,) = (await session.refused("test_tool", name="tool", arguments={"n": "four"})).value["cases"]
        assert case["refused"] == "invalid_arguments"


@pytest.mark.slow
async def test_examples_are_told_when_a_tool_is_written_as_the_gate_will_judge_them() -> None:
    detailed = (
        wat().replace("\\a1\\62ok\\64done", "\\a2\\62ok\\64done\\67details\\01").replace("i64.const 9", "i64.const 18")
    )
    partial, whole = ({"arguments": {"text": 3}, "answer": answer} for answer in ("done", {"ok": "done", "details": 1}))
    async with opened(workshop=Workshop(languages=["wat"]), policy=Policy()) as host:
        session = Session(host)
        told = await session.done("write_tool", **written(source=detailed, examples=[partial]))
        assert told["examples"]["passed"] == 0
        await session.refused("switch_tools", candidate=told["candidate"])
        told = await session.done("write_tool", **written(source=detailed, examples=[whole]))
        assert told["examples"] == {"passed": 1, "of": 1}
        await session.done("switch_tools", candidate=told["candidate"])


@pytest.mark.slow
async def test_a_tool_that_says_nothing_of_itself_is_warned_of() -> None:
    async with opened(workshop=Workshop(languages=["wat"])) as host:
        told = await Session(host).done("write_tool", **written(description=" "))
        assert "tool has no description" in told["warnings"][-1]


async def test_a_switch_to_what_is_live_already_says_that_nothing_changed() -> None:
    async with opened() as host:
        await switched(host, guest("tool"), author="workshop:a")
        same = await host.source.stage([guest("tool")], author="workshop:a")
        told = await Session(host).done("switch_tools", candidate=same.number)
        assert told["next"] == "nothing changed: what was live is the same"


async def test_a_candidate_that_a_person_said_yes_to_waits_for_nobody() -> None:
    async with opened(policy=Policy(gates=GatePolicy(on=("approval",)))) as host:
        session = Session(host)
        candidate = await host.source.stage([guest("tool")], author="workshop:a")
        told = await session.done("switch_tools", candidate=candidate.number)
        assert "with the --store of this host" in told["told"][0]
        host.store.approve(candidate.number, by="ada")
        (open_,) = (await session.done("tool_status"))["candidates"]
        assert "waits_for" not in open_
        assert open_["approved"] == 'a person said yes: switch_tools with {"candidate": 1} makes it live'


async def test_a_name_of_nothing_is_told_so() -> None:
    async with opened() as host:
        session = Session(host)
        assert "there is no tool of that name" in (await session.refused("tool_status", name="nope")).text
        assert "it is the host's own tool" in (await session.refused("tool_status", name="todo")).text


async def test_what_a_tool_may_ask_of_the_host_is_told_before_one_is_written() -> None:
    async with opened(workshop=Workshop()) as host:
        tool = host.registry.lookup("write_tool")
        assert tool is not None
        assert 'host.call("http.fetch", url="https://...")' in tool.description
        assert "http.fetch" in str(tool.input_schema)
