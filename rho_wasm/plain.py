"""Plain data and its CBOR: null, bool, int, float, text, bytes, list, map with text keys, and nothing else.

The only file that touches cbor2. :func:`encode` is deterministic (RFC 8949, section 4.2.1): shortest lengths and
floats, map keys in the bytewise order of their encodings. :func:`decode` accepts any well-formed plain encoding and
refuses the rest of CBOR: tags, ``undefined`` and other simple values, indefinite lengths, keys that are no text or
occur twice, text that is not UTF-8, anything after the one item.

Why a scan of our own stands before cbor2's decoder: its options cannot refuse the tags that it knows (a bignum is an
int by the time that anyone sees it), simple values, byte-string keys and trailing bytes, and a message of 1 MiB builds
1,000,000 lists before they can be counted. The scan reads the heads only and allocates nothing, so a hostile message
costs less memory than it has bytes. Checking cbor2's result afterwards took as long, for short messages too.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import cbor2
from pydantic_core import to_json

from rho_wasm.counting import items_of
from rho_wasm.errors import Malformed, NotPlain, TooLarge
from rho_wasm.exact import MAX_DEPTH, Copied, ExactCopy, Refused, flat_copy
from rho_wasm.hostvalues import plain

__all__ = [
    "MAX_DEPTH",
    "Copied",
    "copied",
    "decode",
    "encode",
    "encode_framed",
    "encode_within",
    "json_text",
    "jsonable",
    "plain",
]

_MIB: Final = 1024 * 1024
_INT_MIN, _INT_MAX = -(2**64), 2**64 - 1

_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_JSON_SCALARS: Final = frozenset({str, bool, type(None)})
_TEXT: Final = frozenset({str})
_JSON_DEPTH, _JSON_ITEMS = 64, 100_000

_STEP_ITEMS: Final = 2_000
"""Of what cbor2 encodes at once. It keeps the interpreter lock: for 100,000 empty maps and a float 140 ms."""

_STRING, _MAP = 3, 5  # major types
_LISTS, _MAPS, _TAGS = 4 << 5, 5 << 5, 6 << 5  # the first of their heads

# How many bytes an item takes whose first byte is the index, where that byte alone says so; else 0.
_WHOLE: Final = (
    (b"\1" * 24 + b"\2\3\5\x09" + bytes(4)) * 2  # integers
    + (bytes(range(1, 25)) + bytes(8)) * 2  # strings of up to 23 bytes
    + bytes(3 * 32)  # lists, maps, tags
    + (bytes(20) + b"\1\1\1" + bytes(2) + b"\3\5\x09" + bytes(4))  # false, true, null; floats of 2, 4 and 8 bytes
)
_WHOLE_KEYS: Final = bytes(3 * 32) + _WHOLE[3 * 32 : 4 * 32] + bytes(4 * 32)
_WIDTH: Final = bytes(24) + b"\1\2\4\x08"
"""Of the argument behind a head, by the head's last five bits."""


def encode(value: Any, *, max_bytes: int = _MIB, max_depth: int = 64, max_items: int = 100_000) -> bytes:
    """The deterministic CBOR of plain data.

    Exact types only: a subclass of ``dict`` or ``str`` may carry code, so it is refused; make it plain with
    :func:`plain` first. ``max_depth`` counts nested lists and maps, ``max_items`` the item itself, each element of a
    list, and each key and value of a map.

    Raises :class:`NotPlain` (also for integers beyond 64 bits and their sign, and for text with lone surrogates) or
    :class:`TooLarge`.
    """
    exact = ExactCopy(max_bytes=max_bytes, max_depth=max_depth, max_items=max_items, in_order=True)
    return _encoded(exact, value, None, "")


def encode_within(
    frame: Mapping[str, Any], key: str, value: Any, *, max_bytes: int, max_depth: int, max_items: int
) -> bytes:
    """What :func:`encode` makes of ``frame | {key: value}``, where nothing else of ``frame`` is looked at.

    It is the caller's own: small exact plain data, its keys in the bytewise order of their encodings, ``key`` the last
    of them. ``max_depth`` and ``max_items`` bound ``value`` alone, ``max_bytes`` the whole. Raises as :func:`encode`.
    """
    exact = ExactCopy(max_bytes=max_bytes, max_depth=max_depth, max_items=max_items, in_order=True)
    return _encoded(exact, value, frame, key)


def _encoded(exact: ExactCopy, value: Any, frame: Mapping[str, Any] | None, key: str) -> bytes:
    try:
        copy = exact.of(value)
        if frame is not None:
            copy = {**frame, key: copy}
        # The canonical way finds the shortest floats; the order of text keys, RFC 7049's there, is the same.
        if exact.max_items - exact.items_left <= _STEP_ITEMS:
            data = cbor2.dumps(copy, canonical=exact.floats)
        else:
            steps: list[bytes] = []
            _dump_in_steps(copy, exact.floats, steps)
            data = b"".join(steps)
    except Refused as refused:
        raise refused.as_error() from None
    except UnicodeEncodeError:
        raise _no_utf8() from None
    if len(data) > exact.max_bytes:
        raise TooLarge("bytes", exact.max_bytes, len(data))
    return data


def _dump_in_steps(value: Any, canonical: bool, steps: list[bytes]) -> None:
    """Adds what cbor2 makes of ``value``, a copy in the order of its encoding, with the lock given up in between."""
    if items_of(value, most=_STEP_ITEMS) <= _STEP_ITEMS:
        steps.append(cbor2.dumps(value, canonical=canonical))
        return
    is_map = type(value) is dict
    steps.append(_head(_MAPS if is_map else _LISTS, len(value)))
    keys, values = (list(value), list(value.values())) if is_map else ([], value)
    begin, items = 0, 0
    for place, each in enumerate(values):
        inner = items_of(each, most=_STEP_ITEMS)
        if items + inner >= _STEP_ITEMS or inner > _STEP_ITEMS:
            _dump_part(keys[begin:place], values[begin:place], canonical, steps)
            begin, items = place, 0
        if inner > _STEP_ITEMS:
            if is_map:
                steps.append(cbor2.dumps(keys[place]))
            _dump_in_steps(each, canonical, steps)
            begin = place + 1
        else:
            items += inner + is_map
    _dump_part(keys[begin:], values[begin:], canonical, steps)


def _dump_part(keys: list[str], values: list[Any], canonical: bool, steps: list[bytes]) -> None:
    """Adds elements of a list, or pairs of a map where there are keys, without the head."""
    if values:
        part = dict(zip(keys, values, strict=True)) if keys else values
        steps.append(cbor2.dumps(part, canonical=canonical)[len(_head(0, len(values))) :])


def _head(major: int, length: int) -> bytes:
    """Of a list or a map of fewer than 2^32 (RFC 8949, section 3)."""
    if length < 24:
        return bytes((major | length,))
    width = 1 if length < 2**8 else 2 if length < 2**16 else 4
    return bytes((major | 24 + width.bit_length() - 1,)) + length.to_bytes(width, "big")


def _no_utf8() -> NotPlain:
    return NotPlain("$", "str", "text with a lone surrogate has no UTF-8")


def copied(
    value: Any, *, max_bytes: int = _MIB, max_depth: int = 64, max_items: int = 100_000, in_order: bool = False
) -> Copied:
    """A copy of plain data that :func:`encode` takes within the same bounds. Raises as it does.

    Maps keep their order, or get that of their encodings. Small ASCII data is not encoded for that.
    """
    if type(value) is dict and max_depth > 0:
        flat = flat_copy(value, max_bytes=max_bytes, max_items=max_items, in_order=in_order)
        if flat is not None:
            return flat
    exact = ExactCopy(max_bytes=max_bytes, max_depth=max_depth, max_items=max_items, in_order=in_order)
    try:
        copy = exact.of(value)
    except Refused as refused:
        raise refused.as_error() from None
    if not exact.ascii or exact.most_bytes() > max_bytes:
        encode(copy, max_bytes=max_bytes, max_depth=max_depth, max_items=max_items)
    items, chars = max_items - exact.items_left, max_bytes - exact.room
    return Copied(copy, items, chars, exact.deepest, exact.floats, in_order)


def encode_framed(frame: Mapping[str, Any], copy: Copied) -> bytes:
    """What :func:`encode_within` makes of a frame that has a copy in it already, one that is ``in_order``.

    Raises :class:`NotPlain` for text of the frame that has no UTF-8.
    """
    try:
        return cbor2.dumps(frame, canonical=copy.floats)
    except UnicodeEncodeError:
        raise _no_utf8() from None


def decode(data: bytes, *, max_bytes: int = _MIB, max_depth: int = 64, max_items: int = 100_000) -> Any:
    """The plain data that ``data`` is the CBOR of. Bounds as in :func:`encode`.

    Raises :class:`Malformed` for anything but exactly one well-formed plain item, :class:`TooLarge` beyond a bound;
    either before anything is allocated for it.
    """
    if len(data) > max_bytes:
        raise TooLarge("bytes", max_bytes, len(data))
    try:
        _scan(data, max_depth if max_depth < MAX_DEPTH else MAX_DEPTH, max_items)
    except IndexError:
        raise Malformed("it ends too early", len(data)) from None
    try:
        # A new decoder for each message: one that is reused remembers the last one's values (CVE-2025-68131).
        return cbor2.loads(data, max_depth=max_depth, allow_indefinite=False, allow_duplicate_keys=False)
    except cbor2.CBORDecodeError as error:
        # Its text shows the sender's, so only the cause is told.
        utf8 = isinstance(error.__cause__, UnicodeDecodeError)
        raise Malformed("text is not UTF-8" if utf8 else "a key of a map occurs twice") from None


def _scan(data: bytes, max_depth: int, max_items: int) -> None:
    """Reads the heads of all items and refuses what is not plain. IndexError where the bytes end too early."""
    whole, keys = _WHOLE, _WHOLE_KEYS
    end = len(data)
    at = 0
    items = left = 1  # items so far; of the innermost list or map, the elements or pairs to come
    pairs = False  # whether that is a map
    outer: list[tuple[int, bool]] = []
    while True:
        while not left:
            if not outer:
                if at > end:
                    raise IndexError
                if at < end:
                    raise Malformed("something follows the one item", at)
                return
            left, pairs = outer.pop()
        left -= 1
        if pairs:
            if size := keys[data[at]]:
                at += size
            elif data[at] >> 5 != _STRING:
                raise Malformed("a key of a map is not text", at)
            else:
                length, at = _argument(data, at)
                at += length
        head = data[at]
        if size := whole[head]:
            at += size
            continue
        at += 1
        length = head & 31
        if head >= _TAGS or length == 31:
            raise Malformed(_why_not_plain(head), at - 1)
        if length > 23:
            if length > 27:
                raise Malformed("a reserved length", at - 1)
            begin, at = at, at + _WIDTH[length]
            length = int.from_bytes(data[begin:at], "big")  # Where that is too short, `at` is behind the end.
        if head < _LISTS:
            at += length
            continue
        if length > end - at:
            raise IndexError
        outer.append((left, pairs))
        left = length
        if pairs := head >= _MAPS:
            length += length
        items += length
        if items > max_items:
            raise TooLarge("items", max_items, items)
        if len(outer) > max_depth:
            raise TooLarge("depth", max_depth)


def _argument(data: bytes, at: int) -> tuple[int, int]:
    """The argument of the head at ``at`` (RFC 8949, section 3) and where the head ends."""
    info = data[at] & 31
    at += 1
    if info < 24:
        return info, at
    if info > 27:
        raise Malformed("indefinite lengths are not plain" if info == 31 else "a reserved length", at - 1)
    width = 1 << (info - 24)
    argument = data[at : at + width]
    if len(argument) < width:
        raise IndexError
    return int.from_bytes(argument, "big"), at + width


def _why_not_plain(head: int) -> str:
    info = head & 31
    if head >> 5 == 6:
        return "tags are not plain"
    if head == 0xFF:
        return "a break without a beginning"
    if info == 31:
        return "indefinite lengths are not plain" if 2 <= head >> 5 <= _MAP else "a reserved length"
    if head == 0xF7:
        return "undefined is not plain"
    return "simple values are not plain" if info <= 24 else "a reserved simple value"


def jsonable(value: Any, *, max_depth: int = _JSON_DEPTH, max_items: int = _JSON_ITEMS) -> Any:
    """``value`` as JSON can hold it: bytes become base64url without padding, NaN and infinities null.

    Integers keep any size. What is not plain is made so first (:func:`plain`). Lone surrogates become U+FFFD.
    Raises as :func:`plain` does.
    """
    return _Json().convert(value, max_depth=max_depth, max_items=max_items)


def json_text(value: Any) -> tuple[str, tuple[str, ...]]:
    """``value`` as compact JSON, and what a reader should be told was lost on the way (notes for a call's log)."""
    try:
        shape = _json_shape(value)
        if shape == "exact":
            return to_json(value).decode(), ()
        if shape == "floats":
            # Not to_json, which writes the same numbers in another way (1e16).
            text = _JSON.encode(value)
            text.encode()
            return text, ()
    except ValueError:
        pass  # Lone surrogates: below they become U+FFFD.
    converter = _Json()
    text = _JSON.encode(converter.convert(value))
    lost = converter.not_numbers
    if not lost:
        return text, ()
    return text, (f"{lost} number{'s were' if lost > 1 else ' was'} NaN or infinite and became null",)


def _json_shape(value: Any) -> Literal["other", "exact", "floats"]:
    """Whether ``value`` is of exact types that JSON has, within :func:`plain`'s bounds: then no copy need be made."""
    if (
        type(value) is dict
        and len(value) < _JSON_ITEMS // 2
        and _TEXT.issuperset(map(type, value))
        and _JSON_SCALARS.issuperset(map(type, value.values()))
    ):
        return "exact"  # As most answers are: found without a look at each.
    shape: Literal["exact", "floats"] = "exact"
    items = 1
    level = [value]
    for _ in range(_JSON_DEPTH):
        inner: list[Any] = []
        for value in level:
            kind = type(value)
            if kind in _JSON_SCALARS:
                continue
            if kind is dict:
                for key in value:
                    if type(key) is not str:
                        return "other"
                items += 2 * len(value)
                values = value.values()
            elif kind is list:
                items += len(value)
                values = value
            elif kind is int and _INT_MIN <= value <= _INT_MAX:
                continue
            elif kind is float and math.isfinite(value):
                shape = "floats"
                continue
            else:
                return "other"
            if items > _JSON_ITEMS:
                return "other"
            inner.extend(values)
        if not inner:
            return shape
        level = inner
    return "other"


class _Json:
    __slots__ = ("not_numbers",)

    def __init__(self) -> None:
        self.not_numbers = 0

    def convert(self, value: Any, *, max_depth: int = _JSON_DEPTH, max_items: int = _JSON_ITEMS) -> Any:
        return self._of(plain(value, max_depth=max_depth, max_items=max_items, wide_ints=True))

    def _of(self, value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            return {key: self._of(item) for key, item in value.items()}
        if kind is list:
            return [self._of(item) for item in value]
        if kind is bytes:
            return base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")
        if kind is float and not math.isfinite(value):
            self.not_numbers += 1
            return None
        return value
