"""Small requests are encoded in a shorter way, to the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rho_wasm import envelope, plain
from rho_wasm.errors import PlainError
from rho_wasm.limits import Limits
from rho_wasm.sandbox.crossing import as_tool_error, encode, encode_at_once


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"text": "x" * 1000},
        {"b": 1, "a": 2.5, "ab": None, "é": b"\x00"},
        {"deep": [{"z": [], "y": {"longer": True, "k": "\N{SNOWMAN}"}}]},
    ],
)
@pytest.mark.parametrize(
    "context",
    [
        {},
        {"session_id": "s", "request_id": "r", "call_id": "\N{SNOWMAN}", "values": None},
        {"call_id": "c", "values": {"b": [1.5], "a": {}}},
    ],
)
def test_both_ways_give_the_same_bytes(arguments: dict[str, Any], context: Mapping[str, Any]) -> None:
    request = envelope.request("t", arguments, context=context)
    expected = encode(request, limits=Limits())
    assert encode_at_once(request, limits=Limits()) == expected
    for in_order in (False, True):
        copied = plain.copied(arguments, in_order=in_order)
        request = envelope.request("t", copied.value, context=context)
        assert encode_at_once(request, limits=Limits(), copied=copied) == expected


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize(
    ("arguments", "bounds"),
    [
        ({"a": [[]]}, {"depth": 3}),
        ({}, {"depth": 1}),
        ({"a": "x" * 100}, {"request_bytes": 120}),
        ({"a": [0] * 100}, {"items": 100}),
        ({"a": [0] * 1000}, {}),
        ({"a": "x" * 100_000}, {}),
    ],
)
def test_copies_that_are_large_are_left_to_the_other_way_too(
    arguments: dict[str, Any], bounds: dict[str, int], in_order: bool
) -> None:
    copied = plain.copied(arguments, in_order=in_order)
    request = envelope.request("t", copied.value, context={"call_id": "c"})
    assert encode_at_once(request, limits=Limits(**bounds), copied=copied) is None


@pytest.mark.parametrize(
    ("arguments", "bounds"),
    [
        ({"a": object()}, {}),
        ({"a": type("Text", (str,), {})("x")}, {}),
        ({"a": "\ud800"}, {}),
        ({1: 2}, {}),
        ({"a": 2**64}, {}),
        ({"a": [[]]}, {"depth": 3}),
        ({}, {"depth": 1}),
        ({"a": "x" * 100}, {"request_bytes": 120}),
        ({"a": [0] * 100}, {"items": 100}),
        ({"a": [0] * 1000}, {}),
        ({"a": "x" * 100_000}, {}),
    ],
)
def test_what_is_wrong_or_large_is_left_to_the_other_way(arguments: dict[Any, Any], bounds: dict[str, int]) -> None:
    request = envelope.request("t", arguments, context={"call_id": "c"})
    assert encode_at_once(request, limits=Limits(**bounds)) is None


@pytest.mark.parametrize("context", [{"call_id": object()}, {"call_id": type("Id", (str,), {})("x")}])
def test_an_id_that_is_no_text_is_not_sent(context: Mapping[str, Any]) -> None:
    request = envelope.request("t", {}, context=context)
    assert encode_at_once(request, limits=Limits()) is None


@pytest.mark.parametrize("key", ["call_id", "session_id", "request_id"])
@pytest.mark.parametrize("in_order", [None, False, True])
def test_an_id_without_utf8_is_left_to_the_other_way(key: str, in_order: bool | None) -> None:
    copied = None if in_order is None else plain.copied({"a": 1}, in_order=in_order)
    request = envelope.request("t", {"a": 1} if copied is None else copied.value, context={key: "\ud800"})
    assert encode_at_once(request, limits=Limits(), copied=copied) is None


def test_a_request_over_a_bound_of_its_tool_names_the_arguments_and_the_bound() -> None:
    with pytest.raises(PlainError) as caught:
        encode(envelope.request("t", {"a": [0] * 100}, context={}), limits=Limits(items=50))
    error = as_tool_error(caught.value, tool="t", memory_refused=False)
    assert (error.reason, error.limit, error.value) == ("invalid_arguments", "items", 50)
    assert error.detail == "the arguments have more than 50 items (Limits.items): give less at once"
