"""OpenAI's chat completions: what the adapter makes and reads is what the package's own types say."""

from __future__ import annotations

import base64
import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm import Tool, ToolCall
from rho_wasm.adapters.openai import (
    calls_from_openai,
    message_from_openai,
    messages_to_openai,
    openai_model,
    result_to_openai,
    tools_to_openai,
)
from rho_wasm.adapters.openai_schema import DESCRIPTION_CHARS, description_of, openai_schema, strict_schema
from rho_wasm.portable import unportable
from tests.adapters.wire import ALL, OBJECTS, PICTURE, PNG, STORED, check, forecast, peers, picture, result


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_tools_are_the_packages_own_type(strict: bool) -> None:
    shown = tools_to_openai([*ALL, STORED], strict=strict)
    check("openai.types.chat:ChatCompletionToolParam", shown, many=True)
    for each in shown:
        assert each["function"]["parameters"]["type"] == "object"
        assert "properties" in each["function"]["parameters"]
        assert len(each["function"]["description"]) <= DESCRIPTION_CHARS


def test_a_tool_is_shown_whole() -> None:
    assert tools_to_openai([forecast]) == [
        {
            "type": "function",
            "function": {
                "name": "forecast",
                "description": "The weather of a city.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
                    "required": ["city"],
                    "additionalProperties": False,
                },
                "strict": False,
            },
        }
    ]


def test_what_the_api_refuses_is_filled_in_or_left_out_where_it_means_the_same() -> None:
    shown = tools_to_openai([STORED])[0]["function"]["parameters"]
    assert shown == {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": {}},
            "any": {},
            "map": {"type": "object", "properties": {}},
            "é": {"enum": [True]},
            "more": {"type": "array", "items": {"type": "array", "items": {}}},
        },
    }


def test_strict_is_said_where_the_schema_allows_it_alone() -> None:
    shown = tools_to_openai([picture, forecast], strict=True)
    assert [each["function"]["strict"] for each in shown] == [True, False]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {}},
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"a": {"type": ["integer", "null"], "minimum": 1}}, "required": ["a"]},
        {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"], "$defs": {"n": {"enum": ["x", "y"]}}},
        {
            "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"type": "number"}]}}},
            "required": ["a"],
        },
    ],
)
def test_strict_takes_objects_whose_arguments_are_all_required(schema: dict[str, Any]) -> None:
    shown = strict_schema({"type": "object", **schema})
    assert shown is not None
    assert shown["additionalProperties"] is False


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string"}}},
        {"properties": {}, "additionalProperties": True},
        {"properties": {"a": {"type": "object"}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]},
        {"properties": {"a": {}}, "required": ["a"]},
        {"properties": {"a": {"type": "array"}}, "required": ["a"]},
        {"properties": {"a": {"$ref": "#/$defs/n", "title": "x"}}, "required": ["a"], "$defs": {"n": {"enum": [1]}}},
        {"properties": {"a": {"enum": [str(n) for n in range(1_001)]}}, "required": ["a"]},
        {"properties": {"a": {"enum": ["x" * 120_001]}}, "required": ["a"]},
        nested(11),
        {"if": {}, "properties": {}},
    ],
)
def test_strict_is_not_said_of_what_it_has_not(schema: dict[str, Any]) -> None:
    assert strict_schema({"type": "object", **schema}) is None


def test_a_long_description_is_cut_where_a_word_ends() -> None:
    assert description_of("short") == "short"
    cut = description_of("word " * 500)
    assert len(cut) <= DESCRIPTION_CHARS
    assert cut.endswith("word …")
    assert len(description_of("x" * 5_000)) == DESCRIPTION_CHARS


def said(*, objects: bool = False, **message: Any) -> Any:
    wire = {"role": "assistant", "content": None, "refusal": None, **message}
    return peers("openai.types.chat:ChatCompletionMessage").model_validate(wire) if objects else wire


def function(arguments: str, *, id: str = "c1", name: str = "forecast") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@OBJECTS
def test_calls_are_read_from_the_packages_objects_and_from_the_wire(objects: bool) -> None:
    other = {"id": "c3", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    calls = [function('{"city": "Oslo"}'), function('{"city": "Os', id="c2"), other]
    assert calls_from_openai(said(objects=objects, tool_calls=calls)) == [
        ToolCall("c1", "forecast", {"city": "Oslo"}),
        ToolCall("c2", "forecast", '{"city": "Os'),  # type: ignore[arg-type]
    ]


def test_an_answer_without_calls_is_its_text_or_its_refusal() -> None:
    assert message_from_openai(said(content="hello")) == {"role": "assistant", "content": "hello", "tool_calls": []}
    assert message_from_openai(said(refusal="I will not"))["content"] == "I will not"


def test_another_thing_is_no_response() -> None:
    with pytest.raises(TypeError, match="a response is an object of the client's package or a map, not a int"):
        calls_from_openai(7)


def test_a_result_is_a_tool_message_and_a_failure_says_so() -> None:
    assert result_to_openai(result("fine")) == {"role": "tool", "tool_call_id": "c1", "content": "fine"}
    failed = result_to_openai(result("no such city", status="error", kind="failed"))
    assert failed["content"] == "Error: no such city"
    assert result_to_openai(result("a\ud800b"))["content"] == "a\ufffdb"


@pytest.mark.slow
def test_a_conversation_is_the_packages_own_type_and_pictures_follow_the_results() -> None:
    call, other = ToolCall("c1", "picture", {}), ToolCall("c2", "forecast", '{"city": ')  # type: ignore[arg-type]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "show me"}]},
        {"role": "assistant", "content": "", "tool_calls": [call, other], "kept": "by the host"},
        {"role": "tool", "tool_call_id": "c1", "name": "picture", "content": "here", "images": [PICTURE]},
        {"role": "tool", "tool_call_id": "c2", "name": "forecast", "content": "not JSON", "is_error": True},
        {"role": "assistant", "content": "done", "tool_calls": []},
        {"role": "user", "content": "thanks"},
    ]
    shown = messages_to_openai(messages)
    check("openai.types.chat:ChatCompletionMessageParam", json.loads(json.dumps(shown)), many=True)
    assert [each["role"] for each in shown] == [
        "system", "user", "assistant", "tool", "tool", "user", "assistant", "user"
    ]  # fmt: skip
    assert [each["function"]["arguments"] for each in shown[2]["tool_calls"]] == ["{}", '{"city": ']
    assert shown[4]["content"] == "Error: not JSON"
    note, image = shown[5]["content"]
    assert note["text"] == "1 picture that the call c1 answered:"
    assert image["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()


async def test_a_client_that_blocks_is_refused() -> None:
    class Completions:
        def create(self, **request: Any) -> str:
            return "hello"

    class Client:
        chat = type("Chat", (), {"completions": Completions()})

    with pytest.raises(TypeError, match="the package's async client"):
        await openai_model(Client(), model="m")([], [])


def test_tools_without_arguments_are_objects_without_properties() -> None:
    bare = Tool(name="bare", description="", input_schema={})
    assert tools_to_openai([bare])[0]["function"]["parameters"] == {"type": "object", "properties": {}}


_LEAVES: list[Any] = [{"type": "string"}, {"type": "array"}, {"type": "object"}, {"enum": [1, True]}, True, {}]
_SCHEMAS = st.recursive(
    st.sampled_from(_LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda item: {"type": "array", "items": item}),
        inner.map(lambda item: {"type": "object", "additionalProperties": item}),
        st.lists(inner, min_size=1, max_size=2).map(lambda items: {"anyOf": items}),
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2).map(
            lambda names: {"type": "object", "properties": names, "required": list(names)}
        ),
    ),
    max_leaves=6,
)
_VALUES = st.recursive(
    st.sampled_from([None, True, 1, "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=40)
@given(_SCHEMAS, _VALUES)
def test_what_is_filled_in_changes_nothing_of_what_is_valid(schema: Any, value: Any) -> None:
    whole = {"type": "object", "properties": {"x": schema}}
    shown = openai_schema(whole)
    assert jsonschema_rs.is_valid(shown, {"x": value}) == jsonschema_rs.is_valid(whole, {"x": value})
    assert unportable(shown) is None
