"""Plain CBOR, both ways (ABI.md): null, bool, int, float, text, bytes, list, map with text keys, and nothing else."""

from __future__ import annotations

import dataclasses
import enum
import struct
from typing import Any

__all__ = ["MAX_DEPTH", "Malformed", "NotPlain", "decode", "encode"]

MAX_DEPTH = 64
"""Lists and maps inside each other, the outermost counted."""

_INT_MIN, _INT_MAX = -(2**64), 2**64 - 1
_TEXT, _BYTES, _LIST, _MAP = 0x60, 0x40, 0x80, 0xA0
_SMALL = tuple(bytes([byte]) for byte in range(256))
_DOUBLE = struct.Struct(">Bd")
_FLOATS = {25: struct.Struct(">e"), 26: struct.Struct(">f"), 27: struct.Struct(">d")}
_SIMPLE = {20: False, 21: True, 22: None}
_WIDTHS = {24: 1, 25: 2, 26: 4, 27: 8}
_PLAIN: tuple[Any, ...] = (int, float, bytes, dict, list, tuple)
_HINTS = {
    "set": "a set has no order: return sorted(...)",
    "frozenset": "a frozenset has no order: return sorted(...)",
    "datetime": "return its isoformat()",
    "date": "return its isoformat()",
    "time": "return its isoformat()",
    "timedelta": "return its total_seconds()",
    "Decimal": "return str(...) or float(...) of it",
    "Fraction": "return str(...) or float(...) of it",
    "UUID": "return str(...) of it",
    "complex": "return a list of its parts",
    "generator": "return list(...) of it",
    "map": "return list(...) of it",
    "filter": "return list(...) of it",
    "zip": "return list(...) of it",
    "dict_keys": "return list(...) of it",
    "dict_values": "return list(...) of it",
    "dict_items": "return list(...) of it",
    "range": "return list(...) of it",
    "coroutine": "await it",
}


class NotPlain(TypeError):
    """A value that is no plain data. The text names the place, what is there, and what to return in its stead."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[str] = []

    def inside(self, part: str) -> None:
        """Says that the place is within ``part``."""
        self.path.append(part)

    def __str__(self) -> str:
        shown = self.path if len(self.path) <= 8 else [*self.path[:4], "...", *self.path[-4:]]
        return f"{''.join(reversed(shown)) or 'the value'}: {self.why}"


class Malformed(ValueError):
    """Bytes that are not exactly one item of plain CBOR."""


def encode(value: Any) -> bytes:
    """The bytes of ``value``. Raises :class:`NotPlain`.

    Tuples are lists, bytearrays and memoryviews bytes, members of an Enum their values, dataclasses maps; subclasses
    of plain types count as these. Integers have at most 64 bits and a sign, keys of maps are text.
    """
    out: list[bytes] = []
    _put(out.append, value, MAX_DEPTH)
    return b"".join(out)


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return _SMALL[major + number]
    if number < 0x100:
        return bytes((major + 24, number))
    if number < 0x10000:
        return bytes((major + 25, number >> 8, number & 0xFF))
    if number < 0x1_0000_0000:
        return _SMALL[major + 26] + number.to_bytes(4, "big")
    return _SMALL[major + 27] + number.to_bytes(8, "big")


def _put(write: Any, value: Any, depth: int) -> None:
    kind = type(value)
    if kind is str:
        _put_text(write, value)
    elif kind is int:
        if value >= 0:
            if value > _INT_MAX:
                raise NotPlain("an integer of more than 64 bits: return str(...) of it")
            write(_head(0, value))
        else:
            if value < _INT_MIN:
                raise NotPlain("an integer of more than 64 bits: return str(...) of it")
            write(_head(0x20, -1 - value))
    elif kind is dict:
        if not depth:
            raise NotPlain(f"lists and maps nest deeper than {MAX_DEPTH}, or it holds itself")
        write(_head(_MAP, len(value)))
        for key, item in value.items():
            if type(key) is not str:
                _put_key(write, key)
            else:
                _put_text(write, key)
            try:
                _put(write, item, depth - 1)
            except NotPlain as error:
                error.inside(f"[{key!r:.40}]")
                raise
    elif kind is list or kind is tuple:
        if not depth:
            raise NotPlain(f"lists and maps nest deeper than {MAX_DEPTH}, or it holds itself")
        write(_head(_LIST, len(value)))
        number = 0
        try:
            for item in value:
                _put(write, item, depth - 1)
                number += 1
        except NotPlain as error:
            error.inside(f"[{number}]")
            raise
    elif value is None:
        write(b"\xf6")
    elif value is True:
        write(b"\xf5")
    elif value is False:
        write(b"\xf4")
    elif kind is float:
        write(_DOUBLE.pack(0xFB, value))
    elif kind is bytes:
        write(_head(_BYTES, len(value)))
        write(value)
    else:
        _put(write, _plainer(value), depth)


def _put_text(write: Any, text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise NotPlain("text with a lone surrogate, which has no UTF-8") from None
    write(_head(_TEXT, len(data)))
    write(data)


def _put_key(write: Any, key: Any) -> None:
    if not isinstance(key, str):
        raise NotPlain(f"a map's keys are text, not {type(key).__name__}: {key!r:.40}")
    _put_text(write, str(key.value) if isinstance(key, enum.Enum) else str.__str__(key))


def _plainer(value: Any) -> Any:
    """The value of a plain type that an object of no plain type stands for."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    for plain in _PLAIN:
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    name = type(value).__name__
    hint = _HINTS.get(name, "return text, numbers, bytes, lists and maps")
    raise NotPlain(f"{name} is no plain data: {hint}")


def decode(data: bytes) -> Any:
    """The value that ``data`` is the plain CBOR of. Raises :class:`Malformed`."""
    try:
        value, end = _take(data, 0, MAX_DEPTH)
    except IndexError:
        raise Malformed("it ends too early") from None
    except UnicodeDecodeError:
        raise Malformed("text is not UTF-8") from None
    if end != len(data):
        raise Malformed("something follows the one item")
    return value


def _take(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    first = data[at]
    major, number = first >> 5, first & 31
    at += 1
    if major == 7:
        return _take_simple(data, at, number)
    if number > 23:
        width = _WIDTHS.get(number)
        if width is None:
            raise Malformed("it has a length that plain CBOR has not")
        number = int.from_bytes(_cut(data, at, width), "big")
        at += width
    if major == 3:
        return str(_cut(data, at, number), "utf-8"), at + number
    if major == 0:
        return number, at
    if major == 1:
        return -1 - number, at
    if major == 2:
        return _cut(data, at, number), at + number
    if major == 6:
        raise Malformed("it has a tag")
    if not depth:
        raise Malformed(f"it nests deeper than {MAX_DEPTH}")
    if number > len(data) - at:
        raise Malformed("it ends too early")
    if major == 4:
        items = []
        for _ in range(number):
            item, at = _take(data, at, depth - 1)
            items.append(item)
        return items, at
    found: dict[str, Any] = {}
    for _ in range(number):
        if data[at] >> 5 != 3:
            raise Malformed("a key of a map is no text")
        key, at = _take(data, at, 0)
        found[key], at = _take(data, at, depth - 1)
    if len(found) != number:
        raise Malformed("a key of a map occurs twice")
    return found, at


def _take_simple(data: bytes, at: int, number: int) -> tuple[Any, int]:
    if number in _SIMPLE:
        return _SIMPLE[number], at
    if number in _FLOATS:
        width = _WIDTHS[number]
        return _FLOATS[number].unpack(_cut(data, at, width))[0], at + width
    raise Malformed("it has a simple value that plain CBOR has not")


def _cut(data: bytes, at: int, length: int) -> bytes:
    piece = data[at : at + length]
    if len(piece) != length:
        raise Malformed("it ends too early")
    return piece
