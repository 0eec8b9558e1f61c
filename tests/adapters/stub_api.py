"""A server on this machine that speaks as OpenAI's two APIs and Anthropic's do, and refuses what they refuse.

What its model says is a script: one :class:`Say` a request. Every request is kept, and looked at first as the real API
does: tools whose schema is no object, results that are missing or in the wrong place, empty texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Refused", "Say", "StubApi", "stub_api"]


@dataclass(frozen=True)
class Say:
    """One answer of the model: a text, and calls as ``(id, tool, arguments as text)``."""

    text: str = ""
    calls: Sequence[tuple[str, str, str]] = ()


class Refused(Exception):
    """What the real API would answer with status 400."""


@dataclass
class StubApi:
    """``asked`` are the bodies of the requests so far, ``refused`` why one was not answered."""

    port: int
    script: list[Say]
    asked: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append(body)
        check, write = _APIS[path]
        try:
            check(body)
        except Refused as error:
            self.refused.append(str(error))
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
        return 200, write(self.script.pop(0), len(self.asked))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, api: StubApi, *args: Any, **options: Any) -> None:
        self._api = api
        super().__init__(*args, **options)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, answer = self._api.answer(self.path, body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Nothing: tests have no console."""


@contextmanager
def stub_api(*script: Say) -> Iterator[StubApi]:
    def handle(*args: Any) -> _Handler:
        return _Handler(api, *args)

    with ThreadingHTTPServer(("127.0.0.1", 0), handle) as server:
        server.daemon_threads = True
        api = StubApi(server.server_port, list(script))
        thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()


def _check_schema(name: str, schema: Mapping[str, Any]) -> None:
    if schema.get("type") != "object" or schema.keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}:
        raise Refused(f"Invalid schema for function {name!r}: schema must have type 'object' at the top level")
    if "properties" not in schema:
        raise Refused(f"Invalid schema for function {name!r}: object schema missing properties")


def _check_chat(body: Mapping[str, Any]) -> None:
    for tool in body.get("tools", ()):
        _check_schema(tool["function"]["name"], tool["function"]["parameters"])
    waiting: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise Refused("messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
            if not isinstance(message["content"], str):
                raise Refused("the content of a tool message is text")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            raise Refused("an assistant message with 'tool_calls' must be followed by tool messages for each call")
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    if waiting:
        raise Refused("the following tool_call_ids did not have response messages: " + ", ".join(waiting))


def _write_chat(say: Say, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None, "refusal": None}
    if say.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in say.calls
        ]
    reason = "tool_calls" if say.calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
    }


def _check_responses(body: Mapping[str, Any]) -> None:
    for tool in body.get("tools", ()):
        _check_schema(tool["name"], tool["parameters"])
    kinds = [(item.get("type", "message"), item.get("call_id")) for item in body["input"]]
    for kind, call_id in kinds:
        if kind == "function_call" and ("function_call_output", call_id) not in kinds:
            raise Refused(f"No tool output found for function call {call_id}.")
        if kind == "function_call_output" and ("function_call", call_id) not in kinds:
            raise Refused(f"No tool call found for function call output with call_id {call_id}.")
        if kind == "function_call" and ("reasoning", None) not in kinds:
            raise Refused("a 'function_call' was provided without its required 'reasoning' item")


def _write_responses(say: Say, number: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = [{"id": f"rs_{number}", "type": "reasoning", "summary": []}]
    if say.text:
        part = {"type": "output_text", "text": say.text, "annotations": []}
        output.append(
            {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        )
    output += [
        {"id": f"fc_{id}", "type": "function_call", "call_id": id, "name": name, "arguments": arguments}
        for id, name, arguments in say.calls
    ]
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": "stub",
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _check_messages(body: Mapping[str, Any]) -> None:
    if "max_tokens" not in body:
        raise Refused("max_tokens: Field required")
    for tool in body.get("tools", ()):
        if tool["input_schema"].get("type") != "object":
            raise Refused("tools.0.custom.input_schema.type: Field required")
    waiting: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            raise Refused("messages: all messages must have non-empty content")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            raise Refused("tool_use ids were found without tool_result blocks immediately after")
        for block in [*blocks, *(inner for outer in blocks for inner in outer.get("content") or ())]:
            if block["type"] == "text" and not block["text"].strip():
                raise Refused("messages: text content blocks must be non-empty")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]


def _write_messages(say: Say, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text else []
    content += [
        {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
        for id, name, arguments in say.calls
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "stub",
        "content": content,
        "stop_reason": "tool_use" if say.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


_Check = Callable[[Mapping[str, Any]], None]
_Write = Callable[[Say, int], dict[str, Any]]
_APIS: Mapping[str, tuple[_Check, _Write]] = {
    "/v1/chat/completions": (_check_chat, _write_chat),
    "/v1/responses": (_check_responses, _write_responses),
    "/v1/messages": (_check_messages, _write_messages),
}
