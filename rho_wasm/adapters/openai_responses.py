"""OpenAI's Responses API: tools, calls, results and input items, both ways, as JSON; and a model for ``ToolLoop``.

A model that reasons wants its reasoning back with the results of its calls. So a message keeps the items that it was
made of, under :data:`OUTPUT_KEY`, and they are what goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rho_wasm.adapters.answered import arguments_of, awaited, maps_of, said_of, text_of
from rho_wasm.adapters.openai import function_to_openai
from rho_wasm.adapters.shapes import Tools, arguments_text, as_map, data_url, failure_text, listed
from rho_wasm.calls import ToolCall
from rho_wasm.loop import Model
from rho_wasm.messages import Message, tool_message
from rho_wasm.results import ToolResult
from rho_wasm.tools import Tool

__all__ = [
    "OUTPUT_KEY",
    "calls_from_responses",
    "message_from_responses",
    "messages_to_responses",
    "responses_model",
    "result_to_responses",
    "tools_to_responses",
]

OUTPUT_KEY = "openai_output"
"""In an assistant's message: the output items of the response, as JSON."""


def tools_to_responses(tools: Tools, *, strict: bool = False) -> list[dict[str, Any]]:
    """The ``tools`` of a request. As :func:`rho_wasm.adapters.openai.tools_to_openai`, but that they are flat here."""
    return [{"type": "function", **function_to_openai(tool, strict=strict)} for tool in listed(tools)]


def calls_from_responses(response: Any) -> list[ToolCall]:
    """The function calls of a ``Response``, or of what came over the wire. For arguments that are no JSON object see
    :func:`rho_wasm.adapters.openai.calls_from_openai`."""
    items = enumerate(_output(response))
    return [_call(item, f"output[{n}]") for n, item in items if item.get("type") == "function_call"]


def _call(item: Mapping[str, Any], where: str) -> ToolCall:
    arguments: Any = arguments_of(item, where=where)
    return ToolCall(text_of(item, "call_id", where=where), text_of(item, "name", where=where), arguments)


def _output(response: Any) -> list[Mapping[str, Any]]:
    return maps_of(as_map(response).get("output"), where="output")


def message_from_responses(response: Any) -> Message:
    """An assistant's message for :class:`rho_wasm.ToolLoop`.

    Raises :class:`rho_wasm.adapters.answered.BadAnswer` for a response that is not as documented.
    """
    response = as_map(response)
    output = _output(response)
    said = [item.get("content") for item in output if item.get("type") == "message"]
    parts = [part for content in said for part in maps_of(content, where="content")]
    texts = [said_of(part, "text", "refusal", where="content") for part in parts]
    return {
        "role": "assistant",
        "content": "".join(texts),
        "tool_calls": calls_from_responses(response),
        OUTPUT_KEY: [dict(item) for item in output],
    }


def result_to_responses(result: ToolResult) -> dict[str, Any]:
    """The ``function_call_output`` of one call, with its pictures. That a call failed is said in the text."""
    return _tool(tool_message(result))


def messages_to_responses(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A loop's messages as the ``input`` of a request. Those of users, systems and developers stay as they are."""
    shown: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "assistant":
            shown += _assistant(message)
        else:
            shown.append(_tool(message) if message["role"] == "tool" else dict(message))
    return shown


def _tool(message: Mapping[str, Any]) -> dict[str, Any]:
    text, images = failure_text(message), message.get("images") or ()
    output: Any = text
    if images:
        pictures = [{"type": "input_image", "image_url": data_url(image), "detail": "auto"} for image in images]
        output = [{"type": "input_text", "text": text}, *pictures]
    return {"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}


def _assistant(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if OUTPUT_KEY in message:
        return [dict(item) for item in message[OUTPUT_KEY]]
    said = [{"role": "assistant", "content": message["content"]}] if message.get("content") else []
    calls = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments_text(call.arguments)}
        for call in message.get("tool_calls") or ()
    ]
    return [*said, *calls]


def responses_model(client: Any, *, model: str, strict: bool = False, **options: Any) -> Model:
    """The ``model`` of a :class:`rho_wasm.ToolLoop`, asked through ``client``, an ``openai.AsyncOpenAI``.

    ``options`` go into every request. The conversation is the loop's, so nothing has to be stored elsewhere: with
    ``store=False`` say ``include=["reasoning.encrypted_content"]`` too, for models that reason.
    """

    async def ask(messages: list[Message], tools: Sequence[Tool]) -> Message:
        request: dict[str, Any] = {"model": model, "input": messages_to_responses(messages), **options}
        if tools:
            request["tools"] = tools_to_responses(tools, strict=strict)
        return message_from_responses(await awaited(client.responses.create, request))

    return ask
