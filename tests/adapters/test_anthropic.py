"""Anthropic's messages: what the adapter makes and reads is what the package's own types say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rho_wasm import Image, Tool, ToolCall, ToolRegistry, ToolRunner
from rho_wasm.adapters.anthropic import (
    CONTENT_KEY,
    calls_from_anthropic,
    message_from_anthropic,
    messages_to_anthropic,
    result_to_anthropic,
    tools_to_anthropic,
)
from tests.adapters.wire import ALL, OBJECTS, PICTURE, PNG, STORED, check, forecast, peers, result

THINKING = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def answer(*content: dict[str, Any], stop_reason: str = "tool_use", objects: bool = False) -> Any:
    wire = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return peers("anthropic.types:Message").model_validate(wire) if objects else wire


def use(arguments: dict[str, Any], *, id: str = "c1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "forecast", "input": arguments}


@pytest.mark.slow
def test_tools_are_the_packages_own_type_and_one_that_is_refused_is_left_out() -> None:
    shown = tools_to_anthropic([*ALL, STORED])
    check("anthropic.types:ToolParam", shown, many=True)
    assert [each["name"] for each in shown] == [each.name for each in ALL]
    assert shown[0]["input_schema"]["type"] == "object"


def test_alternatives_at_the_top_are_shown_as_one_object() -> None:
    schema = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}}
    odd = Tool(name="odd", description="", input_schema=schema)
    assert tools_to_anthropic([odd])[0]["input_schema"] == {"type": "object", "properties": {"a": {}, "b": {}}}


@OBJECTS
def test_an_answer_keeps_what_it_was_made_of(objects: bool) -> None:
    given = answer(THINKING, {"type": "text", "text": "I look."}, use({"city": "Oslo"}), objects=objects)
    message = message_from_anthropic(given)
    assert message["content"] == "I look."
    assert message["tool_calls"] == [ToolCall("c1", "forecast", {"city": "Oslo"})]
    assert message[CONTENT_KEY][0] == THINKING
    assert message[CONTENT_KEY][2] == use({"city": "Oslo"})


async def test_a_call_that_was_cut_off_is_refused_when_it_runs() -> None:
    given = answer(use({"city": "Oslo"}), use({"city": "Ro"}, id="c2"), stop_reason="max_tokens")
    whole, cut = calls_from_anthropic(given)
    assert whole.arguments == {"city": "Oslo"}
    refused = await ToolRunner(ToolRegistry([forecast])).run(cut)
    assert refused.reason == "invalid_arguments"
    assert "cut off: the answer reached max_tokens" in refused.text
    assert calls_from_anthropic(answer(use({}), {"type": "text", "text": "and"}, stop_reason="max_tokens")) == [
        ToolCall("c1", "forecast", {})
    ]


@pytest.mark.slow
def test_results_are_the_packages_own_type() -> None:
    for one in (result("fine"), result(""), result("here", images=(PICTURE,)), result("no", status="error")):
        check("anthropic.types:ToolResultBlockParam", result_to_anthropic(one))


def test_a_result_is_a_tool_result_block() -> None:
    shown = result_to_anthropic(result("here", images=(PICTURE,)))
    assert shown["content"][0] == {"type": "text", "text": "here"}
    assert shown["content"][1]["source"]["media_type"] == "image/png"
    assert shown["is_error"] is False


def test_an_empty_text_is_no_block_because_the_api_refuses_one() -> None:
    assert "content" not in result_to_anthropic(result(""))
    assert "content" not in result_to_anthropic(result(" \n"))


def test_a_failure_is_an_error_and_has_text_alone() -> None:
    shown = result_to_anthropic(result("no", status="error", kind="failed", images=(PICTURE,)))
    assert shown["is_error"] is True
    assert shown["content"] == [{"type": "text", "text": "no"}]


def test_a_picture_that_the_api_refuses_is_named_instead() -> None:
    large = Image("image/png", PNG + bytes(4 * 1024 * 1024))
    shown = result_to_anthropic(result("here", images=(large, PICTURE)))
    assert [block["type"] for block in shown["content"]] == ["text", "text", "image"]
    assert "a picture was left out" in shown["content"][1]["text"]


@pytest.mark.slow
def test_a_conversation_is_the_packages_own_type_and_the_results_of_a_turn_are_one_message() -> None:
    answered = message_from_anthropic(answer(THINKING, use({"city": "Oslo"}), use({"city": "Rome"}, id="c2")))
    unread = ToolCall("c4", "forecast", "{not JSON")  # type: ignore[arg-type]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "show me"}]},
        answered,
        {"role": "tool", "tool_call_id": "c1", "name": "forecast", "content": "rain", "images": [PICTURE]},
        {"role": "tool", "tool_call_id": "c2", "name": "forecast", "content": "no", "is_error": True},
        {"role": "assistant", "content": "Next.", "tool_calls": [ToolCall("c3", "forecast", {"city": "Bern"}), unread]},
        {"role": "tool", "tool_call_id": "c3", "name": "forecast", "content": "sun"},
        {"role": "tool", "tool_call_id": "c4", "name": "forecast", "content": "not JSON", "is_error": True},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "user", "content": "thanks"},
    ]
    system, shown = messages_to_anthropic(messages)
    shown = json.loads(json.dumps(shown))
    check("anthropic.types:TextBlockParam", system, many=True)
    check("anthropic.types:MessageParam", shown, many=True)
    assert system == [{"type": "text", "text": "be brief"}]
    assert [each["role"] for each in shown] == ["user", "assistant", "user", "assistant", "user", "user"]
    assert shown[1]["content"][0] == THINKING
    assert [block["tool_use_id"] for block in shown[2]["content"]] == ["c1", "c2"]
    assert [block["is_error"] for block in shown[2]["content"]] == [False, True]
    assert shown[3]["content"][2]["input"] == {"unreadable": "{not JSON"}
