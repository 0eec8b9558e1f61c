"""The encoder of the vectors: of its own, so that what rho_wasm reads was not written by rho_wasm."""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

__all__ = ["Raw", "Times", "cbor", "meaning_json", "nested"]

INT, NEGATIVE, BYTES, TEXT, LIST, MAP = range(6)


class Raw(NamedTuple):
    """Bytes that stand for a value as they are, right or wrong, and what they mean if they are right."""

    data: bytes
    meaning: Any = None


class Times(NamedTuple):
    """A text or a list of one part, often: written short in JSON."""

    part: Any
    times: int


def head(major: int, number: int) -> bytes:
    """The shortest head of an item (RFC 8949, section 3)."""
    if number < 24:
        return bytes([major << 5 | number])
    info = 24 if number < 2**8 else 25 if number < 2**16 else 26 if number < 2**32 else 27
    return bytes([major << 5 | info]) + number.to_bytes(1 << (info - 24), "big")


def cbor(value: Any) -> bytes:
    """The deterministic encoding of plain data (RFC 8949, section 4.2.1), with :class:`Raw` parts as they are."""
    if isinstance(value, Raw):
        return value.data
    if isinstance(value, Times):
        if isinstance(value.part, str):
            return cbor(value.part * value.times)
        return head(LIST, value.times) + cbor(value.part) * value.times
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[value]
    if isinstance(value, int):
        return head(INT, value) if value >= 0 else head(NEGATIVE, -1 - value)
    if isinstance(value, float):
        return shortest_float(value)
    if isinstance(value, bytes):
        return head(BYTES, len(value)) + value
    if isinstance(value, str):
        return head(TEXT, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(LIST, len(value)) + b"".join(map(cbor, value))
    pairs = sorted((cbor(key), cbor(item)) for key, item in value.items())
    return head(MAP, len(pairs)) + b"".join(key + item for key, item in pairs)


def shortest_float(value: float) -> bytes:
    if math.isnan(value):
        return b"\xf9\x7e\x00"
    for first, form in ((0xF9, ">e"), (0xFA, ">f")):
        try:
            data = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, data)[0] == value:
            return bytes([first]) + data
    return b"\xfb" + struct.pack(">d", value)


def meaning_json(value: Any) -> Any:
    """``value`` as README.md says that JSON holds it."""
    if isinstance(value, Raw):
        return meaning_json(value.meaning)
    if isinstance(value, Times):
        return {"$repeat": [meaning_json(value.part), value.times]}
    if isinstance(value, float):
        return {"$float": repr(value)}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return {"$int": str(value)}
    if isinstance(value, list):
        return [meaning_json(item) for item in value]
    if isinstance(value, dict):
        return {key: meaning_json(item) for key, item in value.items()}
    return value


def nested(depth: int, *, map_key: str | None = None) -> Any:
    """A list, or with ``map_key`` a map, in which there is another, ``depth`` of them in all."""
    value: Any = [] if map_key is None else {}
    for _ in range(depth - 1):
        value = [value] if map_key is None else {map_key: value}
    return value
