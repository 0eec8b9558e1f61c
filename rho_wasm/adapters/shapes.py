"""What the adapters share: their answers as maps, the arguments of past calls, pictures as text, failures as text."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from rho_wasm.json_arguments import Unreadable, read_object
from rho_wasm.plain import json_text, jsonable
from rho_wasm.rendering import model_text
from rho_wasm.results import Image
from rho_wasm.tools import Tool
from rho_wasm.untrusted import type_name

__all__ = [
    "Tools",
    "arguments_map",
    "arguments_text",
    "as_map",
    "data_url",
    "encoded",
    "failure_text",
    "listed",
    "tool_text",
]

Tools: TypeAlias = Iterable[Tool] | Mapping[str, Tool]
"""Tools, or a snapshot of a registry, which has them by name."""


def listed(tools: Tools) -> Iterable[Tool]:
    """The tools, also of a snapshot, whose iterator answers names."""
    return tools.values() if isinstance(tools, Mapping) else tools


def as_map(given: Any) -> Mapping[str, Any]:
    """A response object of a client's package as what came over the wire; a map as it is. Raises TypeError."""
    if isinstance(given, Mapping):
        return given
    dump = getattr(given, "model_dump", None)
    if not callable(dump):
        raise TypeError(f"a response is an object of the client's package or a map, not a {type_name(given)}")
    shown: Mapping[str, Any] = dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    return shown


def arguments_text(arguments: Any) -> str:
    """The arguments of a call that a model made before, as the text that it is shown again."""
    return arguments if type(arguments) is str else json_text(arguments)[0]


def arguments_map(arguments: Any) -> dict[str, Any]:
    """The same where an API takes nothing but objects: a text that is none stands in one."""
    if not isinstance(arguments, str):
        shown: dict[str, Any] = jsonable(arguments or {})
        return shown
    try:
        return read_object(arguments)[0]
    except Unreadable:
        return {"unreadable": model_text(arguments, trusted=True)}


def tool_text(message: Mapping[str, Any]) -> str:
    """The text of a tool's message, as an API can send it."""
    content = message.get("content")
    return model_text(content if type(content) is str else json.dumps(content, default=str), trusted=True)


def failure_text(message: Mapping[str, Any]) -> str:
    """The same where an API has no place to say that a call failed: then the text says it."""
    text = tool_text(message)
    return f"Error: {text}" if message.get("is_error") is True and not text.startswith("Error") else text


def encoded(image: Image) -> str:
    """The bytes of a picture in base64."""
    return base64.b64encode(image.data).decode()


def data_url(image: Image) -> str:
    """A picture as a URL that has it in itself (RFC 2397)."""
    return f"data:{image.mime_type};base64,{encoded(image)}"
