"""RFC 8949, row by row: appendix A (what its examples are here) and appendix F (what is not well-formed)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.errors import Malformed, PlainError

NAN = math.nan
TAG = "tags"
INDEFINITE = "indefinite"
SIMPLE = "simple values"

# Appendix A: hex, and the value in plain data.
VALUES: list[tuple[str, Any]] = [
    ("00", 0),
    ("01", 1),
    ("0a", 10),
    ("17", 23),
    ("1818", 24),
    ("1819", 25),
    ("1864", 100),
    ("1903e8", 1000),
    ("1a000f4240", 1000000),
    ("1b000000e8d4a51000", 1000000000000),
    ("1bffffffffffffffff", 18446744073709551615),
    ("3bffffffffffffffff", -18446744073709551616),
    ("20", -1),
    ("29", -10),
    ("3863", -100),
    ("3903e7", -1000),
    ("f90000", 0.0),
    ("f98000", -0.0),
    ("f93c00", 1.0),
    ("fb3ff199999999999a", 1.1),
    ("f93e00", 1.5),
    ("f97bff", 65504.0),
    ("fa47c35000", 100000.0),
    ("fa7f7fffff", 3.4028234663852886e38),
    ("fb7e37e43c8800759c", 1.0e300),
    ("f90001", 5.960464477539063e-8),
    ("f90400", 0.00006103515625),
    ("f9c400", -4.0),
    ("fbc010666666666666", -4.1),
    ("f97c00", math.inf),
    ("f97e00", NAN),
    ("f9fc00", -math.inf),
    ("fa7f800000", math.inf),
    ("fa7fc00000", NAN),
    ("faff800000", -math.inf),
    ("fb7ff0000000000000", math.inf),
    ("fb7ff8000000000000", NAN),
    ("fbfff0000000000000", -math.inf),
    ("f4", False),
    ("f5", True),
    ("f6", None),
    ("40", b""),
    ("4401020304", b"\x01\x02\x03\x04"),
    ("60", ""),
    ("6161", "a"),
    ("6449455446", "IETF"),
    ("62225c", '"\\'),
    ("62c3bc", "\u00fc"),
    ("63e6b0b4", "\u6c34"),
    ("64f0908591", "\U00010151"),
    ("80", []),
    ("83010203", [1, 2, 3]),
    ("8301820203820405", [1, [2, 3], [4, 5]]),
    ("98190102030405060708090a0b0c0d0e0f101112131415161718181819", list(range(1, 26))),
    ("a0", {}),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("826161a161626163", ["a", {"b": "c"}]),
    ("a56161614161626142616361436164614461656145", {"a": "A", "b": "B", "c": "C", "d": "D", "e": "E"}),
]

# Appendix A, too: well-formed CBOR that is not plain, and the word that says why.
REFUSED: list[tuple[str, str]] = [
    ("c249010000000000000000", TAG),
    ("c349010000000000000000", TAG),
    ("f7", "undefined"),
    ("f0", SIMPLE),
    ("f8ff", SIMPLE),
    ("c074323031332d30332d32315432303a30343a30305a", TAG),
    ("c11a514b67b0", TAG),
    ("c1fb41d452d9e8200000", TAG),
    ("d74401020304", TAG),
    ("d818456449455446", TAG),
    ("d82076687474703a2f2f7777772e6578616d706c652e636f6d", TAG),
    ("a201020304", "key of a map is not text"),
    ("5f42010243030405ff", INDEFINITE),
    ("7f657374726561646d696e67ff", INDEFINITE),
    ("9fff", INDEFINITE),
    ("9f018202039f0405ffff", INDEFINITE),
    ("9f01820203820405ff", INDEFINITE),
    ("83018202039f0405ff", INDEFINITE),
    ("83019f0203ff820405", INDEFINITE),
    ("9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff", INDEFINITE),
    ("bf61610161629f0203ffff", INDEFINITE),
    ("826161bf61626163ff", INDEFINITE),
    ("bf6346756ef563416d7421ff", INDEFINITE),
]

# Encodings of the table that are well-formed but longer than they need be.
LONGER_THAN_NEEDED = {
    "fa7f800000",
    "fa7fc00000",
    "faff800000",
    "fb7ff0000000000000",
    "fb7ff8000000000000",
    "fbfff0000000000000",
}

# Appendix F: examples of byte strings that are not well-formed.
NOT_WELL_FORMED = """
    18 19 1a 1b 1901 1a0102 1b01020304050607 38 58 78 98 9a01ff00 b8 d8 f8 f900 fa0000 fb000000
    41 61 5affffffff00 5bffffffffffffffff010203 7affffffff00 7b7fffffffffffffff010203
    81 818181818181818181 8200 a1 a20102 a100 a2000000
    c0 5f4100 7f6100 9f 9f0102 bf bf01020102 819f 9f8000 9f9f9f9f9fffffffff 9f819f819f9fffffff
    1c 1d 1e 3c 3d 3e 5c 5d 5e 7c 7d 7e 9c 9d 9e bc bd be dc dd de fc fd fe
    f800 f801 f818 f81f
    5f00ff 5f21ff 5f6100ff 5f80ff 5fa0ff 5fc000ff 5fe0ff 7f4100ff
    5f5f4100ffff 7f7f6100ffff
    ff 81ff 8200ff a1ff a1ff00 a100ff a20000ff 9f81ff 9f829f819f9fffffffff
    bf00ff bf000000ff 1f 3f df
    00ff 0000 a0a0
"""


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return type(left) is type(right) and bool(left == right)


@pytest.mark.parametrize(("encoded", "value"), VALUES, ids=[row[0][:20] for row in VALUES])
def test_a_plain_example_of_appendix_a_decodes_to_its_value(encoded: str, value: Any) -> None:
    assert same(plain.decode(bytes.fromhex(encoded)), value)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [row for row in VALUES if row[0] not in LONGER_THAN_NEEDED],
    ids=[row[0][:20] for row in VALUES if row[0] not in LONGER_THAN_NEEDED],
)
def test_its_value_encodes_to_the_example(encoded: str, value: Any) -> None:
    assert plain.encode(value).hex() == encoded


@pytest.mark.parametrize(("encoded", "why"), REFUSED, ids=[row[0][:20] for row in REFUSED])
def test_an_example_of_appendix_a_that_is_not_plain_is_refused_with_its_reason(encoded: str, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        plain.decode(bytes.fromhex(encoded))


def test_all_rows_of_appendix_a_are_here() -> None:
    assert len(VALUES) + len(REFUSED) == 81
    assert len({row[0] for row in [*VALUES, *REFUSED]}) == 81


@pytest.mark.parametrize("encoded", NOT_WELL_FORMED.split())
def test_what_appendix_f_calls_not_well_formed_is_refused(encoded: str) -> None:
    with pytest.raises(PlainError):
        plain.decode(bytes.fromhex(encoded))


def test_every_tag_number_is_refused_in_every_length() -> None:
    for number in range(65_536):
        heads = [bytes([0xD9]) + number.to_bytes(2, "big")]
        if number < 24:
            heads.append(bytes([0xC0 | number]))
        if number < 256:
            heads.append(bytes([0xD8, number]))
        for head in heads:
            with pytest.raises(Malformed, match="tags are not plain"):
                plain.decode(head + b"\x00")


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 28, 29, 258, 55_799, 65_535, 65_536, 2**32 - 1])
def test_tags_are_refused_in_the_long_lengths_too(width: int, number: int) -> None:
    head = bytes([0xDA if width == 4 else 0xDB]) + number.to_bytes(width, "big")
    for content in (b"\x00", b"\x80", b"\x41\x01", b"\x61a", b"\x82\x01\x02"):
        with pytest.raises(Malformed, match="tags are not plain"):
            plain.decode(head + content)


@pytest.mark.parametrize("place", ["81{}00", "a16161{}00", "a1{}616100", "a1{}6161", "82 00 {}6161"])
def test_tags_are_refused_wherever_they_stand(place: str) -> None:
    with pytest.raises(Malformed):
        plain.decode(bytes.fromhex(place.format("c2")))


@pytest.mark.parametrize("value", [v for v in range(32) if v not in (20, 21, 22, 25, 26, 27)])
def test_every_other_simple_value_is_refused(value: int) -> None:
    with pytest.raises(Malformed):
        plain.decode(bytes([0xE0 | value]) + b"\xff" * (value == 24))


def test_simple_values_of_two_bytes_are_refused_even_for_false_true_and_null() -> None:
    for value in range(256):
        with pytest.raises(Malformed):
            plain.decode(bytes([0xF8, value]))
