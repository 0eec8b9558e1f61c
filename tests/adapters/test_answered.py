"""Answers of models' APIs that are not as documented: one error says which field, and shows nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rho_wasm.adapters.answered import BadAnswer
from rho_wasm.adapters.anthropic import calls_from_anthropic, message_from_anthropic
from rho_wasm.adapters.mcp import result_from_mcp
from rho_wasm.adapters.openai import calls_from_openai, message_from_openai
from rho_wasm.adapters.openai_responses import calls_from_responses, message_from_responses
from rho_wasm.errors import RhoError
from rho_wasm.results import Failed, Ok


def of_chat(**call: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    return {"tool_calls": [{"id": "c", "type": "function", "function": function, **call}]}


def of_responses(**item: Any) -> dict[str, Any]:
    return {"output": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **item}]}


def of_messages(**block: Any) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}, **block}]}


@pytest.mark.parametrize(
    ("read", "answer", "field"),
    [
        (calls_from_openai, of_chat(id=None), "tool_calls[0].id"),
        (calls_from_openai, of_chat(function=None), "tool_calls[0].function"),
        (calls_from_openai, of_chat(function={"arguments": "{}"}), "tool_calls[0].function.name"),
        (calls_from_openai, of_chat(function={"name": "f", "arguments": 5}), "tool_calls[0].function.arguments"),
        (calls_from_openai, {"tool_calls": "secret"}, "tool_calls"),
        (calls_from_openai, {"tool_calls": [None]}, "tool_calls[0]"),
        (calls_from_responses, of_responses(call_id=""), "output[0].call_id"),
        (calls_from_responses, of_responses(name=None), "output[0].name"),
        (message_from_openai, {"content": ["secret"]}, "content"),
        (message_from_openai, {"content": {"text": "secret"}}, "content"),
        (message_from_openai, {"content": "", "refusal": 7}, "refusal"),
        (message_from_openai, {"content": False}, "content"),
        (message_from_responses, {"output": [{"type": "message", "content": [None]}]}, "content[0]"),
        (message_from_responses, {"output": [{"type": "message", "content": [{"text": ["secret"]}]}]}, "content.text"),
        (message_from_responses, {"output": [{"type": "message", "content": [{"refusal": 7}]}]}, "content.refusal"),
        (calls_from_anthropic, of_messages(id=None), "content[0].id"),
        (calls_from_anthropic, of_messages(input=None), "content[0].input"),
        (calls_from_anthropic, {"content": "secret"}, "content"),
        (message_from_anthropic, {"content": [{"type": "text", "text": None}]}, "content.text"),
    ],
)
def test_the_field_is_named(read: Callable[[Any], Any], answer: dict[str, Any], field: str) -> None:
    with pytest.raises(BadAnswer) as raised:
        read(answer)
    assert raised.value.field == field
    assert "secret" not in str(raised.value)


def test_it_is_an_error_of_this_package_and_of_a_value() -> None:
    assert issubclass(BadAnswer, RhoError)
    assert issubclass(BadAnswer, ValueError)


def test_a_refusal_is_said_where_nothing_else_is() -> None:
    refused = {"content": None, "refusal": "I will not."}
    assert message_from_openai(refused)["content"] == "I will not."
    assert message_from_openai({"content": "Yes.", "refusal": None})["content"] == "Yes."
    assert message_from_openai({})["content"] == ""


def test_blocks_without_a_type_are_no_calls() -> None:
    assert calls_from_anthropic({"content": [{"id": "c"}]}) == []


def test_long_arguments_stay_text_for_the_runner() -> None:
    long = '{"a": "' + "x" * 5_000 + '"}'
    kept: list[Any] = [calls_from_openai(of_chat(function={"name": "f", "arguments": long}))[0].arguments]
    kept += [calls_from_responses(of_responses(arguments=text))[0].arguments for text in (long, '{"a": 1}')]
    assert kept == [long, long, {"a": 1}]
    assert calls_from_openai(of_chat(function={"name": "f", "arguments": {"a": 1}}))[0].arguments == {"a": 1}


@pytest.mark.parametrize("said", [True, "true", 1, "false", []])
def test_what_is_not_plainly_a_success_is_a_failure(said: Any) -> None:
    assert isinstance(result_from_mcp({"content": [], "isError": said}), Failed)


@pytest.mark.parametrize("said", [{}, {"isError": False}, {"isError": None}])
def test_what_does_not_say_that_it_failed_is_a_success(said: dict[str, Any]) -> None:
    assert isinstance(result_from_mcp({"content": [], **said}), Ok)
