"""The Model Context Protocol's shapes of tools, calls and results, both ways, as the JSON that goes over the wire.

Plain dicts, so that this needs no package; ``mcp_types`` validates them. Two things differ between the protocol's
versions: until 2025-11-25 (``newest=False``) an answer's schema and structured content are objects or left out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from rho_wasm.adapters.shapes import encoded
from rho_wasm.calls import ToolCall
from rho_wasm.errors import PlainError
from rho_wasm.frozen import thaw
from rho_wasm.plain import encode, jsonable, plain
from rho_wasm.rendering import model_text
from rho_wasm.results import Failed, Image, Ok, ToolResult
from rho_wasm.tools import Handler, Tool

__all__ = [
    "DETAILS_KEY",
    "HEADER_KEY",
    "RESULT_KEY",
    "TOOL_KEY",
    "call_from_mcp",
    "declares_answers",
    "result_from_mcp",
    "result_to_mcp",
    "tool_from_mcp",
    "tool_to_mcp",
]

RESULT_KEY = "rho-wasm/result"
"""In a result's ``_meta``: status, kind and reason of the call, its generation, what it used."""
HEADER_KEY = "x-mcp-header"
"""In the schema of an argument: the HTTP header that clients copy it into."""
DETAILS_KEY = "rho-wasm/details"
"""In a result's ``_meta``: what the tool said to the host's screens only."""
TOOL_KEY = "rho-wasm/tool"
"""In a tool's ``_meta``: the artifact that answers, its language, and what it was granted."""

_WITHIN = frozenset(
    {
        *("clock.monotonic", "clock.now", "kv.delete", "kv.get", "kv.list", "kv.put"),
        *("log.write", "progress.report", "random.bytes"),
    }
)
"""What reaches nothing beyond the host and the tool's own keys."""
_DETAILS_BYTES = 1024 * 1024
_HINTS = {"read_only": "readOnlyHint", "destructive": "destructiveHint", "idempotent": "idempotentHint"}


def tool_to_mcp(tool: Tool, *, newest: bool = True) -> dict[str, Any]:
    """``tool`` as ``tools/list`` has it. Its hints are the host's word, of a guest's tool too (they follow its grants).

    An untrusted tool's schema has no say in which arguments clients copy into HTTP headers. The ``metadata`` of a tool
    stays here: a guest's own would steer clients.
    """
    schema = thaw(tool.input_schema)
    shown: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        # It may say that null is taken too, or nothing at all: arguments are an object.
        "inputSchema": {**(_without_headers(schema) if tool.untrusted else schema), "type": "object"},
    }
    if declares_answers(tool, newest=newest):
        output = thaw(tool.output_schema)
        shown["outputSchema"] = _without_headers(output) if tool.untrusted else output
    hints = {said: value for field, said in _HINTS.items() if (value := getattr(tool, field)) is not None}
    origin = tool.metadata.get("rho_wasm")
    if isinstance(origin, Mapping):
        shown["_meta"] = {TOOL_KEY: thaw(origin)}
        # A guest with other grants, and a tool of the host of which nothing is said, may meet anything.
        if "artifact" in origin and _WITHIN.issuperset(origin.get("grants", ())):
            hints["openWorldHint"] = False
    if hints:
        shown["annotations"] = hints
    return shown


def declares_answers(tool: Tool, *, newest: bool = True) -> bool:
    """Whether clients are told the schema of the answers of ``tool``: then they refuse an answer without a value."""
    return tool.output_schema is not None and (newest or tool.output_schema.get("type") == "object")


def tool_from_mcp(shown: Mapping[str, Any], *, handler: Handler | None = None) -> Tool:
    """The tool of another server as one of this host, untrusted: what it says of its effects is a claim.

    So its hints are taken only where they make it stricter: a tool that claims to read only is not believed. Raises
    ValueError for a name, a description or a schema that no tool of this host may have.
    """
    hints = shown.get("annotations")
    said = hints if isinstance(hints, Mapping) else {}
    return Tool(
        name=shown.get("name"),
        description=shown.get("description") or "",
        input_schema=shown.get("inputSchema"),
        output_schema=shown.get("outputSchema"),
        read_only=False if said.get("readOnlyHint") is False else None,
        destructive=True if said.get("destructiveHint") is True else None,
        idempotent=False if said.get("idempotentHint") is False else None,
        untrusted=True,
        handler=handler,
    )


def call_from_mcp(params: Mapping[str, Any], *, id: str) -> ToolCall:
    """The call that the ``params`` of ``tools/call`` ask for. No arguments are an empty map."""
    arguments = params.get("arguments")
    return ToolCall(id=id, name=params["name"], arguments={} if arguments is None else arguments)


def result_to_mcp(result: ToolResult, *, tool: Tool | None = None, newest: bool = True) -> dict[str, Any]:
    """``result`` as ``tools/call`` answers it; ``tool`` is the one that answered, where it is known.

    The model reads the text (a halt's reason where its value says nothing) and the images. A value that is an object is
    structured content too, in the newest version any value is if the tool declares a schema of its answers; of a text
    that was cut it is left out, unless the schema demands it. An answer other than the declared one (a question, a
    halt) is an error for clients, which would refuse it otherwise. The log stays in the host.
    """
    declares = tool is not None and declares_answers(tool, newest=newest)
    text = result.text
    if result.status == "halt" and result.value is None:
        text = result.halt_reason or ""
    content: list[dict[str, Any]] = [{"type": "text", "text": model_text(text, trusted=True)}]
    content += [{"type": "image", "data": encoded(image), "mimeType": image.mime_type} for image in result.images]
    answered = result.status == "ok"
    shown: dict[str, Any] = {
        "content": content,
        "isError": result.status == "error" or (declares and not answered),
        "resultType": "complete",
        "_meta": _meta(result),
    }
    if answered and (declares or (isinstance(result.value, Mapping) and result.output_id is None)):
        untrusted = result.generation is not None if tool is None else tool.untrusted
        shown["structuredContent"] = _shown_value(jsonable(result.value), trusted=not untrusted)
    return shown


def result_from_mcp(shown: Mapping[str, Any]) -> Ok | Failed:
    """What another server's tool answered. Structured content is the value, else the texts, one after the other.

    Content that this host has no place for (audio, resources, pictures of other kinds) is named in the details. Raises
    nothing for what is not as the protocol says: it is left out. But what is not plainly a success is a failure.
    """
    texts: list[str] = []
    images: list[Image] = []
    other: list[str] = []
    content = shown.get("content")
    for block in content if isinstance(content, Sequence) and not isinstance(content, str) else ():
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif kind == "image" and (image := _image(block)) is not None:
            images.append(image)
        else:
            other.append(str(kind)[:32])
    details = {"left_out": other} if other else None
    structured = shown.get("structuredContent")
    value = "\n".join(texts) if structured is None else structured
    if shown.get("isError") not in (None, False):
        return Failed("\n".join(texts) or value, details=details)
    return Ok(value, tuple(images), details)


def _image(block: Mapping[str, Any]) -> Image | None:
    try:
        data = base64.b64decode(block["data"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    mime_type = block.get("mimeType")
    return Image(mime_type, data) if isinstance(mime_type, str) else None


def _meta(result: ToolResult) -> dict[str, Any]:
    about = {
        "status": result.status,
        "kind": result.kind,
        "reason": result.reason,
        "generation": result.generation,
        "fuelUsed": result.fuel_used,
        "durationMs": round(result.duration_ms, 3),
        "outputId": result.output_id,
        "haltReason": None if result.halt_reason is None else model_text(result.halt_reason, trusted=True),
    }
    meta: dict[str, Any] = {RESULT_KEY: {name: value for name, value in about.items() if value is not None}}
    if result.details is not None:
        try:
            details = plain(result.details)
            encode(details, max_bytes=_DETAILS_BYTES)
            meta[DETAILS_KEY] = jsonable(details)
        except PlainError:
            # The host's screens have them whole, with the event; a message has bounds.
            meta[DETAILS_KEY] = None
    return meta


def _shown_value(value: Any, *, trusted: bool) -> Any:
    """``value`` (JSON) with every text as a model may read it."""
    if type(value) is str:
        return model_text(value, trusted=trusted)
    if type(value) is dict:
        return {model_text(key, trusted=trusted): _shown_value(item, trusted=trusted) for key, item in value.items()}
    return [_shown_value(item, trusted=trusted) for item in value] if type(value) is list else value


def _without_headers(schema: Any) -> Any:
    """``schema`` without the annotation, which is text; what has a schema is an argument of that name."""
    if type(schema) is dict:
        return {
            key: _without_headers(item) for key, item in schema.items() if key != HEADER_KEY or type(item) is not str
        }
    return [_without_headers(item) for item in schema] if type(schema) is list else schema
