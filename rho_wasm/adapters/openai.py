"""OpenAI's chat completions: tools, calls, results and messages, both ways, as JSON; and a model for ``ToolLoop``.

Plain dicts, so that this needs no package. :mod:`rho_wasm.adapters.openai_responses` has the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rho_wasm.adapters.answered import arguments_of, awaited, map_of, maps_of, said_of, text_of
from rho_wasm.adapters.openai_schema import description_of, openai_schema, strict_schema
from rho_wasm.adapters.shapes import Tools, arguments_text, as_map, data_url, failure_text, listed
from rho_wasm.calls import ToolCall
from rho_wasm.loop import Model
from rho_wasm.messages import Message, tool_message
from rho_wasm.rendering import model_text
from rho_wasm.results import Image, ToolResult
from rho_wasm.tools import Tool

__all__ = [
    "calls_from_openai",
    "message_from_openai",
    "messages_to_openai",
    "openai_model",
    "result_to_openai",
    "tools_to_openai",
]


def tools_to_openai(tools: Tools, *, strict: bool = False) -> list[dict[str, Any]]:
    """The ``tools`` of a request (the API takes at most 128).

    ``strict``: the API holds the model to a tool's schema, where that is possible
    (:func:`rho_wasm.adapters.openai_schema.strict_schema`); the runner checks arguments in any case. A description is
    cut at 1,024 characters, beyond which the API refuses the request.
    """
    return [{"type": "function", "function": function_to_openai(tool, strict=strict)} for tool in listed(tools)]


def function_to_openai(tool: Tool, *, strict: bool) -> dict[str, Any]:
    """One function, in the words that both APIs share."""
    parameters = strict_schema(tool.input_schema) if strict else None
    return {
        "name": tool.name,
        "description": description_of(model_text(tool.description, trusted=True)),
        "parameters": openai_schema(tool.input_schema) if parameters is None else parameters,
        "strict": parameters is not None,
    }


def calls_from_openai(message: Any) -> list[ToolCall]:
    """The calls of an assistant's message: a ``ChatCompletionMessage``, or what came over the wire.

    Arguments that are no JSON object stay the text that the model wrote: the runner says what is wrong with it, or
    reads past it; and so do those of more than 4 KiB, which take long to read. Calls of anything else than functions
    are not the host's, and left out. Raises :class:`rho_wasm.adapters.answered.BadAnswer` for one without id or name.
    """
    calls = maps_of(as_map(message).get("tool_calls"), where="tool_calls")
    return [_call(call, f"tool_calls[{n}]") for n, call in enumerate(calls) if call.get("type") == "function"]


def _call(call: Mapping[str, Any], where: str) -> ToolCall:
    function, inside = map_of(call.get("function"), where=f"{where}.function"), f"{where}.function"
    arguments: Any = arguments_of(function, where=inside)
    return ToolCall(text_of(call, "id", where=where), text_of(function, "name", where=inside), arguments)


def message_from_openai(message: Any) -> Message:
    """An assistant's message for :class:`rho_wasm.ToolLoop`. Where the model refused to answer, that is its content.

    Raises :class:`rho_wasm.adapters.answered.BadAnswer` for one that is not as documented.
    """
    said = as_map(message)
    content = said_of(said, "content", "refusal")
    return {"role": "assistant", "content": content, "tool_calls": calls_from_openai(said)}


def result_to_openai(result: ToolResult) -> dict[str, Any]:
    """The ``tool`` message that answers one call. The API has text alone there; for pictures see
    :func:`messages_to_openai`. That a call failed is said in the text."""
    return _tool(tool_message(result))


def messages_to_openai(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A loop's messages as the request has them. Those of users, systems and developers are passed on as they are.

    Tools may answer text only, so the pictures of a turn follow its results, in a message of the user's that says which
    call each belongs to.
    """
    shown: list[dict[str, Any]] = []
    pictures: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            shown.append(_tool(message))
            pictures += _pictures(message.get("images") or (), message["tool_call_id"])
            continue
        if pictures:
            shown.append({"role": "user", "content": pictures})
            pictures = []
        shown.append(_assistant(message) if message["role"] == "assistant" else dict(message))
    return [*shown, {"role": "user", "content": pictures}] if pictures else shown


def _tool(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": message["tool_call_id"], "content": failure_text(message)}


def _pictures(images: Sequence[Image], call_id: str) -> list[dict[str, Any]]:
    if not images:
        return []
    of = f"{len(images)} picture{'s' if len(images) > 1 else ''} that the call {call_id} answered:"
    parts = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    return [{"type": "text", "text": of}, *parts]


def _assistant(message: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {"role": "assistant", "content": message.get("content") or ""}
    if calls := message.get("tool_calls"):
        shown["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
            }
            for call in calls
        ]
    return shown


def openai_model(client: Any, *, model: str, strict: bool = False, **options: Any) -> Model:
    """The ``model`` of a :class:`rho_wasm.ToolLoop`, asked through ``client``, an ``openai.AsyncOpenAI``.

    ``options`` go into every request (``temperature``, ``max_completion_tokens``, ...). What the client raises leaves
    the loop; its messages can be run again.
    """

    async def ask(messages: list[Message], tools: Sequence[Tool]) -> Message:
        request: dict[str, Any] = {"model": model, "messages": messages_to_openai(messages), **options}
        if tools:
            request["tools"] = tools_to_openai(tools, strict=strict)
        return message_from_openai((await awaited(client.chat.completions.create, request)).choices[0].message)

    return ask
