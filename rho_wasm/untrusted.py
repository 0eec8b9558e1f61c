"""Text and names of things that are not trusted, made inert and bounded.

Whatever a guest or a module says may carry escape sequences, bidirectional overrides, invisible letters, or a megabyte
of either. Whatever a foreign Python object says about itself runs that object's code. Nothing here does: names and
messages are read through the interpreter's own descriptors, never through ``str()``, ``repr()`` or an attribute that a
class can redefine.
"""

from __future__ import annotations

import types
import unicodedata
from collections import deque
from typing import Any

from rho_wasm.errors import TooLarge

__all__ = [
    "exception_text",
    "exception_trace",
    "image_type",
    "inert",
    "inert_plain",
    "type_name",
    "unsafe_characters",
]

NAME_CHARS = 128
"""The longest name that enters a message."""

_CLASS_NAME: Any = type.__dict__["__name__"]
_ARGS: Any = BaseException.__dict__["args"]
_TRACEBACK: Any = BaseException.__dict__["__traceback__"]

_JOINERS = "\u200c\u200d"  # Persian and emoji need them, so descriptions may carry them.


def _is_invisible(character: str) -> bool:
    """Printable by Unicode's word, and yet nothing to see: fillers, joiners, variation selectors (hidden messages)."""
    return character in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0" or "\U000e0100" <= character <= "\U000e01ef"


def _is_unsafe(character: str) -> bool:
    if character.isprintable():
        return _is_invisible(character)
    # Other spaces (Zs) are only wide; all else that is not printable is control, format, surrogate or unknown.
    return unicodedata.category(character) != "Zs"


def _escaped(character: str) -> str:
    code = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def inert(text: str, *, limit: int = 2000, newlines: bool = False) -> str:
    """``text`` with every control, format, bidirectional, tag, invisible and surrogate character escaped.

    At most ``limit`` characters; a longer text is cut, and ends with how many of its characters are missing. With
    ``newlines`` line feeds stay. The work is bounded by ``limit``, not by the text.
    """
    text = str.__str__(text)
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    pieces = [
        character if (newlines and character == "\n") or not _is_unsafe(character) else _escaped(character)
        for character in text[:limit]
    ]
    if len(text) <= limit and sum(map(len, pieces)) <= limit:
        return "".join(pieces)
    room = limit - len(f"… ({len(text)} more characters)")
    if room <= 0:
        return ("".join(pieces)[: limit - 1] + "…")[:limit]
    kept = 0
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            break
        kept += 1
    return "".join(pieces[:kept]) + f"… ({len(text) - kept} more characters)"


def inert_plain(value: Any, *, items: int = 256, chars: int = 2000, newlines: bool = False) -> Any:
    """Plain data that a person is shown, with every key and text inert and at most ``chars`` long.

    With ``newlines`` line feeds stay in texts that are no keys, for who writes it as JSON, which escapes them itself.
    Raises :class:`rho_wasm.errors.TooLarge` for more than ``items`` keys and values together.
    """
    budget = [items]

    def made(value: Any) -> Any:
        budget[0] -= 1
        if budget[0] < 0:
            raise TooLarge("items", items)
        if type(value) is str:
            return inert(value, limit=chars, newlines=newlines)
        if type(value) is dict:
            budget[0] -= len(value)  # Its keys.
            return {inert(key, limit=chars): made(item) for key, item in value.items()}
        return [made(item) for item in value] if type(value) is list else value

    return made(value)


def type_name(value: object) -> str:
    """The name of ``value``'s class, inert, at most 128 characters. Runs no code of the class or its metaclass."""
    return inert(_CLASS_NAME.__get__(type(value)), limit=NAME_CHARS)


def _argument_text(argument: object, limit: int) -> str:
    kind = type(argument)
    if kind is str:
        return str(argument)
    if kind is bool or argument is None or kind is float:
        return repr(argument)
    if kind is int:
        assert isinstance(argument, int)
        # Beyond that the digits cost more than they tell (and 4,301 of them raise).
        return repr(argument) if argument.bit_length() <= 256 else "(a long integer)"
    if kind is bytes:
        assert isinstance(argument, bytes)
        return repr(argument[:limit])
    return f"({type_name(argument)})"


def exception_text(error: BaseException, *, trusted: bool = False, limit: int = 2000) -> str:
    """One inert line: the class of ``error`` and its message, at most ``limit`` characters.

    The message is made of the exception's arguments as far as they are exact built-in scalars; its ``__str__`` does not
    run. ``trusted`` asks ``str(error)`` instead, and falls back to the arguments if that raises.
    """
    name = type_name(error)
    if trusted:
        try:
            text = str.__str__(str(error))
        except Exception:
            return exception_text(error, limit=limit)
    else:
        text = ", ".join(_argument_text(argument, limit) for argument in _ARGS.__get__(error)[:8])
    return inert(f"{name}: {text}" if text else name, limit=limit)


def exception_trace(error: BaseException, *, lines: int = 64, width: int = 200) -> tuple[str, ...]:
    """One inert line a frame, the innermost first, at most ``lines`` of ``width`` characters.

    Files are named without their folders: where a host keeps its code is nobody's business. No source is read.
    """
    innermost: deque[types.TracebackType] = deque(maxlen=lines)
    traceback = _TRACEBACK.__get__(error)
    while traceback is not None:
        innermost.append(traceback)
        traceback = traceback.tb_next
    trace = []
    for entry in reversed(innermost):
        code = entry.tb_frame.f_code
        # Code objects can be made with names that are a subclass of str.
        file = str.__str__(code.co_filename).replace("\\", "/").rpartition("/")[2]
        name = str.__str__(code.co_name)
        trace.append(inert(f"{name} ({file}:{entry.tb_lineno})", limit=width))
    return tuple(trace)


def image_type(data: bytes) -> str | None:
    """The MIME type of png, jpeg, webp or gif by the first bytes, else None. SVG is a program, so never."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def unsafe_characters(text: str) -> str | None:
    """The first character of ``text`` that a description may not carry, as ``U+202E RIGHT-TO-LEFT OVERRIDE``, or None.

    Those are control (but line feed and tab), bidirectional, tag, other format and invisible characters, and
    surrogates. The joiners that Persian and emoji need may stand.
    """
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        if _is_unsafe(character) and character not in "\n\t" and character not in _JOINERS:
            code = ord(character)
            name = unicodedata.name(character, "") or ("SURROGATE" if 0xD800 <= code <= 0xDFFF else "CONTROL")
            return f"U+{code:04X} {name}"
    return None
