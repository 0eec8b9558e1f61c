"""The guest's own CBOR: what it writes the host reads, what the host writes it reads, all else is refused by name."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import math
import random
from typing import Any, NamedTuple

import pytest

from rho_wasm import plain
from rho_wasm.errors import PlainError
from rho_wasm.toolchains.engines.python.rho._cbor import MAX_DEPTH, Malformed, NotPlain, decode, encode

ALPHABETS = ("abc", "aé日𝄞", " \n\t\0")


def any_value(chance: random.Random, depth: int = 4, *, with_bytes: bool = True) -> Any:
    """Some plain value; NaN is not among them."""
    kind = chance.randrange(12 if depth else 9)
    if kind == 0:
        return chance.choice([None, True, False])
    if kind in (1, 2):
        return chance.randrange(-(2 ** chance.randrange(65)), 2 ** chance.randrange(65))
    if kind in (3, 4):
        return chance.choice([0.5, -0.0, 1e300, 0.1, math.inf, -2.0, 5e-324]) * chance.choice([1, 3, chance.random()])
    if kind == 5 and with_bytes:
        return chance.randbytes(chance.choice([0, 3, 23, 24, 300]))
    if kind < 9:
        return "".join(chance.choices(chance.choice(ALPHABETS), k=chance.choice([0, 1, 5, 23, 24, 255, 256])))
    inner = [any_value(chance, depth - 1, with_bytes=with_bytes) for _ in range(chance.randrange(7))]
    return inner if kind == 9 else {f"{'é' * n}{chance.random()}": item for n, item in enumerate(inner)}


def some_values(*, with_bytes: bool = True) -> list[Any]:
    """The same ones each time."""
    chance = random.Random(1)
    return [any_value(chance, with_bytes=with_bytes) for _ in range(400)]


class Colour(enum.Enum):
    RED = "red"
    BOTH = ("red", 1)


class Pair(NamedTuple):
    a: int
    b: int


class Name(str):
    pass


class Size(enum.IntEnum):
    BIG = 300


@dataclasses.dataclass
class Point:
    x: int
    tags: tuple[str, ...] = ()


def test_what_it_writes_the_host_reads() -> None:
    for value in some_values():
        assert plain.decode(encode(value)) == value


def test_what_the_host_writes_it_reads() -> None:
    for value in some_values():
        data = plain.encode(value)
        assert decode(data) == value
        assert decode(bytearray(data)) == value


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65_535, 65_536])
def test_lengths_of_every_width_cross(size: int) -> None:
    for value in ("x" * size, b"x" * size, [None] * min(size, 99_998), {str(n): n for n in range(min(size, 30_000))}):
        assert plain.decode(encode(value)) == value
        assert decode(plain.encode(value)) == value


@pytest.mark.parametrize("value", [0, 1, 23, 24, 255, 256, 2**16, 2**32, 2**53 + 1, 2**64 - 1])
def test_integers_of_every_width_cross(value: int) -> None:
    for each in (value, -value, -1 - value):
        assert plain.decode(encode(each)) == each
        assert decode(plain.encode(each)) == each


def test_nan_infinities_and_short_floats_cross() -> None:
    for value in (
        math.inf,
        -math.inf,
        0.0,
        -0.0,
        1.5,
        5.960464477539063e-8,
        65_504.0,
        0.1,
        1e300,
        3.4028234663852886e38,
    ):
        assert str(decode(plain.encode(value))) == str(value)
        assert str(plain.decode(encode(value))) == str(value)
    assert math.isnan(decode(plain.encode(math.nan)))
    assert math.isnan(plain.decode(encode(math.nan)))


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ((1, (2,)), [1, [2]]),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (Colour.RED, "red"),
        (Colour.BOTH, ["red", 1]),
        (Size.BIG, 300),
        (Name("n"), "n"),
        (Point(1, ("a",)), {"x": 1, "tags": ["a"]}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (Pair(1, 2), [1, 2]),
        ({Name("k"): 1, Colour.RED: 2}, {"k": 1, "red": 2}),
        ({"deep": [{"e": Colour.RED}]}, {"deep": [{"e": "red"}]}),
    ],
)
def test_what_stands_for_plain_data_counts_as_it(value: Any, meant: Any) -> None:
    assert plain.decode(encode(value)) == meant


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1}, "the value: set is no plain data: a set has no order: return sorted(...)"),
        ({"a": [1, {2}]}, "['a'][1]: set is no plain data"),
        ([datetime.date(2025, 1, 1)], "[0]: date is no plain data: return its isoformat()"),
        ([[decimal.Decimal(1)]], "[0][0]: Decimal is no plain data: return str(...) or float(...) of it"),
        ({"k": (n for n in "ab")}, "['k']: generator is no plain data: return list(...) of it"),
        (Point, "the value: type is no plain data"),
        (Point(1, ({1},)), "['tags'][0]: set is no plain data"),  # type: ignore[arg-type]
        ({1: 2}, "a map's keys are text, not int: 1"),
        ({"a": {None: 2}}, "['a']: a map's keys are text, not NoneType: None"),
        (2**64, "an integer of more than 64 bits: return str(...) of it"),
        ([0, -(2**64) - 1], "[1]: an integer of more than 64 bits"),
        (["ok", "\ud800"], "[1]: text with a lone surrogate"),
        ({"a": "\udfff"}, "['a']: text with a lone surrogate"),
        ({"\ud800": 1}, "text with a lone surrogate"),
        (object(), "object is no plain data: return text, numbers, bytes, lists and maps"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(value: Any, said: str) -> None:
    with pytest.raises(NotPlain) as caught:
        encode(value)
    assert said in str(caught.value)


def test_what_holds_itself_is_refused_and_told_briefly() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(NotPlain) as caught:
        encode(cycle)
    assert str(caught.value) == "[0][0][0][0]...[0][0][0][0]: lists and maps nest deeper than 64, or it holds itself"


def test_both_ways_nest_as_deeply_as_the_host() -> None:
    deep: Any = None
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert decode(encode(deep)) == plain.decode(encode(deep)) == deep
    with pytest.raises(NotPlain):
        encode([deep])
    with pytest.raises(Malformed):
        decode(b"\x81" * (MAX_DEPTH + 1) + b"\x00")


@pytest.mark.parametrize(
    "data",
    [
        "",
        "0000",  # two items
        "18",  # a number of one byte that is not there
        "19 01",
        "61",
        "62 61",
        "58 ff 00",
        "82 01",
        "a1",
        "a1 61 61",
        "a1 01 02",  # a key that is no text
        "a1 41 61 02",
        "a2 61 61 01 61 61 02",  # a key twice
        "9f 01 ff",  # indefinite
        "7f 61 61 ff",
        "bf ff",
        "1c",
        "c0 61 61",  # a tag
        "c2 41 01",
        "f7",  # undefined
        "f0",
        "f8 20",
        "ff",
        "61 ff",  # no UTF-8
        "63 ed a0 80",  # a surrogate
        "9b ff ff ff ff ff ff ff ff",
        "bb 00 00 00 01 00 00 00 00",
        "7b ff ff ff ff ff ff ff ff",
        "fb 00",
        "f9 00",
    ],
)
def test_what_is_no_plain_cbor_is_refused(data: str) -> None:
    with pytest.raises(Malformed):
        decode(bytes.fromhex(data))


def test_any_bytes_are_read_as_the_host_reads_them_or_refused() -> None:
    chance = random.Random(2)
    for _ in range(3_000):
        data = chance.randbytes(chance.randrange(1, 12))
        try:
            expected = plain.decode(data)
        except PlainError:
            with pytest.raises(Malformed):
                decode(data)
        else:
            assert repr(decode(data)) == repr(expected)
