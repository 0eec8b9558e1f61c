"""Plain data of every kind and border, and what is no plain CBOR, each with what is wrong with it."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from encoding import Times, cbor, nested

__all__ = ["MALFORMED", "VALUES", "request"]

MIB = 1024 * 1024


def request(value: Any, **fields: Any) -> dict[str, Any]:
    """A request to give ``value`` back."""
    return {"abi": 1, "tool": "echo", "arguments": {"value": value}, "context": {}} | fields


# The frame of request() is 11 items and 42 bytes, a length of 2^16 and more takes 5 bytes.
MOST_ITEMS = 100_000 - 11
MOST_TEXT = MIB - len(cbor(request(""))) - 4

PLANES = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0x0041, 0xD7FF, 0xE000, 0xFFFD))

VALUES: Mapping[str, Any] = {
    "null": None,
    "false": False,
    "true": True,
    **{f"int_{n}": n for n in (0, 1, 23, 24, 255, 256, 65_535, 65_536)},
    **{f"int_2_{e}_minus_1": 2**e - 1 for e in (31, 32, 53, 63, 64)},
    **{f"int_2_{e}": 2**e for e in (31, 32, 53, 63)},
    "int_2_53_plus_1": 2**53 + 1,
    **{f"int_minus_{n}": -n for n in (1, 24, 25, 256, 257, 65_536, 65_537)},
    **{f"int_minus_2_{e}": -(2**e) for e in (31, 32, 53, 63, 64)},
    **{f"int_minus_2_{e}_minus_1": -(2**e) - 1 for e in (31, 32, 53, 63)},
    "float_zero": 0.0,
    "float_minus_zero": -0.0,
    "float_one": 1.0,
    "float_half_fraction": 1.5,
    "float_half_negative": -2.25,
    "float_half_largest": 65_504.0,
    "float_half_smallest_normal": 2.0**-14,
    "float_half_largest_subnormal": 1023 * 2.0**-24,
    "float_half_smallest": 2.0**-24,
    "float_single": 100_000.0,
    "float_single_just_over_half": 65_536.0,
    "float_single_largest": 3.4028234663852886e38,
    "float_single_smallest_normal": 2.0**-126,
    "float_single_smallest": 2.0**-149,
    "float_double": 1.1,
    "float_double_negative": -4.1,
    "float_double_whole": 16_777_217.0,
    "float_double_large": 1e300,
    "float_double_largest": sys.float_info.max,
    "float_double_smallest_normal": sys.float_info.min,
    "float_double_smallest": 5e-324,
    "float_nan": math.nan,
    "float_infinity": math.inf,
    "float_minus_infinity": -math.inf,
    "text_empty": "",
    "text_one": "a",
    **{f"text_{n}_bytes": "x" * n for n in (23, 24, 255, 256)},
    "text_65535_bytes": Times("x", 65_535),
    "text_65536_bytes": Times("x", 65_536),
    "text_two_byte_characters": "üßÿ\x80߿",
    "text_three_byte_characters": "水ࠀ힟�￾￿",
    "text_four_byte_characters": "𐀀😀𐅑\U0010ffff",
    "text_every_plane": PLANES,
    "text_nul_inside": "before\0after",
    "text_controls": "".join(map(chr, range(32))) + "\x7f",
    "text_quotes": "\"'\\/`${}\r\n\t",
    "text_joined": "👩‍👩‍👧 é é \ufeff \u202e",
    "text_of_1_mb": Times("水", 333_333),
    "bytes_empty": b"",
    "bytes_one": b"\0",
    "bytes_all": bytes(range(256)),
    **{f"bytes_{n}": bytes(n) for n in (23, 24, 255)},
    "bytes_65536": bytes(65_536),
    "list_empty": [],
    "list_of_empty": [[], {}, "", b""],
    **{f"list_{n}_items": list(range(n)) for n in (23, 24)},
    "list_255_items": Times(None, 255),
    "list_256_items": Times(None, 256),
    "list_65536_items": Times(0, 65_536),
    "list_of_every_kind": [None, True, -1, 1, 0.5, "a", b"b", [1], {"c": 1}],
    "map_empty": {},
    "map_of_every_kind": {"n": None, "b": False, "i": -1, "f": 0.5, "t": "a", "y": b"b", "l": [1], "m": {"c": 1}},
    "map_empty_key": {"": 1},
    "map_key_orders": {"b": 1, "aa": 2, "a": 3, "": 4, "ü": 5, "\uffff": 6, "\U00010000": 7},
    "map_key_nul": {"a\0b": 1, "a": 2},
    "map_key_names": {"__proto__": 1, "constructor": 2, "toString": 3, "length": 4, "class": 5, "0": 6},
    **{f"map_key_{n}_bytes": {"k" * n: n} for n in (23, 24, 256)},
    **{f"map_{n}_keys": {f"key{i}": i for i in range(n)} for n in (23, 24, 300)},
    "depth_lists": nested(62),
    "depth_maps": nested(62, map_key="k"),
    "most_items": Times(0, MOST_ITEMS),
    "most_bytes": Times("x", MOST_TEXT),
}
"""Each is the argument ``value`` of a request to ``echo``."""

MALFORMED: Mapping[str, tuple[bytes, str]] = {
    "tag_date": (b"\xc0\x6a2025-01-01", "a tag"),
    "tag_number": (b"\xc1\x00", "a tag"),
    "tag_bignum": (b"\xc2\x41\x01", "a tag"),
    "tag_self_described": (b"\xd9\xd9\xf7\x00", "a tag"),
    "undefined": (b"\xf7", "undefined"),
    "simple_0": (b"\xe0", "a simple value"),
    "simple_19": (b"\xf3", "a simple value"),
    "simple_32": (b"\xf8\x20", "a simple value"),
    "simple_255": (b"\xf8\xff", "a simple value"),
    "simple_false_in_two_bytes": (b"\xf8\x14", "not well-formed: a simple value below 32 in two bytes"),
    "indefinite_bytes": (b"\x5f\x41\x00\xff", "an indefinite length"),
    "indefinite_text": (b"\x7f\x61a\xff", "an indefinite length"),
    "indefinite_list": (b"\x9f\x00\xff", "an indefinite length"),
    "indefinite_map": (b"\xbf\x61a\x00\xff", "an indefinite length"),
    "break": (b"\xff", "a break without a beginning"),
    "break_in_list": (b"\x82\x00\xff", "a break without a beginning"),
    **{
        f"reserved_{major}_{info}": (bytes([major << 5 | info]), "reserved additional information")
        for major in (0, 1, 2, 3, 4, 5, 7)
        for info in (28, 30)
    },
    "reserved_0_31": (b"\x1f", "reserved additional information"),
    "reserved_1_31": (b"\x3f", "reserved additional information"),
    "key_twice": (b"\xa2\x61a\x00\x61a\x01", "a key twice"),
    "key_twice_apart": (b"\xa3\x61a\x00\x61b\x00\x61a\x00", "a key twice"),
    "key_twice_inside": (b"\x81\xa2\x61a\x00\x61a\x00", "a key twice"),
    "key_twice_in_two_encodings": (b"\xa2\x61a\x00\x78\x01a\x01", "a key twice"),
    "key_int": (b"\xa1\x01\x00", "a key that is no text"),
    "key_bytes": (b"\xa1\x41a\x00", "a key that is no text"),
    "key_null": (b"\xa1\xf6\x00", "a key that is no text"),
    "key_list": (b"\xa1\x80\x00", "a key that is no text"),
    "key_bad_utf8": (b"\xa1\x61\xff\x00", "text that is not UTF-8"),
    **{
        f"utf8_{name}": (bytes([0x60 | len(text)]) + text, "text that is not UTF-8")
        for name, text in {
            "overlong_2": b"\xc0\xaf",
            "overlong_2_last": b"\xc1\xbf",
            "overlong_3": b"\xe0\x9f\xbf",
            "overlong_4": b"\xf0\x8f\xbf\xbf",
            "surrogate_first": b"\xed\xa0\x80",
            "surrogate_last": b"\xed\xbf\xbf",
            "surrogate_pair": b"\xed\xa0\xbd\xed\xb8\x80",
            "over_10ffff": b"\xf4\x90\x80\x80",
            "five_bytes": b"\xf8\x88\x80\x80\x80",
            "lone_continuation": b"a\x80",
            "cut_2": b"\xc3",
            "cut_3": b"\xe6\xb0",
            "cut_4": b"\xf0\x9f\x98",
            "cut_before_ascii": b"\xe6\xb0a",
            "fe": b"\xfe",
        }.items()
    },
    "cut_head": (b"\x19\x01", "it ends too early"),
    "cut_text": (b"\x65abc", "it ends too early"),
    "cut_bytes": (b"\x45abc", "it ends too early"),
    "cut_float": (b"\xfb\x00\x00", "it ends too early"),
    "cut_list": (b"\x83\x01\x02", "it ends too early"),
    "cut_map_before_value": (b"\xa1\x61a", "it ends too early"),
    "length_text_2_64": (b"\x7b" + b"\xff" * 8, "a length beyond the end"),
    "length_text_2_32": (b"\x7a" + b"\xff" * 4, "a length beyond the end"),
    "length_bytes_2_32": (b"\x5a\xff\xff\xff\xf0", "a length beyond the end"),
    "length_list_2_64": (b"\x9b" + b"\xff" * 8, "a length beyond the end"),
    "length_list_2_32": (b"\x9a\xff\xff\xff\xff", "a length beyond the end"),
    "length_map_2_63": (b"\xbb\x80" + bytes(7), "a length beyond the end"),
    "length_map_2_31": (b"\xba\x80\x00\x00\x00", "a length beyond the end"),
    "depth_lists": (cbor(nested(63)), "deeper than 64"),
    "depth_maps": (cbor(nested(63, map_key="k")), "deeper than 64"),
    "depth_bomb": (b"\x81" * 100_000 + b"\x00", "deeper than 64"),
}
"""What is no plain CBOR, each as the last item of a message of which the rest is right (two levels around it)."""
