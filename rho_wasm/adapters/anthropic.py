"""Anthropic's messages: tools, calls, results and messages, both ways, as JSON; and a model for ``ToolLoop``.

Plain dicts, so that this needs no package. A model that thinks wants its thinking back, signed as it was, with the
results of its calls. So a message keeps the blocks that it was made of, under :data:`CONTENT_KEY`, and they go back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rho_wasm.adapters.answered import BadAnswer, awaited, maps_of, text_of
from rho_wasm.adapters.shapes import Tools, arguments_map, as_map, encoded, listed, tool_text
from rho_wasm.calls import ToolCall
from rho_wasm.loop import Model
from rho_wasm.messages import Message, tool_message
from rho_wasm.portable import object_schema, refused_argument
from rho_wasm.rendering import model_text
from rho_wasm.results import Image, ToolResult
from rho_wasm.tools import Tool

__all__ = [
    "CONTENT_KEY",
    "anthropic_model",
    "calls_from_anthropic",
    "message_from_anthropic",
    "messages_to_anthropic",
    "result_to_anthropic",
    "tools_to_anthropic",
]

CONTENT_KEY = "anthropic_content"
"""In an assistant's message: the content blocks of the response, as JSON."""

_MAX_IMAGE_CHARS: Final = 5 * 1024 * 1024
"""Of a picture in base64: a larger one makes the API refuse this request and all that follow it."""


def tools_to_anthropic(tools: Tools) -> list[dict[str, Any]]:
    """The ``tools`` of a request.

    A stored tool with an argument whose name the API refuses would cost the model all others, so it is left out. (No
    such tool can be registered or staged: :func:`rho_wasm.portable.unportable`.)
    """
    return [
        {
            "name": tool.name,
            "description": model_text(tool.description, trusted=True),
            "input_schema": object_schema(tool.input_schema),
        }
        for tool in listed(tools)
        if refused_argument(tool.input_schema) is None
    ]


def calls_from_anthropic(message: Any) -> list[ToolCall]:
    """The calls of a response: a ``Message`` of the package, or what came over the wire.

    A last call that the bound on tokens cut off has no arguments that can be trusted: it is refused when it is run.
    Raises :class:`rho_wasm.adapters.answered.BadAnswer` for a call without id, name or input.
    """
    said = as_map(message)
    blocks = maps_of(said.get("content"), where="content")
    uses = enumerate(blocks)
    calls = [_call(block, f"content[{n}]") for n, block in uses if block.get("type") == "tool_use"]
    if calls and said.get("stop_reason") == "max_tokens" and blocks[-1].get("type") == "tool_use":
        cut: Any = "(cut off: the answer reached max_tokens)"
        calls[-1] = ToolCall(calls[-1].id, calls[-1].name, cut)
    return calls


def _call(block: Mapping[str, Any], where: str) -> ToolCall:
    given: Any = block.get("input")
    if given is None:
        raise BadAnswer(f"{where}.input", "an object", given)
    return ToolCall(text_of(block, "id", where=where), text_of(block, "name", where=where), given)


def message_from_anthropic(message: Any) -> Message:
    """An assistant's message for :class:`rho_wasm.ToolLoop`."""
    said = as_map(message)
    blocks = [dict(block) for block in maps_of(said.get("content"), where="content")]
    texts = [text_of(block, "text", where="content", empty=True) for block in blocks if block.get("type") == "text"]
    return {
        "role": "assistant",
        "content": "".join(texts),
        "tool_calls": calls_from_anthropic(said),
        CONTENT_KEY: blocks,
    }


def result_to_anthropic(result: ToolResult) -> dict[str, Any]:
    """The ``tool_result`` block of one call. Those of one turn belong in one message of the user's, in any order."""
    return _tool(tool_message(result))


def messages_to_anthropic(
    messages: Iterable[Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A loop's messages as a request has them: its ``system`` blocks, and its ``messages``.

    The content of users and systems is passed on as it is. Results that follow one another become one message, as the
    API demands. An assistant's message that says nothing and calls nothing is left out: the API refuses it.
    """
    system: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for message in messages:
        role = message["role"]
        if role == "tool":
            if not results:
                shown.append({"role": "user", "content": results})
            results.append(_tool(message))
            continue
        results = []
        if role in ("system", "developer"):
            content = message["content"]
            system += [{"type": "text", "text": content}] if isinstance(content, str) else content
        elif role != "assistant":
            shown.append({"role": role, "content": message["content"]})
        elif blocks := _assistant(message):
            shown.append({"role": "assistant", "content": blocks})
    return system, shown


def _tool(message: Mapping[str, Any]) -> dict[str, Any]:
    failed = message.get("is_error") is True
    text = tool_text(message)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
    # Of a result that is an error the API takes nothing but text.
    blocks += [] if failed else [_picture(image) for image in message.get("images") or ()]
    shown = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": blocks, "is_error": failed}
    if not blocks:
        del shown["content"]
    return shown


def _picture(image: Image) -> dict[str, Any]:
    data = encoded(image)
    if len(data) > _MAX_IMAGE_CHARS:
        size = f"{len(data)} characters in base64, at most {_MAX_IMAGE_CHARS} can be sent"
        return {"type": "text", "text": f"[a picture was left out: it has {size}]"}
    return {"type": "image", "source": {"type": "base64", "media_type": image.mime_type, "data": data}}


def _assistant(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if CONTENT_KEY in message:
        return [dict(block) for block in message[CONTENT_KEY]]
    text = message.get("content") or ""
    said = [{"type": "text", "text": text}] if text.strip() else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_map(call.arguments)}
        for call in message.get("tool_calls") or ()
    ]
    return [*said, *calls]


def anthropic_model(client: Any, *, model: str, max_tokens: int = 8_192, **options: Any) -> Model:
    """The ``model`` of a :class:`rho_wasm.ToolLoop`, asked through ``client``, an ``anthropic.AsyncAnthropic``.

    ``options`` go into every request (``thinking``, ``tool_choice``, ...); blocks of ``system`` among them stand before
    those of the messages. What the client raises leaves the loop; its messages can be run again.
    """
    given = options.pop("system", ())
    first = [{"type": "text", "text": given}] if isinstance(given, str) else list(given)

    async def ask(messages: list[Message], tools: Sequence[Tool]) -> Message:
        system, shown = messages_to_anthropic(messages)
        request: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": shown, **options}
        if system := [*first, *system]:
            request["system"] = system
        if tools:
            request["tools"] = tools_to_anthropic(tools)
        return message_from_anthropic(await awaited(client.messages.create, request))

    return ask
