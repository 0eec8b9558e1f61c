"""Tools, calls and results as the Model Context Protocol has them, held against the package's own types, both ways."""

from __future__ import annotations

import base64
from typing import Any

import mcp_types as types
import pytest

from rho_wasm.adapters.mcp import (
    call_from_mcp,
    result_from_mcp,
    result_to_mcp,
    tool_from_mcp,
    tool_to_mcp,
)
from rho_wasm.calls import ToolCall
from rho_wasm.results import Failed, Image, Ok, ToolResult
from tests.helpers import OBJECT, PNG, make


def result(**fields: Any) -> ToolResult:
    return ToolResult(**{"call_id": "1", "tool": "t", "status": "ok", "kind": "ok", **fields})


def shown(given: ToolResult, **options: Any) -> types.CallToolResult:
    return types.CallToolResult.model_validate(result_to_mcp(given, **options))


@pytest.mark.parametrize("newest", [True, False])
def test_a_tool_is_what_the_package_takes_for_one(newest: bool) -> None:
    tool = make(
        name="t",
        description="Does.",
        input_schema={"properties": {"a": {"type": "integer"}}},
        output_schema={"type": "object"},
        read_only=False,
        destructive=True,
        idempotent=False,
        metadata={"claim": "trust me", "rho_wasm": {"artifact": "ab", "language": "wat"}},
    )
    listed = types.Tool.model_validate(tool_to_mcp(tool, newest=newest))
    assert (listed.name, listed.description) == ("t", "Does.")
    assert listed.input_schema == {"properties": {"a": {"type": "integer"}}, "type": "object"}
    assert listed.output_schema == {"type": "object"}
    assert listed.annotations == types.ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
    )
    assert listed.meta == {"rho-wasm/tool": {"artifact": "ab", "language": "wat"}}


def test_nothing_is_said_of_effects_that_nothing_is_known_of() -> None:
    assert tool_to_mcp(make()) == {"name": "t", "description": "", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("grants", "said"),
    [((), False), (("kv.put", "clock.now"), False), (("http.fetch",), None), (("clock.now", "invoice.lookup"), None)],
)
def test_only_a_guest_whose_grants_end_at_the_host_is_said_to_meet_nothing_else(
    grants: tuple[str, ...], said: bool | None
) -> None:
    origin = {"artifact": "ab", "language": "wat", **({"grants": list(grants)} if grants else {})}
    shown = tool_to_mcp(make(read_only=True, untrusted=True, metadata={"rho_wasm": origin}))
    assert shown["annotations"].get("openWorldHint") is said
    assert "openWorldHint" not in tool_to_mcp(make(read_only=True, untrusted=True))["annotations"]


def test_what_an_adapter_makes_is_the_callers_own() -> None:
    tool = make(input_schema={"type": "object", "properties": {"a": {}}})
    tool_to_mcp(tool)["inputSchema"]["properties"]["a"]["x"] = 1
    assert tool_to_mcp(tool)["inputSchema"]["properties"] == {"a": {}}


def test_a_foreign_tool_is_untrusted_and_its_hints_only_make_it_stricter() -> None:
    claims = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    given = {"name": "t", "inputSchema": OBJECT, "annotations": claims}
    believed = tool_from_mcp(given)
    assert (believed.read_only, believed.destructive, believed.idempotent) == (None, None, None)
    assert (believed.untrusted, believed.description) == (True, "")
    stricter = tool_from_mcp(
        given | {"annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}}
    )
    assert (stricter.read_only, stricter.destructive, stricter.idempotent) == (False, True, False)


def test_a_tool_goes_there_and_back() -> None:
    tool = make(description="Does.", input_schema=OBJECT, output_schema=OBJECT, untrusted=True)
    assert tool_from_mcp(tool_to_mcp(tool)) == tool


@pytest.mark.parametrize(
    "wrong", [{"name": "a b"}, {"name": "x" * 65}, {"inputSchema": 7}, {"description": 7}, {"outputSchema": []}]
)
def test_a_foreign_tool_that_cannot_be_one_here_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        tool_from_mcp({"name": "t", "inputSchema": OBJECT} | wrong)


def test_calls_without_arguments_have_none() -> None:
    assert call_from_mcp({"name": "t", "arguments": {"a": 1}}, id="7") == ToolCall("7", "t", {"a": 1})
    assert call_from_mcp({"name": "t", "arguments": None}, id="7") == call_from_mcp({"name": "t"}, id="7")
    assert call_from_mcp({"name": "t"}, id="7").arguments == {}


def test_an_answer_has_text_images_value_and_the_hosts_word_apart() -> None:
    made = shown(
        result(value={"n": 1}, text='{"n":1}', images=(Image("image/png", PNG),), details={"d": b"\x00"}, generation=3)
    )
    text, image = made.content
    assert text == types.TextContent(type="text", text='{"n":1}')
    assert isinstance(image, types.ImageContent)
    assert base64.b64decode(image.data) == PNG
    assert (made.structured_content, made.is_error) == ({"n": 1}, False)
    assert made.meta is not None
    assert made.meta["rho-wasm/details"] == {"d": "AA"}
    assert made.meta["rho-wasm/result"] == {"status": "ok", "kind": "ok", "generation": 3, "durationMs": 0.0}


def test_details_too_large_for_a_message_are_left_to_the_hosts_screens() -> None:
    made = shown(result(text="x", details="d" * 2_000_000))
    assert made.meta is not None
    assert made.meta["rho-wasm/details"] is None


@pytest.mark.parametrize(
    ("fields", "schema", "structured", "is_error"),
    [
        ({"value": [1]}, None, None, False),
        ({"value": [1]}, {"type": "array"}, [1], False),
        ({"value": {"a": 1}, "output_id": "out_1"}, None, None, False),
        ({"value": {"a": 1}, "output_id": "out_1"}, OBJECT, {"a": 1}, False),
        ({"value": {"a": 1}, "status": "error", "kind": "failed"}, OBJECT, None, True),
        ({"value": {"a": 1}, "status": "halt"}, None, None, False),
        ({"value": {"a": 1}, "status": "halt"}, OBJECT, None, True),
        ({"value": "?", "status": "ask_user"}, OBJECT, None, True),
    ],
)
def test_structured_content_is_what_the_tool_declares_or_any_object_that_is_shown_whole(
    fields: dict[str, Any], schema: Any, structured: Any, is_error: bool
) -> None:
    made = shown(result(**fields), tool=make(output_schema=schema))
    assert (made.structured_content, made.is_error) == (structured, is_error)


def test_until_the_newest_version_only_objects_are_structured() -> None:
    tool = make(output_schema={"type": "array"})
    assert "outputSchema" not in tool_to_mcp(tool, newest=False)
    made = shown(result(value=[1], text="[1]"), tool=tool, newest=False)
    assert (made.structured_content, made.is_error) == (None, False)


def test_of_a_guest_nothing_in_a_value_can_forge_what_is_shown() -> None:
    value = {"\u202ek": ["\x1b[2J", 1, None]}
    assert shown(result(value=value, generation=1)).structured_content == {"\\u202ek": ["\\u001b[2J", 1, None]}
    assert shown(result(value=value), tool=make()).structured_content == value


def test_a_foreign_result_becomes_an_answer() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    given = {
        "content": [
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b"},
            image,
            {"type": "audio", "data": ""},
            {"type": "image", "data": "%%%"},
            {"type": "image", "data": "AA=="},
            7,
        ]
    }
    assert result_from_mcp(given) == Ok(
        "a\nb", (Image("image/png", PNG),), {"left_out": ["audio", "image", "image", "None"]}
    )
    assert result_from_mcp(given | {"structuredContent": {"n": 1}}).value == {"n": 1}  # type: ignore[union-attr]
    assert result_from_mcp({"content": [{"type": "text", "text": "no"}], "isError": True}) == Failed("no")
    for nothing in ({}, {"content": "text"}, {"content": None}):
        assert result_from_mcp(nothing) == Ok("")


def test_what_is_sent_there_comes_back() -> None:
    sent = Ok({"n": 1}, (Image("image/png", PNG),))
    made = result_to_mcp(result(value=sent.value, text='{"n":1}', images=sent.images))
    assert result_from_mcp(made) == sent
