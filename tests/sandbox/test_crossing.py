"""Small requests are encoded in a shorter way, to the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rho_wasm import envelope
from rho_wasm.limits import Limits
from rho_wasm.sandbox.crossing import encode, encode_at_once


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
    assert encode_at_once(request, limits=Limits()) == encode(request, limits=Limits())


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
