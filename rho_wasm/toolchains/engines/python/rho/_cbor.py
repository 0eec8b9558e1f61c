"""Plain CBOR, both ways (ABI.md): null, bool, int, float, text, bytes, list, map with text keys, and nothing else.

Bytecode is what a call pays for here, each like a few hundred of a processor's instructions: so one loop does all the
items of a list or a map, without a function call for most, and places are only looked for where something is wrong.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Iterable
from itertools import chain
from typing import Any

__all__ = ["MAX_DEPTH", "Malformed", "NotPlain", "decode", "encode"]

MAX_DEPTH = 64
"""Lists and maps inside each other, the outermost counted."""

_INT_MIN, _INT_MAX = -(2**64), 2**64 - 1
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _MAP = range(0, 0xC0, 0x20)
_FALSE, _TRUE, _NULL, _HALF, _SINGLE, _DOUBLE = 0xF4, 0xF5, 0xF6, 0xF9, 0xFA, 0xFB
_WIDTHS = {24: 1, 25: 2, 26: 4, 27: 8}
_FLOATS = {_HALF: struct.Struct(">e"), _SINGLE: struct.Struct(">f"), _DOUBLE: struct.Struct(">d")}
_pack_double = struct.Struct(">Bd").pack
_PLAIN: tuple[Any, ...] = (int, float, bytes, dict, list, tuple)
_ONLY_TEXT = {str}
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
    "coroutine": "await it",
}
_HINTS |= dict.fromkeys(
    ["generator", "map", "filter", "zip", "dict_keys", "dict_values", "dict_items", "range"], "return list(...) of it"
)


class NotPlain(TypeError):
    """A value that is no plain data. The text names the place, what is there, and what to return in its stead."""

    def __init__(self, why: str, value: Any) -> None:
        super().__init__(why)
        self.why = why
        self.value = value
        """What the container that is looked at now holds, and is or holds what is not plain."""
        self.path: list[str] = []
        """The innermost place first."""

    def inside(self, container: Any, part: str) -> None:
        """Says that it is in ``container``, at ``part``."""
        self.value = container
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
    _put(out, (value,), MAX_DEPTH)
    return b"".join(out)


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major + number,))
    if number < 0x100:
        return bytes((major + 24, number))
    if number < 0x10000:
        return bytes((major + 25, number >> 8, number & 0xFF))
    if number < 0x1_0000_0000:
        return bytes((major + 26,)) + number.to_bytes(4, "big")
    return bytes((major + 27,)) + number.to_bytes(8, "big")


_INTEGERS = [_head(_UNSIGNED, number) for number in range(256)]
_TEXTS = [_head(_TEXT, number) for number in range(256)]
_LISTS = [_head(_LIST, number) for number in range(256)]
_MAPS = [_head(_MAP, number) for number in range(256)]


def _put(out: list[bytes], values: Iterable[Any], depth: int) -> None:
    value: Any = None
    try:
        for value in values:
            kind = type(value)
            if kind is str:
                data = value.encode()
                size = len(data)
                out.append(_TEXTS[size] if size < 256 else _head(_TEXT, size))
                out.append(data)
            elif kind is int:
                out.append(_INTEGERS[value] if 0 <= value < 256 else _integer(value))
            elif kind is dict:
                _put_map(out, value, depth)
            elif kind is list or kind is tuple:
                _put_list(out, value, depth)
            elif value is None:
                out.append(b"\xf6")
            elif kind is float:
                out.append(_pack_double(_DOUBLE, value))
            elif kind is bool:
                out.append(b"\xf5" if value else b"\xf4")
            elif kind is bytes:
                out.append(_head(_BYTES, len(value)))
                out.append(value)
            else:
                _put_other(out, value, depth)
    except UnicodeEncodeError:
        raise NotPlain("text with a lone surrogate, which has no UTF-8", value) from None


def _put_list(out: list[bytes], items: Any, depth: int) -> None:
    if not depth:
        raise _too_deep(items)
    size = len(items)
    out.append(_LISTS[size] if size < 256 else _head(_LIST, size))
    try:
        _put(out, items, depth - 1)
    except NotPlain as error:
        place = next((number for number, item in enumerate(items) if item is error.value), "?")
        error.inside(items, f"[{place}]")
        raise


def _put_map(out: list[bytes], items: dict[Any, Any], depth: int) -> None:
    if not depth:
        raise _too_deep(items)
    size = len(items)
    if size and set(map(type, items)) != _ONLY_TEXT:
        items = _with_text_keys(items)
        size = len(items)
    out.append(_MAPS[size] if size < 256 else _head(_MAP, size))
    try:
        _put(out, chain.from_iterable(items.items()), depth - 1)
    except NotPlain as error:
        place = next((key for key, item in items.items() if item is error.value), "?")
        error.inside(items, f"[{place!r:.40}]")
        raise


def _put_other(out: list[bytes], value: Any, depth: int) -> None:
    try:
        _put(out, (_plainer(value),), depth)
    except NotPlain as error:
        error.value = value
        raise


def _too_deep(value: Any) -> NotPlain:
    return NotPlain(f"lists and maps nest deeper than {MAX_DEPTH}, or it holds itself", value)


def _integer(value: int) -> bytes:
    if not _INT_MIN <= value <= _INT_MAX:
        raise NotPlain("an integer of more than 64 bits: return str(...) of it", value)
    return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)


def _with_text_keys(items: dict[Any, Any]) -> dict[Any, Any]:
    found = {}
    for key, item in items.items():
        text = key.value if isinstance(key, enum.Enum) else key
        if not isinstance(text, str):
            raise NotPlain(f"a map's keys are text, not {type(text).__name__}: {text!r:.40}", items)
        found[str.__str__(text)] = item
    return found


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
    raise NotPlain(f"{name} is no plain data: {hint}", value)


def decode(data: bytes | bytearray) -> Any:
    """The value that ``data`` is the plain CBOR of. Raises :class:`Malformed`."""
    try:
        (value,), end = _take(data, 0, 1, MAX_DEPTH)
    except IndexError:
        raise Malformed("it ends too early") from None
    except UnicodeDecodeError:
        raise Malformed("text is not UTF-8") from None
    if end > len(data):
        raise Malformed("it ends too early")
    if end != len(data):
        raise Malformed("something follows the one item")
    return value


def _take(data: bytes | bytearray, at: int, count: int, depth: int) -> tuple[list[Any], int]:
    """``count`` items from ``at`` on, and where they end: beyond the data where it is cut off."""
    found: list[Any] = []
    for _ in range(count):
        first = data[at]
        at += 1
        if 0x60 <= first < 0x78:
            end = at + first - 0x60
            found.append(data[at:end].decode())
            at = end
        elif first < 24:
            found.append(first)
        elif first in _FLOATS:
            unpack = _FLOATS[first]
            end = at + unpack.size
            if end > len(data):
                raise Malformed("it ends too early")
            found.append(unpack.unpack(data[at:end])[0])
            at = end
        elif first >= 0xE0:
            if not _FALSE <= first <= _NULL:
                raise Malformed("it has a simple value that plain CBOR has not")
            found.append(None if first == _NULL else first == _TRUE)
        else:
            item, at = _take_long(data, at, first, depth)
            found.append(item)
    return found, at


def _take_long(data: bytes | bytearray, at: int, first: int, depth: int) -> tuple[Any, int]:
    """An item whose head is at ``at`` - 1, and where it ends."""
    major, number = first & 0xE0, first & 0x1F
    if number >= 24:
        width = _WIDTHS.get(number)
        if width is None:
            raise Malformed("it has a length that plain CBOR has not")
        number = int.from_bytes(data[at : at + width], "big")
        at += width
    if major == _UNSIGNED:
        return number, at
    if major == _NEGATIVE:
        return -1 - number, at
    # Every byte and every item takes a byte: nothing is begun that cannot be there.
    if number > len(data) - at:
        raise Malformed("it ends too early")
    if major == _TEXT:
        return data[at : at + number].decode(), at + number
    if major == _BYTES:
        return bytes(data[at : at + number]), at + number
    if major > _MAP:
        raise Malformed("it has a tag")
    if not depth:
        raise Malformed(f"it nests deeper than {MAX_DEPTH}")
    if major == _LIST:
        return _take(data, at, number, depth - 1)
    items, at = _take(data, at, 2 * number, depth - 1)
    keys = items[::2]
    if number and set(map(type, keys)) != _ONLY_TEXT:
        raise Malformed("a key of a map is no text")
    found = dict(zip(keys, items[1::2], strict=True))
    if len(found) != number:
        raise Malformed("a key of a map occurs twice")
    return found, at
