"""Requests and answers, shape by shape (guest_sdk/ABI.md, "Envelopes")."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm import plain
from rho_wasm.envelope import BadAnswer, Raised, answer_of, parse_answer, read_answer, request
from rho_wasm.limits import Limits
from rho_wasm.results import AskUser, Failed, Halt, HandlerResult, Image, Ok

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
GIF = b"GIF89a" + bytes(8)
IMAGE = {"mime_type": "image/png", "data": PNG}


def parse(answer: Any, **limits: int) -> HandlerResult:
    return parse_answer(plain.encode(answer, max_bytes=2**26), limits=Limits(**limits))


def bad(answer: Any, **limits: int) -> BadAnswer:
    with pytest.raises(BadAnswer) as caught:
        parse(answer, **limits)
    assert "\n" not in caught.value.detail
    assert len(caught.value.detail) < 300
    return caught.value


def test_a_request_has_abi_tool_arguments_and_context() -> None:
    assert request("t", {"a": 1}, context={"call_id": "c", "session_id": None, "values": {"k": 1}}) == {
        "abi": 1,
        "tool": "t",
        "arguments": {"a": 1},
        "context": {"call_id": "c", "values": {"k": 1}},
    }
    assert request("t", {})["context"] == {}


def test_what_crosses_to_a_guest_is_a_closed_list() -> None:
    with pytest.raises(ValueError, match="registry"):
        request("t", {}, context={"registry": {}})


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"ok": 1}, Ok(1)),
        ({"ok": None}, Ok(None)),
        ({"ok": [1, {"a": b"x"}], "details": {"d": 1}}, Ok([1, {"a": b"x"}], details={"d": 1})),
        ({"ok": "x", "images": [IMAGE]}, Ok("x", images=(Image("image/png", PNG),))),
        ({"error": "no"}, Failed("no")),
        ({"error": {"code": 1}, "details": 2}, Failed({"code": 1}, details=2)),
        ({"ask_user": "Sure?"}, AskUser("Sure?")),
        ({"ask_user": "Sure?", "options": {"y": True}}, AskUser("Sure?", {"y": True})),
        ({"halt": "done", "value": [1]}, Halt("done", [1])),
        ({"halt": "done", "value": None}, Halt("done")),
    ],
)
def test_each_shape_is_read_and_written_back(answer: dict[str, Any], result: HandlerResult) -> None:
    assert parse(answer) == result
    assert read_answer(answer_of(result), limits=Limits()) == result


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ({}, "none of ok, error"),
        ([], "a list"),
        ("ok", "text"),
        (None, "null"),
        (True, "a bool"),
        ({"ok": 1, "error": 2}, "two shapes at once: ok and error"),
        ({"ask_user": "x", "halt": "y", "value": 1}, "two shapes at once"),
        ({"ok": 1, "value": 2}, "no key 'value'"),
        ({"ok": 1, "\x1b[31m": 2}, r"no key '\\x1b\[31m'"),
        ({"error": 1, "images": [IMAGE]}, "no key 'images'"),
        ({"ask_user": "x", "details": 1}, "no key 'details'"),
        ({"raised": {"message": "m"}, "details": 1}, "no key 'details'"),
        ({"ask_user": 1}, "'ask_user' is an integer, not text"),
        ({"ask_user": "x", "options": []}, "'options' is a list, not a map"),
        ({"ask_user": "x" * 2001}, "over 2000 characters"),
        ({"halt": "x"}, "must have 'value'"),
        ({"halt": None, "value": 1}, "'halt' is null"),
        ({"halt": "x" * 2001, "value": 1}, "over 2000 characters"),
        ({"raised": "x"}, "'raised' is text, not a map"),
        ({"raised": {}}, "'message' as text"),
        ({"raised": {"message": 1}}, "'message' as text"),
        ({"raised": {"message": "x", "type": 1}}, "'type' is text"),
        ({"raised": {"message": "x", "type": None}}, "'type' is text"),
        ({"raised": {"message": "x", "trace": "x"}}, "not a list of text"),
        ({"raised": {"message": "x", "trace": [1]}}, "not a list of text"),
        ({"raised": {"message": "x", "extra": 1}}, "no key 'extra'"),
        ({"ok": 1, "images": []}, "at least one image"),
        ({"ok": 1, "images": IMAGE}, "at least one image"),
        ({"ok": 1, "images": [1]}, r"images\[0\] is an integer"),
        ({"ok": 1, "images": [IMAGE, {"mime_type": "image/png"}]}, r"images\[1\] needs"),
        ({"ok": 1, "images": [IMAGE | {"data": "text"}]}, "'data' as bytes"),
        ({"ok": 1, "images": [IMAGE | {"alt": "x"}]}, "no key 'alt'"),
        ({"ok": 1, "images": [IMAGE | {"mime_type": "image/gif"}]}, "says image/gif but is image/png"),
        ({"ok": 1, "images": [{"mime_type": "image/svg+xml", "data": b"<svg/>"}]}, "no png, jpeg, webp or gif"),
        ({"ok": 1, "images": [{"mime_type": "image/png", "data": b""}]}, "no png, jpeg, webp or gif"),
    ],
)
def test_an_answer_that_keeps_no_shape_is_bad_and_says_why(answer: Any, detail: str) -> None:
    with pytest.raises(BadAnswer, match=detail):
        parse(answer)
    assert bad(answer).reason == "bad_answer"


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"", "empty"),
        (b"\xa1\x62ok", "plain CBOR"),
        (b"\xa1\x62ok\xc0\x60", "tags"),
        (b"\xa1\x62ok\x01\x00", "plain CBOR"),
        (b"\xa2\x62ok\x01\x62ok\x02", "twice"),
    ],
)
def test_bytes_that_are_not_plain_are_a_bad_answer(data: bytes, detail: str) -> None:
    with pytest.raises(BadAnswer, match=detail):
        parse_answer(data, limits=Limits())


def test_an_answer_is_bounded_without_its_images_and_images_apart() -> None:
    big = PNG + bytes(5_000)
    limits = {"answer_bytes": 1_000, "images_bytes": 12_000, "images": 2}
    image = {"mime_type": "image/png", "data": big}
    assert parse({"ok": "x", "images": [image, image]}, **limits) == Ok("x", images=(Image("image/png", big),) * 2)

    error = bad({"ok": "x" * 1_001}, **limits)
    assert error.limit == "answer_bytes"
    assert error.value is not None
    assert error.value > 1_000
    # Room for images is not room for anything else.
    assert bad({"ok": "x" * 2_000, "images": [image]}, **limits).limit == "answer_bytes"
    assert bad({"ok": 1, "images": [image, image, IMAGE]}, **limits).limit == "images"
    gif = {"mime_type": "image/gif", "data": GIF + bytes(7_000)}
    assert bad({"ok": 1, "images": [image, gif]}, **limits).limit == "images_bytes"
    assert bad({"ok": "x" * 20_000}, **limits).limit == "answer_bytes"
    assert bad({"ok": 1, "images": [IMAGE]}, images=0).limit == "images"


def test_depth_and_items_of_an_answer_are_bounded() -> None:
    assert bad({"ok": [[[[1]]]]}, depth=4).limit == "depth"
    assert bad({"ok": [1] * 50}, items=50).limit == "items"
    assert parse({"ok": [[[1]]]}, depth=4) == Ok([[[1]]])


def test_what_a_guest_raised_is_bounded_and_inert() -> None:
    with pytest.raises(Raised) as caught:
        parse(
            {
                "raised": {
                    "message": "\x1b[31mboom\n" + "x" * 5_000,
                    "type": "Value\u202eError",
                    "trace": [f"line {number} " + "y" * 500 for number in range(100)],
                }
            }
        )
    raised = caught.value
    assert raised.reason == "handler_raised"
    assert raised.message.startswith("\\x1b[31mboom\\n")
    assert len(raised.message) <= 2_000
    assert raised.type == "Value\\u202eError"
    assert len(raised.trace) == 64
    assert all(len(line) <= 200 for line in raised.trace)
    assert raised.trace[0].startswith("line 0 ")


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        ({"type": "MemoryError", "message": ""}, "MemoryError"),
        ({"message": ""}, "an exception that says nothing"),
        ({"type": "ValueError", "message": "no"}, "ValueError: no"),
    ],
)
def test_an_exception_without_a_text_is_told_by_its_type_alone(raised: dict[str, Any], text: str) -> None:
    with pytest.raises(Raised) as caught:
        parse({"raised": {**raised, "trace": ["tool.py:1 in f: g()", "KeyError: "]}})
    assert str(caught.value) == text
    assert caught.value.trace == ("tool.py:1 in f: g()", "KeyError")


def test_raised_needs_a_message_only() -> None:
    with pytest.raises(Raised) as caught:
        parse({"raised": {"message": "boom"}})
    assert (caught.value.message, caught.value.type, caught.value.trace) == ("boom", None, ())


def test_a_question_is_inert_but_keeps_its_lines() -> None:
    assert parse({"ask_user": "Delete?\n\u202eyes"}) == AskUser("Delete?\n\\u202eyes")
    assert parse({"halt": "\x07", "value": 1}) == Halt("\\x07", 1)
    question = parse({"ask_user": "\U000e0041" * 2_000})
    assert isinstance(question, AskUser)
    assert question.question == "\\U000e0041" * 2_000


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["ok", "error", "raised", "ask_user", "halt", "value", "details", "options", "images", "message", "trace", "type"]
)


@given(st.dictionaries(KEYS, PLAIN | st.dictionaries(KEYS, PLAIN, max_size=3), max_size=4))
@settings(max_examples=150, deadline=None)
def test_any_map_is_a_result_or_raises_one_of_two(answer: dict[str, Any]) -> None:
    try:
        result = parse(answer)
    except (BadAnswer, Raised) as refusal:
        error = refusal
    else:
        # repr, because a NaN is not equal to itself.
        assert repr(read_answer(answer_of(result), limits=Limits())) == repr(result)
        return
    assert str(error).isprintable()
    assert len(str(error)) < 2_200


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_a_result_or_raise_one_of_two(data: bytes) -> None:
    with contextlib.suppress(BadAnswer, Raised):
        parse_answer(data, limits=Limits())
        parse_answer(b"\xa1\x62ok" + data, limits=Limits())


def test_the_options_of_a_question_are_inert_and_few() -> None:
    asked = parse({"ask_user": "Sure?", "options": {"\x1b[2J\u202eno": ["x\x07", 1, None, b"\x1b"]}})
    assert asked == AskUser("Sure?", {"\\x1b[2J\\u202eno": ["x\\x07", 1, None, b"\x1b"]})
    with pytest.raises(BadAnswer) as refused:
        parse({"ask_user": "Sure?", "options": {str(n): n for n in range(200)}})
    assert refused.value.limit == "items"
