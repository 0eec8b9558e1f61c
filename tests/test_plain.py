"""Plain data and its CBOR: round trips, the deterministic form, and what is refused before it costs anything."""

from __future__ import annotations

import ast
import json
import math
import re
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rho_wasm
from rho_wasm import plain
from rho_wasm.errors import Malformed, NotPlain, PlainError, TooLarge

text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats()
    | st.floats(width=16)
    | text
    | st.binary(max_size=64)
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=25)


def same(left: Any, right: Any) -> bool:
    """Equal, with the types, with NaN equal to itself, and 0.0 not equal to -0.0."""
    if type(left) is not type(right):
        return False
    if type(left) is float:
        return (
            math.isnan(right)
            if math.isnan(left)
            else (left, math.copysign(1, left)) == (right, math.copysign(1, right))
        )
    if type(left) is list:
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is dict:
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


# -- round trips


@given(values)
@settings(max_examples=100)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert same(plain.decode(plain.encode(value)), value)


@given(values)
@settings(max_examples=100)
def test_another_encoding_of_a_value_decodes_to_it_and_encodes_to_one_form(value: Any) -> None:
    decoded = plain.decode(cbor2.dumps(value))
    assert same(decoded, value)
    assert plain.encode(decoded) == plain.encode(value)


@given(st.binary(max_size=200) | st.lists(st.sampled_from(range(256)), max_size=60).map(bytes))
@settings(max_examples=300)
def test_random_bytes_raise_nothing_but_a_plain_error(data: bytes) -> None:
    try:
        value = plain.decode(data)
    except PlainError:
        return
    form = plain.encode(value)
    assert len(form) <= len(data)
    assert plain.encode(plain.decode(form)) == form


@given(values, st.data())
@settings(max_examples=100)
def test_a_message_that_was_cut_or_altered_raises_nothing_but_a_plain_error(value: Any, data: st.DataObject) -> None:
    encoded = bytearray(plain.encode(value))
    at = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(PlainError):
        plain.decode(bytes(encoded[:at]))
    encoded[at] = data.draw(st.integers(0, 255))
    try:
        plain.decode(bytes(encoded))
    except PlainError:
        pass


# -- the deterministic form


def test_map_keys_stand_in_the_bytewise_order_of_their_encodings() -> None:
    keys = ["", "a", "b", "z", "aa", "é", "ab", "z" * 23, "z" * 24, "é" * 12, "水"]
    form = plain.encode(dict.fromkeys(keys, 0))
    assert form == plain.encode(dict.fromkeys(reversed(keys), 0))
    assert list(plain.decode(form)) == sorted(keys, key=cbor2.dumps)


@given(values)
@settings(max_examples=100)
def test_the_form_is_the_canonical_one_of_another_encoder(value: Any) -> None:
    assert plain.encode(value) == cbor2.dumps(value, canonical=True)


@pytest.mark.parametrize("step", [1, 3, 50, 2_000])
def test_what_is_encoded_in_steps_has_the_bytes_of_the_whole(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": f"n{number}", "at": [number, 0.5, None], "inner": {"k" * number: {}}} for number in range(300)]
    values: list[Any] = [
        rows,
        {f"k{number}": row for number, row in enumerate(rows)},
        [[[rows]]],
        [1.5] * 300,
        [{}] * 30,
    ]
    wholes = [plain.encode(value) for value in values]
    monkeypatch.setattr(plain, "_STEP_ITEMS", step)
    assert [plain.encode(value) for value in values] == wholes
    assert [plain.decode(whole) for whole in wholes] == values


def test_encoding_leaves_the_value_as_it_was() -> None:
    value = {"bb": [{"b": 0, "a": 1}], "a": 1.5}
    plain.encode(value)
    assert repr(value) == "{'bb': [{'b': 0, 'a': 1}], 'a': 1.5}"


@pytest.mark.parametrize(
    ("value", "size"),
    [(23, 1), (24, 2), (255, 2), (256, 3), (65_535, 3), (65_536, 5), (2**32, 9), (-24, 1), (-25, 2)],
)
def test_integers_take_the_shortest_form(value: int, size: int) -> None:
    assert len(plain.encode(value)) == size


@pytest.mark.parametrize(
    ("value", "head"),
    [
        (1.5, "f9"),
        (65_504.0, "f9"),
        (65_505.0, "fa"),
        (2.0**-24, "f9"),
        (2.0**-25, "fa"),
        (0.1, "fb"),
        (2.0**-149, "fa"),
    ],
)
def test_floats_take_the_shortest_form_that_keeps_their_value(value: float, head: str) -> None:
    assert plain.encode(value).hex().startswith(head)
    assert plain.decode(plain.encode(value)) == value


@pytest.mark.parametrize(
    "encoded", ["f97e00", "f97e01", "f9fe00", "fa7fc00001", "fb7ff0000000000001", "fbfff8000000000000"]
)
def test_every_nan_is_nan_and_encodes_to_one_form(encoded: str) -> None:
    value = plain.decode(bytes.fromhex(encoded))
    assert math.isnan(value)
    assert plain.encode(value).hex() == "f97e00"


# -- what encode refuses


class Text(str):
    __slots__ = ()


class Number(int):
    pass


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        {1},
        object(),
        Text("a"),
        Number(1),
        OrderedDict(a=1),
        bytearray(b"a"),
        1j,
        len,
        cbor2.CBORTag(2, b"a"),
        cbor2.undefined,
        cbor2.CBORSimpleValue(99),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_any_other_type_is_not_plain(value: Any) -> None:
    for held in (value, [value], {"a": value}):
        with pytest.raises(NotPlain) as caught:
            plain.encode(held)
        assert caught.value.type_name == type(value).__name__
        assert caught.value.reason == "not_plain"


def test_the_error_says_where_the_value_stands() -> None:
    with pytest.raises(NotPlain, match=r"^\$\.a\[1\]\.b: set is not plain data"):
        plain.encode({"z": 1, "a": [0, {"c": 1, "b": {1}}]})
    with pytest.raises(NotPlain, match=r"^\$\.a\[1\]: int is not plain data: keys of maps are text"):
        plain.encode({"z": 1, "a": [0, {"c": 1, 7: 1}]})
    with pytest.raises(NotPlain, match=r"^\$: set is"):
        plain.encode({1})


def test_a_hostile_key_cannot_make_the_error_long_or_live() -> None:
    with pytest.raises(NotPlain) as caught:
        plain.encode({"\x1b[31m" * 100_000: {1}})
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [2**64, -(2**64) - 1, 10**1000])
def test_integers_beyond_the_range_are_refused(value: int) -> None:
    with pytest.raises(NotPlain, match=r"2\^64"):
        plain.encode({"a": value})


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb", {"\ud800": 1}, {"b": 1, "\ud800": 1, "é": 2}, ["\udc00"]])
def test_lone_surrogates_are_refused(value: Any) -> None:
    with pytest.raises(NotPlain, match="surrogate"):
        plain.encode(value)


def test_a_cycle_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    knot: dict[str, Any] = {}
    knot["again"] = [knot]
    for value in (loop, knot):
        with pytest.raises(TooLarge, match="depth"):
            plain.encode(value)


def test_depth_counts_nested_lists_and_maps() -> None:
    assert plain.decode(plain.encode(nested(64))) == nested(64)
    with pytest.raises(TooLarge, match="depth of more than 64"):
        plain.encode(nested(65))
    assert plain.encode(0, max_depth=1)
    with pytest.raises(TooLarge, match="depth of more than 1"):
        plain.encode([[]], max_depth=1)


def test_no_depth_beyond_the_fixed_one_is_honoured() -> None:
    with pytest.raises(TooLarge, match=f"depth of more than {plain.MAX_DEPTH}"):
        plain.encode(nested(plain.MAX_DEPTH + 1), max_depth=10**9, max_items=10**9)
    with pytest.raises(TooLarge, match=f"depth of more than {plain.MAX_DEPTH}"):
        plain.decode(b"\x81" * (plain.MAX_DEPTH + 1) + b"\x00", max_depth=10**9)
    deepest = nested(plain.MAX_DEPTH)
    assert plain.decode(plain.encode(deepest, max_depth=10**9), max_depth=10**9) == deepest


def test_items_count_the_value_itself_and_every_element_key_and_value() -> None:
    for value, items in (([0] * 9, 10), ({"a": 0, "b": 0}, 5), ([{"a": []}], 4)):
        assert plain.decode(plain.encode(value, max_items=items), max_items=items) == value
        with pytest.raises(TooLarge, match="items"):
            plain.encode(value, max_items=items - 1)
        with pytest.raises(TooLarge, match="items"):
            plain.decode(plain.encode(value), max_items=items - 1)


def test_bytes_are_bounded_to_the_last_one() -> None:
    value = ["x" * 1000]
    size = len(plain.encode(value))
    assert plain.decode(plain.encode(value, max_bytes=size), max_bytes=size) == value
    with pytest.raises(TooLarge, match=rf"more than {size - 1:,} bytes \({size:,}\)"):
        plain.encode(value, max_bytes=size - 1)
    with pytest.raises(TooLarge, match="bytes"):
        plain.decode(plain.encode(value), max_bytes=size - 1)


def test_one_large_text_in_many_places_is_refused_before_it_is_written() -> None:
    value = ["x" * 1_000_000] * 50_000
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="bytes"):
            plain.encode(value)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@given(values | st.text() | st.dictionaries(st.text(max_size=9), st.text(max_size=9)), st.integers(0, 60))
@settings(max_examples=200)
def test_copied_refuses_exactly_what_encode_refuses(value: Any, bound: int) -> None:
    every: list[dict[str, Any]] = [{}, {"max_bytes": bound}, {"max_items": bound // 4}, {"max_depth": bound // 20}]
    for bounds in every:
        try:
            plain.encode(value, **bounds)
        except PlainError as error:
            with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
                plain.copied(value, **bounds)
        else:
            assert same(plain.copied(value, **bounds).value, value)


def test_a_copy_shares_nothing_with_the_value_and_keeps_the_order_of_keys() -> None:
    value = {"bb": [{"b": 0, "a": 1}], "a": {}, "c": []}
    copy = plain.copied(value).value
    assert list(copy) == ["bb", "a", "c"]
    assert list(copy["bb"][0]) == ["b", "a"]
    copy["bb"][0]["b"] = copy["a"]["x"] = 7
    copy["c"].append(7)
    assert value == {"bb": [{"b": 0, "a": 1}], "a": {}, "c": []}


def test_a_copy_says_what_was_seen_of_it() -> None:
    plainly = plain.copied({"text": "four", "list": [[1], 2.5]})
    assert (plainly.items, plainly.chars, plainly.depth, plainly.floats, plainly.in_order) == (8, 12, 3, True, False)
    assert (plain.copied("x").depth, plain.copied([]).depth, plain.copied({}).floats) == (0, 1, False)


def test_a_copy_in_order_has_its_keys_as_their_encodings_are_ordered() -> None:
    copy = plain.copied({"bb": {"z": 1, "aa": 2, "é": 3}, "a": 1}, in_order=True)
    assert list(copy.value) == ["a", "bb"]
    assert list(copy.value["bb"]) == ["z", "aa", "é"]
    assert plain.encode_framed({"f": 0, "g": copy.value}, copy) == plain.encode({"f": 0, "g": copy.value})


# -- what decode refuses


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        ("", "ends too early"),
        ("0000", "something follows"),
        ("a0f6", "something follows"),
        ("a14161 01", "key of a map is not text"),
        ("a10001", "key of a map is not text"),
        ("a1f9000001", "key of a map is not text"),
        ("a1f601", "key of a map is not text"),
        ("a18001", "key of a map is not text"),
        ("a2616101616102", "occurs twice"),
        ("a261610178016102", "occurs twice"),
        ("a26161016162 78", "ends too early"),
        ("81a2616101616102", "occurs twice"),
        ("61ff", "UTF-8"),
        ("62c080", "UTF-8"),
        ("63eda080", "UTF-8"),
        ("64f4908080", "UTF-8"),
        ("a161ff00", "UTF-8"),
        ("f7", "undefined"),
    ],
)
def test_what_is_not_one_plain_item_is_malformed(encoded: str, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        plain.decode(bytes.fromhex(encoded))


def test_the_error_says_at_which_byte() -> None:
    with pytest.raises(Malformed) as caught:
        plain.decode(bytes.fromhex("8301a0c000"))
    assert caught.value.offset == 3
    assert "at byte 3" in str(caught.value)


def test_the_error_shows_nothing_of_the_message() -> None:
    key = plain.encode("\x1b[31m secret")
    with pytest.raises(Malformed) as caught:
        plain.decode(b"\xa2" + key + b"\x00" + key + b"\x00")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("1800", 0),
        ("1b0000000000000001", 1),
        ("780161", "a"),
        ("5b000000000000000161", b"a"),
        ("9800", []),
        ("b90001616100", {"a": 0}),
    ],
)
def test_longer_heads_than_needed_are_accepted(encoded: str, value: Any) -> None:
    assert plain.decode(bytes.fromhex(encoded)) == value


def test_one_message_leaves_nothing_for_the_next() -> None:
    with pytest.raises(Malformed):
        plain.decode(bytes.fromhex("d81c80"))
    with pytest.raises(Malformed):
        plain.decode(bytes.fromhex("d81d00"))
    first = plain.decode(bytes.fromhex("8180"))
    first[0].append(1)
    assert plain.decode(bytes.fromhex("8180")) == [[]]


@pytest.mark.parametrize("head", ["9b", "bb", "5b", "7b"])
@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**40, 2**31, 1_048_570])
def test_a_length_bomb_allocates_less_than_the_message(head: str, length: int) -> None:
    for prefix in (b"", b"\x81" * 60, b"\xa1\x61a" * 60):
        assert_refused_cheaply(prefix + bytes.fromhex(head) + length.to_bytes(8, "big") + bytes(1_000))


def test_a_nesting_bomb_allocates_less_than_the_message() -> None:
    assert_refused_cheaply(b"\x81" * 1_000_000)
    assert_refused_cheaply(b"\xa1\x60" * 500_000)
    assert_refused_cheaply(b"\x9f" * 1_000_000)


def test_a_bomb_of_small_items_allocates_less_than_the_message() -> None:
    assert_refused_cheaply(b"\x9a\x00\x0f\x00\x00" + b"\x80" * 0xF0000)
    assert_refused_cheaply((b"\x98\xff" + b"\x80" * 255) * 4_000)
    assert_refused_cheaply(b"\x9a\x00\x00\xc0\x00" + (b"\x84" + b"\xa0" * 4) * 0xC000)


def assert_refused_cheaply(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(PlainError):
            plain.decode(data)
        assert tracemalloc.get_traced_memory()[1] < max(len(data), 16_384)
    finally:
        tracemalloc.stop()


# -- JSON


def test_json_text_is_compact_and_keeps_letters() -> None:
    assert plain.json_text({"a": [1, 2.5, None, True], "é": "水"}) == ('{"a":[1,2.5,null,true],"é":"水"}', ())


def test_bytes_become_base64url_without_padding() -> None:
    assert plain.jsonable({"b": b"\xfb\xff\x00a"}) == {"b": "-_8AYQ"}


def test_nan_and_infinities_become_null_with_a_note() -> None:
    one = plain.json_text([math.nan])
    assert one == ("[null]", ("1 number was NaN or infinite and became null",))
    assert plain.json_text([math.inf, {"a": -math.inf}])[1] == ("2 numbers were NaN or infinite and became null",)


def test_json_keeps_integers_of_any_size() -> None:
    assert plain.json_text(2**100)[0] == str(2**100)


def test_json_of_what_is_not_plain_is_that_of_the_plain_value() -> None:
    assert plain.json_text({"a": (1, 2), 3: {"x"}})[0] == '{"a":[1,2],"3":["x"]}'


@given(values | st.text() | st.dictionaries(st.text(), st.text()))
@settings(max_examples=100)
def test_json_text_is_that_of_the_jsonable_value(value: Any) -> None:
    expected = json.dumps(plain.jsonable(value), ensure_ascii=False, separators=(",", ":"))
    assert plain.json_text(value)[0] == expected


@pytest.mark.parametrize(
    "value", [1e16, 1e-7, 1e-5, 0.1, -0.0, 1.0, '\x00\x08\x0c\x1f\x7f\u2028\\"/', 2**64 - 1, -(2**64)]
)
def test_json_of_numbers_and_odd_characters_is_pythons_own(value: Any) -> None:
    assert plain.json_text([value])[0] == json.dumps([value], ensure_ascii=False)


def test_json_of_what_is_too_deep_too_much_or_its_own_part_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    shared: list[Any] = []
    for _ in range(40):
        shared = [shared, shared]
    for value in (nested(65), [0] * 100_000, shared):
        with pytest.raises(TooLarge):
            plain.json_text(value)
    with pytest.raises(NotPlain, match="contains itself"):
        plain.json_text(loop)
    assert plain.json_text(nested(64))[0] == "[" * 64 + "0" + "]" * 64


@given(values)
@settings(max_examples=50)
def test_json_text_has_a_utf8_form(value: Any) -> None:
    assert plain.json_text(value)[0].encode()


# -- the house


def test_no_other_file_touches_cbor2() -> None:
    folder = Path(rho_wasm.__file__).parent
    users = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            users |= {file.name for name in names if name.split(".")[0] == "cbor2"}
    assert users == {"plain.py"}
