"""Arguments are made of a tool's schema, and are such as it takes."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm import plain
from rho_wasm.conform.arguments import EVERY_PLANE, FloatPlace, ToolArguments, _Least, _TooMuch, nested
from rho_wasm.conform.requests import request_of_float

NAME: dict[str, Any] = {"type": "string", "minLength": 2}


@pytest.mark.parametrize(
    ("schema", "least"),
    [
        ({}, {}),
        ({"type": "object", "properties": {"a": NAME}}, {}),
        ({"required": ["a"], "properties": {"a": NAME}}, {"a": "xx"}),
        ({"required": ["a"]}, {"a": None}),
        ({"required": ["a"], "properties": {"a": {"type": "integer", "minimum": 3}}}, {"a": 3}),
        ({"required": ["a"], "properties": {"a": {"type": "integer", "exclusiveMinimum": 3}}}, {"a": 4}),
        ({"required": ["a"], "properties": {"a": {"type": "number", "maximum": -1}}}, {"a": -1}),
        ({"required": ["a"], "properties": {"a": {"enum": ["no", "yes"]}}}, {"a": "no"}),
        ({"required": ["a"], "properties": {"a": {"const": 7}}}, {"a": 7}),
        ({"required": ["a"], "properties": {"a": {"type": "array", "items": NAME, "minItems": 2}}}, {"a": ["xx"] * 2}),
        ({"required": ["a"], "properties": {"a": {"anyOf": [{"type": "null"}, NAME]}}}, {"a": None}),
        ({"required": ["a"], "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": NAME}}, {"a": "xx"}),
        ({"required": ["a"], "properties": {"a": {"type": ["boolean", "null"]}}}, {"a": False}),
    ],
)
def test_the_least_is_what_the_schema_asks_for(schema: dict[str, Any], least: dict[str, Any]) -> None:
    assert ToolArguments(schema).least == least


def test_where_nothing_can_be_made_an_example_is_used_if_it_fits() -> None:
    schema = {"required": ["day"], "properties": {"day": {"type": "string", "pattern": "^[0-9]{4}$"}}}
    assert ToolArguments(schema).least is None
    assert ToolArguments(schema, ({"day": "x"}, {"day": "2025"})).least == {"day": "2025"}


def test_a_value_stands_where_the_schema_takes_it() -> None:
    closed = {"properties": {"n": {"type": "integer"}, "t": {"type": "string"}, "u": {"type": "string"}}}
    arguments = ToolArguments(closed | {"additionalProperties": False})
    assert arguments.with_value(EVERY_PLANE, "string") == {"t": EVERY_PLANE, "u": EVERY_PLANE}
    assert arguments.with_value("x" * 10_000, "string") == {"t": "x" * 10_000}
    assert arguments.with_value(nested(62), "array") is None
    assert ToolArguments({}).with_value([0], "array") == {"conform": [0]}


def test_schemas_without_an_end_come_to_one() -> None:
    recursive = {"$defs": {"n": {"$ref": "#/$defs/n"}}, "required": ["a"], "properties": {"a": {"$ref": "#/$defs/n"}}}
    # Held back where a schema is checked.
    assert _Least(recursive).of(recursive, 0) == {"a": None}
    wide: dict[str, Any] = {"type": "array", "minItems": 1_000}
    for _ in range(8):
        wide = {"type": "array", "minItems": 1_000, "items": wide}
    assert ToolArguments({"required": ["a"], "properties": {"a": wide}}).least is None


def _all_required(names: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, schema), "required": names}


def test_a_reference_that_is_followed_already_is_not_followed_again() -> None:
    names = [f"p{i}" for i in range(30)]
    assert ToolArguments(_all_required(names, {"$ref": "#"})).least is None
    either = {"anyOf": [{"$ref": "#/$defs/either"}, {"type": "null"}]}
    schema = _all_required(names, {"$ref": "#/$defs/either"}) | {"$defs": {"either": either}}
    assert _Least(schema).of(schema, 0) == dict.fromkeys(names)


def test_what_asks_for_very_many_values_is_given_up_and_says_so() -> None:
    names = [f"p{i}" for i in range(10)]
    # Held back where a schema is checked; made, it would be 10^8 values.
    levels = {f"d{i}": _all_required(names, {"$ref": f"#/$defs/d{i + 1}"}) for i in range(8)}
    schema = {"$defs": levels | {"d8": {"type": "integer"}}, **_all_required(names, {"$ref": "#/$defs/d0"})}
    with pytest.raises(_TooMuch):
        _Least(schema).of(schema, 0)
    lists: dict[str, Any] = {"type": "null"}
    for _ in range(3):
        lists = {"type": "array", "minItems": 100, "items": lists}
    arguments = ToolArguments({"required": ["a"], "properties": {"a": lists}}, ({},))
    assert arguments.least is None
    assert "more than 10,000 values" in arguments.why_none


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"properties": {"n": {"type": "number"}}}, FloatPlace({"n": 1.5}, "n", 1.5)),
        ({"properties": {"n": {"type": ["number", "null"], "maximum": 1}}}, FloatPlace({"n": 0.5}, "n", 0.5)),
        (
            {"properties": {"l": {"type": "array", "items": {"type": "number"}}}, "additionalProperties": False},
            FloatPlace({"l": [1.5]}, "l", 1.5),
        ),
        ({}, FloatPlace({"conform": 1.5}, "conform", 1.5)),
        ({"properties": {"n": {"type": "integer"}}, "additionalProperties": False}, None),
    ],
)
def test_a_fraction_stands_where_the_schema_takes_one(schema: dict[str, Any], place: FloatPlace | None) -> None:
    assert ToolArguments(schema).with_fraction() == place


@pytest.mark.parametrize(
    ("width", "packed"), [("half", "f93e00"), ("single", "fa3fc00000"), ("double", "fb3ff8000000000000")]
)
def test_a_request_has_its_number_in_the_precision_that_is_asked_for(width: str, packed: str) -> None:
    data = request_of_float("t", {"a": 0, "n": 0}, "n", 1.5, width=width)
    assert data is not None
    assert bytes.fromhex(packed) in data
    assert plain.decode(data)["arguments"] == {"a": 0, "n": 1.5}
