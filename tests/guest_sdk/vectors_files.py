"""The vectors as an SDK's author finds them: files, and an index that says what they mean."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rho_wasm import resources

__all__ = ["FOLDER", "Vector", "equal", "vectors"]

FOLDER = resources.sdk("vectors/index.json").parent


class Vector(NamedTuple):
    """One file. ``why`` is empty where it is good."""

    name: str
    path: Path
    meaning: Any
    why: str

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()


def vectors(kind: str, *, good: bool) -> Iterator[Vector]:
    """Those of ``kind``, a folder's name."""
    prefix = f"{kind}/{'good' if good else 'bad'}/"
    for told in json.loads((FOLDER / "index.json").read_bytes()):
        if told["file"].startswith(prefix):
            name = told["file"].removeprefix(prefix).removesuffix(".cbor")
            yield Vector(name, FOLDER / told["file"], _meant(told.get("meaning")), told.get("why", ""))


def _meant(value: Any) -> Any:
    """The value that README.md of the vectors says that this JSON stands for."""
    if isinstance(value, list):
        return [_meant(item) for item in value]
    if not isinstance(value, dict):
        return value
    match next(iter(value.items()), None):
        case ("$int", text):
            return int(text)
        case ("$float", text):
            return float(text)
        case ("$bytes", text):
            return bytes.fromhex(text)
        case ("$repeat", [str() as part, times]):
            return part * times
        case ("$repeat", [part, times]):
            return [_meant(part)] * times
    return {key: _meant(item) for key, item in value.items()}


def equal(one: Any, other: Any, *, one_number: bool = False) -> bool:
    """Whether two plain values are the same: of the same types, and floats of the same bits, but any NaN is any.

    ``one_number``: the language has one type of numbers, so 1.0 and 1 are the same, and -0.0 is 0.
    """
    if type(one) in (int, float) and type(other) in (int, float) and (one_number or type(one) is type(other) is float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return bool(one == other) if one_number else struct.pack(">d", one) == struct.pack(">d", other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(
            equal(a, b, one_number=one_number) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key], one_number=one_number) for key in one)
    return bool(one == other)
