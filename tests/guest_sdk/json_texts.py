"""Texts that are JSON, with what they mean, and texts that are none: what each SDK's own reader is held to."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

__all__ = ["BAD", "GOOD", "URL_PARTS", "close", "json_values"]

URL_PARTS = ("", "plain-._~09azAZ", "São Paulo/&=?#%+", "@[`{\x00\x7f", "水")

GOOD: tuple[tuple[str, Any], ...] = (
    ("1", 1),
    (" [ ] ", []),
    ("{}", {}),
    ('\t{"a"\r:\n[1 , -2,true,false,null]}', {"a": [1, -2, True, False, None]}),
    (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'),
    (r'"\u0041\u00e9\u6c34\ud83d\ude00\u0000x"', "Aé水😀\x00x"),
    (r'"\ud83d"', "\ufffd"),
    (r'"\ude00\ud83d\u0041"', "\ufffd\ufffdA"),
    ("-0", 0),
    ("18446744073709551615", 2**64 - 1),
    ("18446744073709551616", 2.0**64),
    ("-18446744073709551615", -(2**64) + 1),
    ("0.1", 0.1),
    ("-1.5e2", -150.0),
    ("1E+2", 100.0),
    ("1e-22", 1e-22),
    ("1e999999999999999999999", math.inf),
    ("-1e999", -math.inf),
    ("1e-999999999999999999999", 0.0),
    ("0e999999", 0.0),
)

BAD = (
    b"", b" ", b"[", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1 2]", b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,}',
    b"]", b"{1:2}", b"{'a':1}", b'{"a" 1}', b"01", b"-", b"+1", b"1.", b".5", b"1e", b"1e+", b"1x", b"1 1", b"nul",
    b"True", b"NaN", b"Infinity", b'"', b'"\\', b'"\\x"', b'"\\u12"', b'"\\u12G4"', b'"\n"', b'"\x00"', b'"\xff"',
    b'"\xc3', b"\xef\xbb\xbf1", b"/**/1", b"[" * 65 + b"]" * 65, b"[" * 100_000, b'{"a":' * 100_000,
)  # fmt: skip

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64) + 1, 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


def close(got: Any, value: Any) -> bool:
    """Equal, but for floats, which need not be rounded rightly beyond 15 digits."""
    if isinstance(value, float):
        return isinstance(got, float) and math.isclose(got, value, rel_tol=1e-14, abs_tol=1e-322)
    if isinstance(value, list):
        return isinstance(got, list) and len(got) == len(value) and all(map(close, got, value))
    if isinstance(value, dict):
        return (
            isinstance(got, dict) and got.keys() == value.keys() and all(close(got[key], value[key]) for key in value)
        )
    return type(got) is type(value) and bool(got == value)
