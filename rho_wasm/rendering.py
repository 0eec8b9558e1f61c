"""What a model reads of a call: an answer's text, one line in place of an answer, the cut of a long text."""

from __future__ import annotations

import re
from typing import Protocol

from rho_wasm.calls import ToolCall
from rho_wasm.errors import ToolError
from rho_wasm.plain import json_text
from rho_wasm.results import KINDS, AskUser, Failed, Halt, HandlerResult, Ok
from rho_wasm.untrusted import inert

__all__ = ["beginning", "cut_at_line", "cut_text", "error_text", "model_text", "printed_name", "value_text"]

_WHAT_TO_DO = {
    "not_found": "no tool of that name is offered; use one of those that are",
    "invalid_arguments": "correct the arguments and call it again",
    "gate_failed": "nobody could say whether it may run; do not call it again unchanged",
    "quarantined": "it crashed too often and is withdrawn; use another tool",
    "handler_raised": "other arguments may do; if they are not at fault, the tool has to be repaired",
    "handler_exit": "a tool answers instead; it has to be repaired",
    "invalid_return": "its answer was no answer; the tool has to be repaired",
    "deadline": "it did not answer in time; ask it for less at once",
    "killed": "its worker was killed; ask it for less at once",
    "trapped": "it stopped at a fault of its own; other arguments may do, or the tool has to be repaired",
    "out_of_fuel": "it computed too long; ask it for less at once",
    "out_of_memory": "it needed too much memory; ask it for less at once",
    "bad_answer": "its answer was no answer; the tool has to be repaired",
    "too_many_host_calls": "it asked the host too often; ask it for less at once",
    "cancelled": "it was stopped from outside; nothing is known of what it had done by then",
    "overloaded": "the host has no room for it now; call it again later",
    "capability_fault": "what it asked of the host failed there; call it again later",
}

_HAPPENED = {"refused": "was not run", "crashed": "crashed", "host": "did not finish"}

# Joiners and variation selectors stay: without them scripts and emoji of honest tools break.
_FORGING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]|\r(?!\n)"
)
_PLAIN_ASCII = bytes((*b"\t\n", *range(0x20, 0x7F)))
_SURROGATE = re.compile("[\ud800-\udfff]")


def model_text(text: str, *, trusted: bool) -> str:
    """``text`` as a model may read it. Lone surrogates, which no API can send, become U+FFFD.

    Of an untrusted tool, characters that could forge what a person sees in a log or a terminal (control but line feed,
    tab and CRLF; bidirectional, line-separating and tag characters) are escaped, for example ``\\u001b``.
    """
    if text.isascii() and (trusted or not text.encode().translate(None, _PLAIN_ASCII)):
        return text
    if not trusted:
        text = _FORGING.sub(_escape, text)
    return _SURROGATE.sub("\ufffd", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def value_text(answer: HandlerResult) -> tuple[str, tuple[str, ...]]:
    """The text of an answer as it is, and notes for the log about what JSON could not hold.

    A str as it is, any other value as JSON; for AskUser the question, for Halt JSON of its value.
    Raises :class:`rho_wasm.errors.PlainError` for a value that has no JSON.
    """
    if type(answer) is Ok:
        if not isinstance(answer.value, str):
            return json_text(answer.value)
    elif isinstance(answer, AskUser):
        return str.__str__(answer.question), ()
    value = answer.reason if isinstance(answer, Failed) else answer.value
    if isinstance(value, str) and not isinstance(answer, Halt):
        return str.__str__(value), ()
    return json_text(value)


def printed_name(call: ToolCall) -> str:
    """The name that a model called, inert and short: it may be anything."""
    name: object = call.name
    return inert(name, limit=100) if isinstance(name, str) else "(no name)"


def error_text(name: str, error: ToolError) -> str:
    """One line: the tool, the reason, the limit that was met, what happened and what to do."""
    if error.reason == "blocked":
        return f"Blocked: {inert(error.detail)}"
    bound = error.reason
    if error.limit is not None:
        bound += f", {error.limit}" + (f"={error.value}" if error.value is not None else "")
    parts = [inert(error.detail).rstrip(".:; "), _WHAT_TO_DO.get(error.reason, "")]
    said = "; ".join(part for part in parts if part)
    return f"{name} {_HAPPENED.get(KINDS.get(error.reason, 'crashed'), 'failed')} ({bound}): {said}."


def cut_at_line(text: str, max_chars: int) -> str:
    """The beginning of ``text``, at most ``max_chars``, ending with a whole line if one ends in its second half."""
    if len(text) <= max_chars:
        return text
    end = text.rfind("\n", max_chars // 2, max_chars)
    return text[: max_chars if end < 0 else end + 1]


def beginning(text: str, max_chars: int, *, trusted: bool) -> tuple[int, str]:
    """How many characters of ``text`` are shown, and how they read (:func:`model_text`): at most ``max_chars`` too.

    What is not shown is not looked at: escaping a megabyte of control characters would hold the event loop up.
    """
    shown = cut_at_line(text, max_chars)
    read = model_text(shown, trusted=trusted)
    while len(read) > max_chars and len(shown) > 1:
        shown = cut_at_line(shown, len(shown) // 2)
        read = model_text(shown, trusted=trusted)
    return len(shown), read


class _Keeper(Protocol):
    def keep(self, text: str, *, session_id: str | None) -> str: ...


def cut_text(
    text: str, *, max_chars: int, outputs: _Keeper, session_id: str | None, trusted: bool
) -> tuple[str, str | None]:
    """``text`` as a model reads it, or its beginning and a notice of how to read on, with the id that it is kept under.

    The notice is the host's own last line, outside the tool's text. Where the text cannot be kept it says so.
    """
    if len(text) <= max_chars:
        if text.isascii() and (trusted or not text.encode().translate(None, _PLAIN_ASCII)):
            return text, None
        whole = model_text(text, trusted=trusted)
        if len(whole) <= max_chars:
            return whole, None
    count, shown = beginning(text, max_chars, trusted=trusted)
    if count == len(text):
        return shown, None
    try:
        output_id = outputs.keep(text, session_id=session_id)
    except Exception:
        rest, output_id = "the rest could not be kept; ask the tool for less at once", None
    else:
        rest = f'read on with read_artifact {{"id": "{output_id}", "offset": {count}}}'
    return f"{shown}\n\n[cut: characters 0 to {count} of {len(text)}; {rest}]", output_id
