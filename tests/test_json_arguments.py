"""Texts of models: what is read past, what is told of it, and what is never guessed at."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm.json_arguments import Unreadable, object_or_text, read_json, read_object


@pytest.mark.parametrize(
    ("text", "value", "told"),
    [
        ('{"a": 1}', {"a": 1}, ""),
        (' \n{"a": [1, 2]}\t', {"a": [1, 2]}, ""),
        ('```json\n{"a": 1}\n```', {"a": 1}, "code fence"),
        ('```\n{"a": "```"}```', {"a": "```"}, "code fence"),
        ('{"a": [1, 2,], }', {"a": [1, 2]}, "comma"),
        ('{"a": "x,}", }', {"a": "x,}"}, "comma"),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}, "line breaks"),
        ('{"a": "one\ttwo",}', {"a": "one\ttwo"}, "comma"),
        ('"{\\"a\\": 1}"', {"a": 1}, "a text with JSON in it"),
        ("", {}, "no arguments"),
        (" \n", {}, "no arguments"),
        ("null", {}, "no arguments"),
        (None, {}, "no arguments"),
    ],
)
def test_what_can_mean_one_thing_is_read_and_told(text: str | None, value: object, told: str) -> None:
    found, notes = read_object(text)
    assert found == value
    assert told in "; ".join(notes)
    assert bool(told) == bool(notes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"path": "/tmp/a", "con', "ends before it is complete"),
        ('{"a": 1', "ends before it is complete"),
        ('{"a": 1, "a": 2}', 'the key "a" twice'),
        ('{"a": 1, "a": 2,}', 'the key "a" twice'),
        ("{'a': 1}", "is no JSON"),
        ("{a: 1}", "is no JSON"),
        ('{"a": 1}}', "is no JSON"),
        ('{"a": 1} and {"b": 2}', "is no JSON"),
        ('{"a": 01}', "is no JSON"),
        ('{"a": NaN}', "a number that JSON has not"),
        ('{"a",}', "is no JSON"),
        ("[1, 2]", "wanted a JSON object"),
        ("7", "wanted a JSON object"),
        ('"hello"', "is no JSON"),
        ('"\\"\\\\\\"{}\\\\\\"\\""', "wanted a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5_000 + "}", "a number that JSON has not"),
        (" " * 1_048_577 + "{}", "at most 1048576"),
    ],
)
def test_what_may_mean_two_things_is_refused_with_what_was_given(text: str, why: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read_object(text)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def test_the_place_is_said() -> None:
    with pytest.raises(Unreadable, match=r"line 2, column 7"):
        read_object('{"a": 1,\n "b": +2}')


def test_an_adapter_hands_on_what_is_no_object_as_it_is() -> None:
    assert object_or_text('{"a": 1}') == {"a": 1}
    for text in ("", "[1]", '{"a": 1,}', '{"a": 1, "a": 2}', "[" * 100_000, '{"a": Infinity}'):
        assert object_or_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 300_000,
        ", " * 300_000,
        '",' * 300_000,
        "," + " " * 600_000 + "x",
        "\\" * 600_000,
        '{"a":' * 150_000,
    ],
)
def test_hostile_texts_take_linear_work(text: str) -> None:
    started = time.process_time()
    with pytest.raises(Unreadable):
        read_json(text)
    assert time.process_time() - started < 5  # what is quadratic takes minutes


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), _JSON, max_size=4))
def test_what_is_json_is_read_as_json_does(value: dict[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert read_object(text) == (value, ())


@given(st.text(alphabet='{}[]",:\\ \n1antrue`', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value, _ = read_object(text)
    except Unreadable:
        return
    assert type(value) is dict
