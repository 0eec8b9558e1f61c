"""The messages of a loop: plain dicts, and what can be read from a list of them.

* ``{"role": "user" | "system", "content": ...}``: anything; passed to the model as it is.
* ``{"role": "assistant", "content": str, "tool_calls": [ToolCall, ...]}``: what the model answered. On input a call
  may be a map with ``id``, ``name`` and ``arguments`` instead.
* ``{"role": "tool", "tool_call_id": str, "name": str, "content": str, "is_error": bool}``: one call's result; with
  ``images`` (a list of :class:`rho_wasm.Image`) if it has any, and with ``details`` as far as the loop keeps them.
  While a question waits for its answer the content is the question and ``ask_user`` holds its options.

Everything that a loop must remember between two runs is in them, so a host keeps messages and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from rho_wasm.calls import ToolCall
from rho_wasm.json_arguments import Unreadable, read_object
from rho_wasm.results import ToolResult
from rho_wasm.untrusted import type_name

__all__ = [
    "Message",
    "assistant_message",
    "for_model",
    "open_calls",
    "open_question",
    "readable",
    "settled",
    "tool_message",
]

Message: TypeAlias = dict[str, Any]


def assistant_message(given: Any) -> Message:
    """A copy of what a model answered, its calls as :class:`ToolCall`.

    Raises TypeError or ValueError for anything else than an assistant's message: that is the host's model function at
    fault, not a tool.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"a model answers an assistant's message (a map), not a {type_name(given)}")
    if given.get("role", "assistant") != "assistant":
        raise ValueError(f"a model answers with the role 'assistant', not {given['role']!r}")
    calls = [_call(call) for call in given.get("tool_calls") or ()]
    return {**given, "role": "assistant", "content": given.get("content") or "", "tool_calls": calls}


def _message(given: object) -> Message:
    if not isinstance(given, Mapping):
        raise TypeError(f"a message is a map with a role, not a {type_name(given)}")
    if not isinstance(given.get("role"), str):
        raise ValueError("a message has a role: user, system, assistant or tool")
    if given["role"] == "tool" and not isinstance(given.get("tool_call_id"), str):
        raise ValueError("a tool's message has the tool_call_id that it answers")
    return assistant_message(given) if given["role"] == "assistant" else dict(given)


def _call(given: Any) -> ToolCall:
    if isinstance(given, Mapping):
        missing = [key for key in ("id", "name") if key not in given]
        if missing:
            raise ValueError(f"a tool call has no {' and no '.join(missing)}")
        given = ToolCall(id=given["id"], name=given["name"], arguments=given.get("arguments", {}))
    if not isinstance(given, ToolCall):
        raise TypeError(f"a tool call is a ToolCall or a map, not a {type_name(given)}")
    words: tuple[object, object] = (given.id, given.name)
    if not all(isinstance(word, str) for word in words):
        raise TypeError("the id and the name of a tool call are text")
    return given


def readable(call: ToolCall) -> ToolCall:
    """``call`` with its arguments as a map, where a model wrote them as text that has one reading; else as it is.

    For calls that the caller answers: a runner reads the arguments of its own calls, and tells the model of it.
    """
    given: object = call.arguments
    if given is not None and type(given) is not str:
        return call
    try:
        return replace(call, arguments=read_object(given)[0])
    except Unreadable:
        return call


def tool_message(result: ToolResult, *, details: Any = None) -> Message:
    """The message of one call's result. ``details`` is what the session keeps of the result's."""
    message: Message = {
        "role": "tool",
        "tool_call_id": result.call_id,
        "name": result.tool,
        "content": result.text,
        "is_error": not result.ok,
    }
    if result.images:
        message["images"] = list(result.images)
    if details is not None:
        message["details"] = details
    if result.status == "ask_user":
        message["ask_user"] = dict(result.options or {})
    return message


def _is_question(message: Mapping[str, Any]) -> bool:
    return message["role"] == "tool" and "ask_user" in message


def settled(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """A copy in which each question that a later tool message of the same call answers is gone.

    Raises TypeError or ValueError for what is no list of messages: the host's fault, before anything runs.
    """
    copied = [_message(one) for one in messages]
    kept: list[Message] = []
    answers: set[str] = set()
    for message in reversed(copied):
        if message["role"] == "assistant":
            answers.clear()  # an earlier turn may have used the same ids
        elif message["role"] == "tool":
            if not _is_question(message):
                answers.add(message["tool_call_id"])
            elif message["tool_call_id"] in answers:
                continue
        kept.append(message)
    return kept[::-1]


def open_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls of the last assistant message that no tool message stands for yet.

    A question that waits stands for its call: its tool has run.
    """
    assistant, after = _last_turn(messages)
    answered = Counter(message["tool_call_id"] for message in after if message["role"] == "tool")
    waiting: list[ToolCall] = []
    for call in assistant.get("tool_calls", ()):
        # Two calls of one id need two answers.
        if answered[call.id]:
            answered[call.id] -= 1
        else:
            waiting.append(call)
    return waiting


def open_question(messages: Sequence[Message]) -> Message | None:
    """The first question of the last turn that waits for its answer, or None."""
    return next(filter(_is_question, _last_turn(messages)[1]), None)


def _last_turn(messages: Sequence[Message]) -> tuple[Message, Sequence[Message]]:
    """The last assistant message (empty if there is none) and what follows it."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place]["role"] == "assistant":
            return messages[place], messages[place + 1 :]
    return {}, ()


def for_model(messages: Iterable[Message]) -> list[Message]:
    """What a model reads: copies without ``details``, which are for the host's screens and its session alone."""
    return [{key: value for key, value in message.items() if key != "details"} for message in messages]
