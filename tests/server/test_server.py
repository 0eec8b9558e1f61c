"""Tools over the Model Context Protocol, in memory, with the SDK's own client: the newest version and older ones."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    ImageContent,
    Implementation,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    TextContent,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from rho_wasm import plain
from rho_wasm.builtin import read_artifact
from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.events import ToolProgress
from rho_wasm.limits import Limits
from rho_wasm.policy import Policy
from rho_wasm.results import Failed, Halt, Image, Ok
from rho_wasm.server import EventFeed
from rho_wasm.server.sessions import McpClient
from rho_wasm.tools import Tool
from tests.dynamic.guests import SPINS, artifact
from tests.helpers import OBJECT, PNG, answering, echo, make, raising, until
from tests.server.serving import NEWEST, OLDER, client_of, connected, host_server, names_of, server_of, text_of

pytestmark = pytest.mark.anyio

VERSIONS = pytest.mark.parametrize("version", [NEWEST, OLDER])


@VERSIONS
async def test_tools_are_listed_as_they_are_now_with_schemas_and_hints(version: str) -> None:
    schema = {"type": ["object", "null"], "properties": {"text": {"type": "string"}}}
    given = echo("given", description="Echoes.", input_schema=schema, read_only=True, idempotent=True)
    async with host_server(core=[given]) as (host, server):
        await host.source.activate(await host.source.stage(add=[artifact("written")], author="model"))
        async with client_of(server, version) as client:
            assert client.protocol_version == version
            first, second = (await client.list_tools()).tools
            assert (first.name, first.description) == ("given", "Echoes.")
            assert first.input_schema == {**schema, "type": "object"}
            assert first.annotations is not None
            assert (first.annotations.read_only_hint, first.annotations.idempotent_hint) == (True, True)
            assert first.annotations.destructive_hint is None
            assert second.name == "written"
            assert second.annotations is not None
            # Without grants there is nothing that it could reach.
            assert (second.annotations.read_only_hint, second.annotations.open_world_hint) == (True, False)
            assert second.meta is not None
            assert set(second.meta["rho-wasm/tool"]) == {"artifact", "language"}


async def test_what_only_a_loop_answers_is_neither_listed_nor_called() -> None:
    server = server_of(echo(), echo("by_hand", manual=True), make(name="declared"))
    async with client_of(server, NEWEST) as client:
        assert await names_of(client) == ["echo"]
        for name in ("by_hand", "declared", "nowhere", "call_tool", "\x1b[2J"):
            with pytest.raises(MCPError, match="Unknown tool") as caught:
                await client.call_tool(name)
            assert caught.value.error.code == INVALID_PARAMS
            assert "\x1b" not in caught.value.error.message


@VERSIONS
async def test_a_value_that_is_an_object_is_structured_content_too_and_details_stand_in_meta_alone(
    version: str,
) -> None:
    value = {"n": None, "bytes": b"\x00", "list": [1, {"deep": None}]}
    server = server_of(answering(Ok(value, details={"secret": b"\x01", "more": 1.5})))
    async with client_of(server, version) as client:
        result = await client.call_tool("t")
    assert result.structured_content == {"n": None, "bytes": "AA", "list": [1, {"deep": None}]}
    assert text_of(result) == '{"n":null,"bytes":"AA","list":[1,{"deep":null}]}'
    assert not result.is_error
    assert result.meta is not None
    assert result.meta["rho-wasm/details"] == {"secret": "AQ", "more": 1.5}
    assert (result.meta["rho-wasm/result"]["status"], result.meta["rho-wasm/result"]["kind"]) == ("ok", "ok")
    assert "secret" not in text_of(result)


@VERSIONS
async def test_images_are_image_content(version: str) -> None:
    server = server_of(answering(Ok("a picture", (Image("image/png", PNG),))))
    async with client_of(server, version) as client:
        text, image = (await client.call_tool("t")).content
    assert isinstance(text, TextContent)
    assert text.text == "a picture"
    assert isinstance(image, ImageContent)
    assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", PNG)


@VERSIONS
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        (answering(Failed("no such city")), {}, "no such city"),
        (raising(ValueError("x")), {}, "t crashed (handler_raised)"),
        (echo("t", input_schema={**OBJECT, "required": ["a"]}), {}, "t was not run (invalid_arguments)"),
        (
            make(lambda arguments: anyio.sleep_forever(), name="t", timeout_ms=20),
            {},
            "t crashed (deadline, timeout_ms=20)",
        ),
    ],
)
async def test_what_goes_wrong_with_a_tool_is_an_error_with_text_that_a_model_can_act_on(
    version: str, tool: Tool, arguments: Any, said: str
) -> None:
    async with client_of(server_of(tool), version) as client:
        result = await client.call_tool("t", arguments)
    assert result.is_error
    assert text_of(result).startswith(said)
    assert result.structured_content is None


@VERSIONS
async def test_a_guest_that_takes_too_long_is_an_error_and_not_a_timeout_of_the_protocol(version: str) -> None:
    async with host_server(limits=Limits(fuel=1_000_000)) as (host, server):
        spin = artifact({"name": "spin", "description": "Spins.", "input_schema": OBJECT}, body=SPINS)
        await host.source.activate(await host.source.stage(add=[spin], author="model"))
        async with client_of(server, version) as client:
            result = await client.call_tool("spin")
    assert result.is_error
    assert "spin crashed (out_of_fuel" in text_of(result)
    assert "ask it for less at once" in text_of(result)


@VERSIONS
async def test_a_halt_is_its_value_and_its_reason_is_in_meta(version: str) -> None:
    server = server_of(answering(Halt("over budget", {"spent": 3})), answering(Halt("over budget"), name="bare"))
    async with client_of(server, version) as client:
        result = await client.call_tool("t")
        assert (text_of(result), result.is_error, result.structured_content) == ('{"spent":3}', False, None)
        assert result.meta is not None
        assert result.meta["rho-wasm/result"]["haltReason"] == "over budget"
        assert text_of(await client.call_tool("bare")) == "over budget"


@VERSIONS
async def test_an_answer_fits_the_schema_that_was_listed_or_is_an_error(version: str) -> None:
    numbers = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server = server_of(
        answering(Ok({"n": 1}), name="fits", output_schema=numbers),
        answering(Ok({"n": "x"}), name="fits_not", output_schema=numbers),
        answering(Halt("enough", {"n": 1}), name="halts", output_schema=numbers),
        answering(Ok([1]), name="list", output_schema={"type": "array"}),
    )
    async with client_of(server, version) as client:
        listed = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        assert listed["fits"] == numbers
        # Until 2025-11-25 a schema of answers describes an object, and so are answers.
        assert listed["list"] == ({"type": "array"} if version == NEWEST else None)
        assert (await client.call_tool("fits")).structured_content == {"n": 1}
        assert text_of(await client.call_tool("fits_not")).startswith("fits_not crashed (invalid_return)")
        assert (await client.call_tool("halts")).is_error
        answer = await client.call_tool("list")
        assert (answer.structured_content, text_of(answer)) == ([1] if version == NEWEST else None, "[1]")


async def test_a_text_that_is_cut_is_not_given_whole_as_structured_content_and_is_read_on_in_its_session_only() -> None:
    server = server_of(read_artifact(), answering(Ok({"text": "a" * 30_000})))
    async with client_of(server, NEWEST) as client, client_of(server, OLDER) as other:
        result = await client.call_tool("t")
        assert result.structured_content is None
        assert result.meta is not None
        output = result.meta["rho-wasm/result"]["outputId"]
        assert f'read_artifact {{"id": "{output}"' in text_of(result)
        page = await client.call_tool("read_artifact", {"id": output, "offset": 20_000})
        assert not page.is_error
        assert (await other.call_tool("read_artifact", {"id": output})).is_error


@VERSIONS
async def test_progress_reaches_the_client_that_asked_for_it_as_far_as_it_goes_forward(version: str) -> None:
    feed = EventFeed()

    async def work(arguments: Any, context: ToolContext) -> Ok:
        for done in (1.0, 2.0, 2.0, 1.0, 3.0):
            feed(ToolProgress(call=context.call, tool="t", done=done, total=3.0, text="\x1bhalf"))
        return Ok("done")

    server = server_of(make(work), feed=feed)
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with client_of(server, version) as client:
        assert text_of(await client.call_tool("t")) == "done"
        assert text_of(await client.call_tool("t", progress_callback=hear)) == "done"
        await until(lambda: len(told) == 3)
    assert told == [(1.0, 3.0, "\\x1bhalf"), (2.0, 3.0, "\\x1bhalf"), (3.0, 3.0, "\\x1bhalf")]


def reporting(capability: str, **arguments: Any) -> Artifact:
    """A guest that asks for ``capability`` and then answers ``"done"``."""
    request = plain.encode({"capability": capability, "arguments": arguments})
    text = "".join(f"\\{byte:02x}" for byte in request)
    return artifact(
        capability.partition(".")[0],
        imports=f"""(import "rho" "host_call" (func $ask (param i32 i32) (result i32)))
                    (data (i32.const 4096) "{text}")""",
        body=f"(drop (call $ask (i32.const 4096) (i32.const {len(request)})))",
        manifest={"capabilities": [capability]},
    )


async def test_a_guests_own_reports_reach_the_client_and_its_log_does_not() -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    policy = Policy(tools={"*": {"grants": {"progress.report": {}, "log.write": {}}}})
    guests = [reporting("progress.report", done=1, total=2, text="half"), reporting("log.write", message="psst")]
    async with host_server(policy=policy) as (host, server):
        await host.source.activate(await host.source.stage(add=guests, author="model"))
        async with client_of(server, OLDER) as client:
            assert text_of(await client.call_tool("progress", progress_callback=hear)) == "done"
            assert "psst" not in str(await client.call_tool("log", progress_callback=hear))
            await until(lambda: bool(told))
    assert told == [(1.0, 2.0, "half")]


async def test_a_tools_text_cannot_break_the_wire_or_forge_what_is_shown() -> None:
    lone = answering(Ok({"\ud800": "\udfff"}, details="\ud800"), name="lone")
    forging = answering(Ok({"k\u202e": "\u202egnp.exe"}), name="forging", untrusted=True)
    async with client_of(server_of(lone, forging), OLDER) as client:
        assert (await client.call_tool("lone")).structured_content == {"\ufffd": "\ufffd"}
        assert (await client.call_tool("forging")).structured_content == {"k\\u202e": "\\u202egnp.exe"}


async def test_a_gate_is_told_of_the_client_in_inert_words() -> None:
    seen: list[ToolContext] = []

    async def see(arguments: Any, context: ToolContext) -> Ok:
        seen.append(context)
        return Ok(None)

    server = server_of(make(see))
    info = Implementation(name="editor\x1b[2J", version="1")
    for version in (NEWEST, OLDER):
        async with client_of(server, version, client_info=info) as client:
            await client.call_tool("t")
            await client.call_tool("t")
    assert [each.context for each in seen[::2]] == [
        McpClient(protocol_version=version, name="editor\\x1b[2J", version="1") for version in (NEWEST, OLDER)
    ]
    first, second, third, _ = (each.session_id for each in seen)
    assert first == second
    assert first != third
    assert len({each.call.id for each in seen}) == 4


async def test_it_serves_in_process_without_streams_too() -> None:
    async with Client(server_of(echo())) as client:
        assert (await client.call_tool("echo", {"a": 1})).structured_content == {"a": 1}


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_every_older_version_is_spoken(version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages: list[JSONRPCRequest | JSONRPCNotification] = [
        JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params=params),
        JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"),
        JSONRPCRequest(jsonrpc="2.0", id=2, method="tools/list"),
        JSONRPCRequest(jsonrpc="2.0", id=3, method="tools/call", params={"name": "echo", "arguments": {"a": 1}}),
    ]
    answers: dict[Any, Any] = {}
    async with connected(server_of(echo())) as (reading, writing):
        for message in messages:
            await writing.send(SessionMessage(message))
            if isinstance(message, JSONRPCRequest):
                answer = await reading.receive()
                assert isinstance(answer, SessionMessage)
                assert isinstance(answer.message, JSONRPCResponse)
                answers[answer.message.id] = answer.message.result
    assert answers[1]["protocolVersion"] == version
    assert answers[1]["capabilities"] == {"tools": {"listChanged": True}}
    assert [tool["name"] for tool in answers[2]["tools"]] == ["echo"]
    assert answers[3]["content"] == [{"type": "text", "text": '{"a":1}'}]
