"""OpenAI's Responses API: what the adapter makes and reads is what the package's own types say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rho_wasm import ToolCall
from rho_wasm.adapters.openai_responses import (
    OUTPUT_KEY,
    calls_from_responses,
    message_from_responses,
    messages_to_responses,
    result_to_responses,
    tools_to_responses,
)
from tests.adapters.wire import ALL, OBJECTS, PICTURE, STORED, check, peers, picture, result

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}


def response(*output: dict[str, Any], objects: bool = False) -> Any:
    wire = {
        "id": "resp_1",
        "created_at": 1.0,
        "model": "m",
        "object": "response",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return peers("openai.types.responses:Response").model_validate(wire) if objects else wire


def text(*parts: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": part, "annotations": []} for part in parts]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}


def function(arguments: str, *, call_id: str = "c1") -> dict[str, Any]:
    return {"id": "fc_1", "type": "function_call", "call_id": call_id, "name": "forecast", "arguments": arguments}


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_tools_are_the_packages_own_type_and_always_say_whether_they_are_strict(strict: bool) -> None:
    shown = tools_to_responses([*ALL, STORED], strict=strict)
    check("openai.types.responses:FunctionToolParam", shown, many=True)
    assert all(type(each["strict"]) is bool for each in shown)
    assert tools_to_responses([picture], strict=strict)[0]["strict"] is strict


@OBJECTS
def test_an_answer_keeps_what_it_was_made_of(objects: bool) -> None:
    calls = function('{"city": "Oslo"}'), function("{", call_id="c2")
    given = response(REASONING, text("It ", "rains."), *calls, objects=objects)
    message = message_from_responses(given)
    assert message["content"] == "It rains."
    assert message["tool_calls"] == [
        ToolCall("c1", "forecast", {"city": "Oslo"}),
        ToolCall("c2", "forecast", "{"),  # type: ignore[arg-type]
    ]
    assert [item["type"] for item in message[OUTPUT_KEY]] == ["reasoning", "message", "function_call", "function_call"]
    assert message[OUTPUT_KEY][0] == REASONING
    assert calls_from_responses(given) == message["tool_calls"]


def test_a_refusal_is_the_answer() -> None:
    said = text()
    said["content"] = [{"type": "refusal", "refusal": "I will not"}]
    assert message_from_responses(response(said))["content"] == "I will not"


def test_a_result_is_a_function_call_output_with_its_pictures() -> None:
    assert result_to_responses(result("fine")) == {"type": "function_call_output", "call_id": "c1", "output": "fine"}
    shown = result_to_responses(result("here", images=(PICTURE,)))
    assert [part["type"] for part in shown["output"]] == ["input_text", "input_image"]
    assert result_to_responses(result("no", status="error", kind="failed"))["output"] == "Error: no"


@pytest.mark.slow
def test_a_conversation_is_the_packages_own_type() -> None:
    answered = message_from_responses(response(REASONING, function('{"city": "Oslo"}')))
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "show me"},
        answered,
        {"role": "tool", "tool_call_id": "c1", "name": "forecast", "content": "here", "images": [PICTURE]},
        {
            "role": "assistant",
            "content": "from elsewhere",
            "tool_calls": [ToolCall("c2", "forecast", {"city": "Rome"})],
        },
        {"role": "tool", "tool_call_id": "c2", "name": "forecast", "content": "no", "is_error": True},
    ]
    shown = json.loads(json.dumps(messages_to_responses(messages)))
    check("openai.types.responses:ResponseInputItemParam", shown, many=True)
    assert [item.get("type") or item["role"] for item in shown] == [
        "system", "user", "reasoning", "function_call", "function_call_output", "assistant", "function_call",
        "function_call_output",
    ]  # fmt: skip
    assert shown[2] == REASONING
