"""The arguments of a call as the text that a model wrote: JSON, and past the slips that can mean one thing only.

A model's text is nobody's program: it may be cut off, wrapped in a fence, or a megabyte of brackets. What has one
reading is read, and each step away from JSON is told; what may have been meant in two ways is refused, never guessed
at. So a text that was cut off is not completed, and a key that occurs twice is not chosen between.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from rho_wasm.limits import Limits
from rho_wasm.untrusted import inert

__all__ = ["Unreadable", "object_or_text", "read_json", "read_object"]

_MAX_CHARS: Final = Limits().request_bytes
_SHOWN_CHARS: Final = 80

# A string is taken whole, also where its end is missing, so every character is looked at once.
_STRING_OR_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|,(?=[ \t\r\n]*[}\]])', re.DOTALL)
_FENCE: Final = re.compile(r"```[A-Za-z]{0,10}[ \t]*\r?\n")

_EMPTY: Final = "no arguments were sent; taken as {}"
_FENCED: Final = "they came in a code fence; send the JSON alone"
_BREAKS: Final = "a text in them had raw line breaks, tabs or other control characters; escape them, as in \\n"
_COMMAS: Final = "they had a comma before a closing bracket; leave it out"
_QUOTED: Final = "they were a text with JSON in it; send the object itself"


class Unreadable(ValueError):
    """A text that has no one reading as JSON. Its message says what was given and what is wanted: one inert line."""


class _Twice(ValueError):
    """A key occurs twice in one object."""


def object_or_text(text: str) -> dict[str, Any] | str:
    """The object that ``text`` is the JSON of, else ``text`` as it is: the runner says what is wrong with that."""
    try:
        value = _loads(text) if len(text) <= _MAX_CHARS else None
    except (ValueError, RecursionError):
        return text
    return value if type(value) is dict else text


def read_object(text: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The object that a model meant, and what it should be told of how its text was read (nothing where it was JSON).

    None, an empty text and ``null`` are the empty object. Raises :class:`Unreadable`.
    """
    if text is None or not text.strip():
        return {}, (_EMPTY,)
    value, notes = read_json(text)
    if type(value) is str:
        value, inner = read_json(value)
        notes = (*notes, _QUOTED, *inner)
    if value is None:
        return {}, (_EMPTY,)
    if type(value) is not dict:
        raise Unreadable(f"got {_shown(text)}, wanted a JSON object")
    return value, notes


def read_json(text: str) -> tuple[Any, tuple[str, ...]]:
    """The value that ``text`` is the JSON of, and notes as above. At most ``Limits.request_bytes`` characters of text.

    Read past: white space and a code fence around it, raw control characters in strings, a comma before a closing
    bracket. Raises :class:`Unreadable`. The work is linear.
    """
    if len(text) > _MAX_CHARS:
        raise Unreadable(f"got text of {len(text)} characters, at most {_MAX_CHARS} are taken")
    notes: tuple[str, ...] = ()
    inside = text.strip("\ufeff \t\r\n")
    if (fence := _FENCE.match(inside)) is not None and inside.endswith("```") and fence.end() <= len(inside) - 3:
        inside, notes = inside[fence.end() : -3], (_FENCED,)
    try:
        try:
            return _loads(inside), notes
        except json.JSONDecodeError as error:
            first = error
        try:
            return _loads(inside, controls=True), (*notes, _BREAKS)
        except json.JSONDecodeError:
            pass
        without = _STRING_OR_COMMA.sub(_kept, inside)
        if without != inside:
            try:
                return _loads(without), (*notes, _COMMAS)
            except json.JSONDecodeError:
                pass
            try:
                return _loads(without, controls=True), (*notes, _BREAKS, _COMMAS)
            except json.JSONDecodeError:
                pass
    except _Twice as error:
        raise Unreadable(f"got {error} twice in one object, wanted each key once") from None
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else "with a number that JSON has not"
        raise Unreadable(f"got text {why}, wanted a JSON object") from None
    where = f"line {first.lineno}, column {first.colno}"
    unfinished = first.pos >= len(inside) or first.msg.startswith("Unterminated string")
    what = "ends before it is complete" if unfinished else "is no JSON"
    raise Unreadable(f"got {_shown(text)}, which {what} ({where}), wanted a JSON object")


def _loads(text: str, *, controls: bool = False) -> Any:
    return json.loads(text, strict=not controls, object_pairs_hook=_unique, parse_constant=_no_constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Twice(f'the key "{inert(twice, limit=_SHOWN_CHARS)}"')
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _kept(match: re.Match[str]) -> str:
    return "" if match[0] == "," else match[0]


def _shown(text: str) -> str:
    return f'text "{inert(text, limit=_SHOWN_CHARS)}"'
