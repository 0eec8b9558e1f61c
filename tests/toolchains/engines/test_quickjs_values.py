"""Plain data crosses into JavaScript and back as it is, and what is not plain is told with its path."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.toolchains.engines.quickjs_bench import Bench, Loaded

_ECHO = "/** Answers what it is given. @param {any} args */ export function echo(args) { return args.value; }"
_SAFE = 2**53 - 1

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# A float that is whole and exact comes back as an integer: JavaScript has one kind of number.
numbers = st.integers(-(2**64), 2**64 - 1) | st.floats(allow_nan=False).filter(lambda each: not each.is_integer())
plain_data = st.recursive(
    st.none() | st.booleans() | numbers | texts | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def echo(quickjs: Bench) -> Loaded:
    return quickjs.load(_ECHO)


@given(plain_data)
def test_what_goes_in_comes_out(echo: Loaded, value: Any) -> None:
    assert echo.call("echo", {"value": value}) == {"ok": value}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (0, "number"),
        (-(2**53) + 1, "number"),
        (_SAFE, "number"),
        (_SAFE + 1, "bigint"),
        (2**64 - 1, "bigint"),
        (-(2**53), "bigint"),
        (-(2**64), "bigint"),
        (0.5, "number"),
        (65504.0, "number"),
        (2.0**-24, "number"),
        (1e-40, "number"),
        (b"ab", "object"),
        ("text", "string"),
        (None, "object"),
        (True, "boolean"),
    ],
)
def test_each_kind_is_javascript_s_own(quickjs: Bench, given: Any, kind: str) -> None:
    assert quickjs.answer("return [typeof args.x, args.x]", {"x": given}) == {"ok": [kind, given]}


def test_bytes_are_a_uint8array(quickjs: Bench) -> None:
    assert quickjs.answer("return args.x instanceof Uint8Array && args.x.length", {"x": b"abc"}) == {"ok": 3}


def test_numbers_that_are_none_cross(quickjs: Bench) -> None:
    answer = quickjs.answer("return [args.x, -args.y, 0 / 0]", {"x": math.inf, "y": math.inf})
    assert answer["ok"][:2] == [math.inf, -math.inf]
    assert math.isnan(answer["ok"][2])


def test_whole_numbers_are_integers_and_minus_zero_is_zero(quickjs: Bench) -> None:
    answer = quickjs.answer("return [-0, 4 / 2, 2 ** 53, 1e21, -(2 ** 53) + 1, 0.1 + 0.2]")["ok"]
    assert answer == [0, 2, 2.0**53, 1e21, -(2**53) + 1, 0.30000000000000004]
    assert [type(each) for each in answer] == [int, int, float, float, int, float]
    assert math.copysign(1, answer[0]) == 1


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("undefined", None),
        ("", None),
        ("{ a: undefined, b: null, [Symbol('c')]: 1 }", {"b": None}),
        ("[undefined, , 1]", [None, None, 1]),
        ("Object.fromEntries(Array.from({length: 300}, (_, i) => ['k' + i, i % 3 ? undefined : i]))", None),
        ("Object.create(null)", {}),
        ("new Uint8Array([1, 2, 3]).subarray(1)", b"\x02\x03"),
        ("new Uint8ClampedArray([300])", b"\xff"),
        ("new ArrayBuffer(2)", b"\0\0"),
        ("{ get x() { return 5; } }", {"x": 5}),
        ("[2n ** 64n - 1n, -(2n ** 64n), -1n, 0n]", [2**64 - 1, -(2**64), -1, 0]),
        ('"ab".repeat(3) + "c".repeat(9000) + "d".repeat(9000)', "ababab" + "c" * 9000 + "d" * 9000),
        ('"a\\ud83db" + "c".repeat(20) + "\\udc00"', "a\ufffdb" + "c" * 20 + "\ufffd"),
        ('"\\ud83d" + "\\ude00"', "\U0001f600"),
    ],
)
def test_what_javascript_has_beside_plain_data(quickjs: Bench, written: str, value: Any) -> None:
    if "300" in written and "length" in written:
        value = {f"k{number}": number for number in range(0, 300, 3)}
    assert quickjs.answer(f"return {written}".rstrip()) == {"ok": value}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("new Map()", "the answer is a Map, which is no plain data: write Object.fromEntries(map)"),
        ("{ a: [1, { b: new Date(0) }] }", "the answer.a[1].b is a Date, which is no plain data: write date.toISO"),
        ("new Set()", "the answer is a Set, which is no plain data: write Array.from(it)"),
        ("{ 'a b': new Float64Array(1) }", 'the answer["a b"] is a Float64Array, which is no plain data'),
        ("[Promise.resolve(1)]", "the answer[0] is a Promise, which is no plain data: await it"),
        ("new (class Point { x = 1 })()", "the answer is a Point, which is no plain data: write { ...it }"),
        ("/a/", "the answer is a RegExp, which is no plain data"),
        ("new Error('x')", "the answer is an Error, which is no plain data"),
        ("new Image('image/png', new Uint8Array(1))", "the answer is an Image, which is no plain data: write Ok("),
        ("() => 1", "the answer is a function, which is no plain data"),
        ("{ toJSON() { return 1; } }", "the answer.toJSON is a function, which is no plain data"),
        ("Symbol('x')", "the answer is a symbol, which is no plain data"),
        ("{ '\\ud800': 1 }", "the answer has a key with half a surrogate pair"),
        ("new Proxy({}, {})", "the answer holds a Proxy, which is no plain data"),
        ("Failed(new Map())", "the failure's reason is a Map"),
    ],
)
def test_what_is_not_plain_is_told_with_its_path(quickjs: Bench, written: str, message: str) -> None:
    raised = quickjs.answer(f"return {written}")["raised"]
    assert raised["type"] == "TypeError"
    assert raised["message"].startswith(f"rho: {message}")


def test_a_bigint_beyond_cbor_is_told(quickjs: Bench) -> None:
    for written in ("2n ** 64n", "-(2n ** 64n) - 1n"):
        raised = quickjs.answer(f"return {written}")["raised"]
        assert (raised["type"], raised["message"]) == (
            "RangeError",
            "rho: a BigInt of the answer is outside -2^64 .. 2^64-1",
        )


def test_depth_is_that_of_plain_data(quickjs: Bench) -> None:
    nest = "let v = 1; for (let i = 0; i < {}; i++) v = [v]; return v"
    value: Any = 1
    for _ in range(63):
        value = [value]
    assert quickjs.answer(nest.format(63)) == {"ok": value}
    raised = quickjs.answer(nest.format(64))["raised"]
    assert raised["message"].endswith("nests deeper than 64 levels, or holds itself")
    assert "raised" in quickjs.answer("const a = {}; a.a = a; return a")


def test_a_key_proto_is_a_key_like_any_other(quickjs: Bench) -> None:
    body = "return [({}).polluted ?? 'clean', Object.hasOwn(args.x, '__proto__'), args.x.polluted ?? 'clean', args.x]"
    given = {"__proto__": {"polluted": True}, "constructor": {"prototype": {"polluted": True}}}
    assert quickjs.answer(body, {"x": given}) == {"ok": ["clean", True, "clean", given]}


@pytest.mark.parametrize(
    "malformed",
    [
        b"",
        b"\xa1",
        b"\xa1\x01\x01",
        b"\xff",
        b"\x81",
        b"\xc0\x01",
        b"\xf7",
        b"\x5f\xff",
        b"\x9b" + b"\xff" * 8,
        b"\0\0",
    ],
)
def test_a_request_that_is_no_plain_cbor_is_told(quickjs: Bench, malformed: bytes) -> None:
    raised = quickjs.load(_ECHO).enter("rho_call", malformed)["raised"]
    assert raised["message"] == "rho: what the host sent is no plain CBOR"
