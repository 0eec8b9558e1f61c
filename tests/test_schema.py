"""Arguments against a schema: what a model is told, and what a hostile schema cannot do."""

from __future__ import annotations

import math
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm.errors import SchemaInvalid
from rho_wasm.frozen import freeze
from rho_wasm.schema import ArgumentSchema
from rho_wasm.untrusted import inert

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "unit": {"enum": ["c", "f"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "items": {
            "type": "array",
            "maxItems": 9,
            "items": {"type": "object", "properties": {"name": {"pattern": "^[a-z]+$"}}, "required": ["name"]},
        },
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def weather() -> ArgumentSchema:
    return ArgumentSchema(WEATHER)


def test_valid_arguments_have_no_problems(weather: ArgumentSchema) -> None:
    assert weather.problems({"city": "Oslo", "days": 3, "note": None, "items": [{"name": "a"}]}) == ()
    assert weather.problems(freeze({"city": "Oslo"})) == ()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"city": "a", "days": "three"}, 'days: got text "three", wanted an integer'),
        ({"city": "a", "days": 1.5}, "days: got the number 1.5, wanted an integer"),
        ({"city": "a", "days": None}, "days: got null, wanted an integer"),
        ({"city": "a", "days": True}, "days: got true, wanted an integer"),
        ({"city": "a", "days": [1]}, "days: got a list of 1, wanted an integer"),
        ({"city": "a", "days": {}}, "days: got a map of 0, wanted an integer"),
        ({"city": "a", "days": 0}, "days: got the integer 0, wanted at least 1"),
        ({"city": "a", "days": 15}, "days: got the integer 15, wanted at most 14"),
        ({"city": "a", "days": math.nan}, "days: got the number nan, wanted an integer"),
        ({"city": "a", "days": -math.inf}, "days: got the number -inf, wanted an integer"),
        ({"city": "a", "days": 2**64 - 1}, "days: got the integer 18446744073709551615, wanted at most 14"),
        ({"city": "a", "days": -(2**64)}, "days: got the integer -18446744073709551616, wanted at least 1"),
        ({"city": ""}, 'city: got text "", wanted at least 1 characters'),
        ({"city": "a", "unit": "k"}, 'unit: got text "k", wanted one of "c", "f"'),
        ({"city": "a", "note": 1}, "note: got the integer 1, wanted a string or null"),
        ({}, "city: missing, wanted a string"),
        ({"city": "a", "town": 1}, "town: unknown key, allowed: city, days, items, note, unit"),
        ({"city": "a", "items": [{"name": "b"}, {}]}, "items[1].name: missing"),
        ({"city": "a", "items": [{"name": "B"}]}, 'items[0].name: got text "B", wanted text that matches ^[a-z]+$'),
        ({"city": "a", "items": [{"name": "b"}] * 10}, "items: got a list of 10, wanted at most 9 elements"),
    ],
)
def test_a_problem_names_place_given_and_wanted(weather: ArgumentSchema, arguments: Any, line: str) -> None:
    assert weather.problems(arguments) == (line,)


@pytest.mark.parametrize("arguments", [None, [], "{}", 1, b"{}"])
def test_arguments_that_are_no_map_are_a_problem(weather: ArgumentSchema, arguments: Any) -> None:
    (line,) = weather.problems(arguments)
    assert line.startswith("arguments: got")
    assert line.endswith("wanted a map")


def test_bytes_where_the_schema_says_something_are_a_problem_with_their_place(weather: ArgumentSchema) -> None:
    (line,) = weather.problems({"city": "a", "items": [{"name": "b"}, b"abc"]})
    assert line.startswith("items[1]: got 3 bytes, wanted what JSON can say")


def test_at_most_eight_problems_are_told(weather: ArgumentSchema) -> None:
    assert len(weather.problems({"city": 1, "days": "x"} | {f"k{n}": n for n in range(50)})) == 8


def test_what_was_given_is_inert_and_short(weather: ArgumentSchema) -> None:
    for arguments in ({"city": "a", "days": "\x1b[2J\u202e" * 10_000}, {"city": "a", "\x1b[2J\n" * 10_000: 1}):
        (line,) = weather.problems(arguments)
        assert len(line) < 300
        assert line.isprintable()


def test_a_key_that_is_no_plain_name_is_quoted() -> None:
    schema = ArgumentSchema({"properties": {"a b": {"items": {"type": "string"}}}})
    assert schema.problems({"a b": [1]}) == ('["a b"][0]: got the integer 1, wanted a string',)


def test_of_many_errors_in_large_arguments_the_first_is_told() -> None:
    schema = ArgumentSchema({"properties": {"rows": {"items": {"type": "string"}}}})
    assert schema.problems({"rows": [1] * 1_000}) == ("rows[0]: got the integer 1, wanted a string",)
    assert schema.problems({"rows": [1] * 40_000}) == ("arguments: no match for the tool's schema",)


def test_formats_are_annotations() -> None:
    assert ArgumentSchema({"properties": {"at": {"format": "date"}}}).problems({"at": "soon"}) == ()


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["city", "days", "items"]), inner),
    max_leaves=15,
)


@given(plain_values | st.dictionaries(st.sampled_from(list(WEATHER["properties"])), plain_values))
@settings(max_examples=60)
def test_nothing_plain_makes_it_crash(weather: ArgumentSchema, value: Any) -> None:
    for line in weather.problems(value):
        assert inert(line) == line
        assert len(line) < 500


@pytest.mark.parametrize("levels", [64, 255, 256, 2_000])
def test_deep_arguments_do_not_make_it_crash(levels: int) -> None:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    assert ArgumentSchema({"type": "object"}).problems({"x": "y"}) == ()
    for schema in ({"properties": {"a": {"$ref": "#"}}}, {"type": "object"}, {"required": ["q"]}):
        assert isinstance(ArgumentSchema(schema).problems(value), tuple)


# -- schemas


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "strin"}, "type"),
        ({"properties": []}, "properties"),
        ({"pattern": r"(a)\1"}, "pattern"),
        ({"pattern": "(?=a)b"}, "pattern"),
        ({"pattern": "("}, "pattern"),
        ({"pattern": "(a{1000}){1000}"}, "pattern"),
        ({"pattern": r"\w{10000}"}, "pattern"),
        ({"pattern": "a" * 1_001}, "1000 characters"),
        ({"patternProperties": {"a" * 1_001: {}}}, "1000 characters"),
        ({"allOf": [{"pattern": "a"}] * 201}, "200 patterns"),
        ({"enum": list(range(6_000))}, "5000 values"),
        ({"description": "x" * 70_000}, "65536"),
        ({"default": b"a"}, "bytes"),
        ({"minimum": math.nan}, "NaN"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "#/type", "type": "object"}, "does not lead to a schema"),
        ({"$ref": "other.json"}, "leads outside"),
        ({"$ref": "#anchor"}, "leads outside"),
        ({"$dynamicRef": "#a"}, "not supported"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "is not known"),
        ({"$schema": 7}, "is not known"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#"}}}, "not supported"),
        ({"properties": {"a": {"$id": "http://x/"}}}, "not supported"),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "leads outside"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_its_reason(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaInvalid, match=why) as caught:
        ArgumentSchema(schema)
    assert caught.value.reason == "schema_invalid"
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "draft",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
    ],
)
def test_the_drafts_in_use_are_known(draft: str) -> None:
    schema = ArgumentSchema({"$schema": draft, "$id": "https://x.example/", "properties": {"$id": {"type": "string"}}})
    assert schema.problems({"$id": 1}) == ('["$id"]: got the integer 1, wanted a string',)


def test_a_schema_that_holds_itself_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"a": schema}
    with pytest.raises(SchemaInvalid):
        ArgumentSchema(schema)


@pytest.mark.parametrize("levels", [100, 20_000])
def test_a_deep_schema_is_refused(levels: int) -> None:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    with pytest.raises(SchemaInvalid):
        ArgumentSchema(schema)


def test_a_reference_to_a_server_contacts_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        for schema in ({"$ref": address}, {"$schema": address}, {"$id": address, "$ref": "x.json"}):
            try:
                ArgumentSchema(schema).problems({"a": 1})
            except SchemaInvalid:
                pass
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_reference_to_a_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text("{}")
    for reference in (file.as_uri(), str(file), f"{file.as_uri()}#/a"):
        with pytest.raises(SchemaInvalid, match="leads outside"):
            ArgumentSchema({"$ref": reference})


def test_a_reference_means_the_schema_itself_whatever_its_id_says() -> None:
    meta = "https://json-schema.org/draft/2020-12/schema"
    schema = ArgumentSchema({"$id": meta, "$defs": {"a": {"const": 1}}, "properties": {"x": {"$ref": "#/$defs/a"}}})
    assert schema.problems({"x": 2}) == ("x: got the integer 2, wanted 1",)


def test_a_pattern_takes_linear_time() -> None:
    schema = ArgumentSchema({"properties": {"a": {"pattern": "^(a+)+$"}, "b": {"pattern": "(x+x+)+y"}}})
    assert len(schema.problems({"a": "a" * 20_000 + "b", "b": "x" * 20_000})) == 2


def test_definitions_that_double_are_refused() -> None:
    chain = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    with pytest.raises(SchemaInvalid, match="unfold"):
        ArgumentSchema({"$defs": chain | {"d40": {}}, "$ref": "#/$defs/d0"})


REFUSED = "arguments: too deeply nested, too many or too long to be checked against the tool's schema and its patterns"

DOUBLING = [
    {"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]},
    {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": [name]} for name in "qz"]},
    {
        "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(6)}
        | {"d6": {"additionalProperties": {"$ref": "#/$defs/d0"}}},
        "$ref": "#/$defs/d0",
    },
]


@pytest.mark.parametrize("schema", DOUBLING)
def test_a_recursive_schema_that_doubles_at_each_level_does_not_hang(schema: dict[str, Any]) -> None:
    value: Any = {}
    for _ in range(63):
        value = {"a": value}
    assert ArgumentSchema(schema).problems(value) == (REFUSED,)


def test_an_honest_recursive_schema_works() -> None:
    tree = ArgumentSchema(
        {
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "integer"},
                        "left": {"$ref": "#/$defs/node"},
                        "right": {"$ref": "#/$defs/node"},
                        "more": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                    },
                    "required": ["value"],
                }
            },
            "$ref": "#/$defs/node",
        }
    )
    value: dict[str, Any] = {"value": 1}
    for _ in range(8):
        value = {"value": 1, "left": value, "right": value, "more": [value]}
    assert tree.problems(value) == ()
    assert tree.problems({"value": 1, "left": {"value": "x"}}) == ('left.value: got text "x", wanted an integer',)


def test_a_wide_schema_is_not_run_over_many_items() -> None:
    schema = ArgumentSchema({"properties": {"a": {"items": {"allOf": [{"minimum": n} for n in range(1_000)]}}}})
    assert schema.problems({"a": [5_000] * 100}) == ()
    assert "too many" in schema.problems({"a": [5_000] * 50_000})[0]


def test_references_in_a_long_chain_are_refused() -> None:
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1_000)}
    with pytest.raises(SchemaInvalid, match="128 schemas deep"):
        ArgumentSchema({"$defs": chain | {"d1000": {}}, "$ref": "#/$defs/d0"})


def test_a_wide_schema_costs_what_the_arguments_have_not_what_it_names() -> None:
    schema = ArgumentSchema({"properties": {"a": {"items": {"properties": {f"k{n}": True for n in range(4_000)}}}}})
    assert schema.problems({"a": [{} for _ in range(20_000)]}) == ()
    assert schema.problems({"a": [{f"k{n}": n} for n in range(20_000)]}) == ()


def elements(schema: Any) -> dict[str, Any]:
    return {"properties": {"a": {"items": schema}}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": {}}
    return schema


SLOW = "[ab]*(a[ab]{200}c|.)*$"
MANY = {f"k{n}": n for n in range(20_000)}

COSTLY: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("one slow pattern", {"properties": {"a": {"pattern": SLOW}}}, {"a": "ab" * 100}, {"a": "ab" * 50_000}),
    (
        "six slow patterns",
        {"properties": {"a": {"allOf": [{"pattern": f"^[ab]*(a[ab]{{{200 + n}}}c|.)*$"} for n in range(6)]}}},
        {"a": "ab" * 20},
        {"a": "ab" * 500_000},
    ),
    (
        "a slow pattern for texts",
        elements({"pattern": SLOW}),
        {"a": ["ab"]},
        {"a": ["ab" * 9 + str(n) for n in range(900)]},
    ),
    ("a slow pattern for keys", {"propertyNames": {"pattern": SLOW}}, {"ab": 1}, {"ab" * 50_000: 1}),
    ("a slow pattern of keys", {"patternProperties": {SLOW: {}}}, {"ab": 1}, {"ab" * 50_000: 1}),
    ("many patterns of keys", {"patternProperties": {f"[a-c]+q{n}$": {} for n in range(120)}}, {"k": 1}, MANY),
    ("fractions", elements({"multipleOf": 1e-300}), {"a": [1e-300] * 9}, {"a": [1.7e308 - n for n in range(2_000)]}),
    (
        "choices that are lists",
        elements({"enum": [[n] for n in range(2_000)]}),
        {"a": [[7]]},
        {"a": [[7] for _ in range(2_000)]},
    ),
    (
        "a large constant",
        elements({"const": [0] * 4_000}),
        {"a": [[0] * 4_000]},
        {"a": [[0] * 4_000 for _ in range(200)]},
    ),
    (
        "elements that differ at the end",
        {"properties": {"a": {"uniqueItems": True}}},
        {"a": [[n] for n in range(14)]},
        {"a": [[*range(6_000), n] for n in range(14)]},
    ),
    ("unevaluated keys at every level", nested(8), {}, MANY),
    (
        "required names",
        elements({"allOf": [{"required": [f"k{n}" for n in range(40)]}] * 100}),
        {"a": [{f"k{n}": n for n in range(40)}]},
        {"a": [{f"k{n}": n for n in range(40)} for _ in range(100)]},
    ),
    (
        "dependent schemas",
        elements({"dependentSchemas": {f"k{n}": {"maxProperties": 9} for n in range(900)}}),
        {"a": [{"k1": 1}]},
        {"a": [{"k1": n} for n in range(2_000)]},
    ),
    (
        "conditions",
        elements({"if": {"allOf": [{"minimum": n} for n in range(900)]}, "then": {}}),
        {"a": [1]},
        {"a": [1] * 9_000},
    ),
    (
        "contained",
        {"properties": {"a": {"allOf": [{"contains": {"not": {"const": n}}} for n in range(900)]}}},
        {"a": [-1]},
        {"a": [-1] * 9_000},
    ),
]


@pytest.mark.parametrize(("schema", "few", "many"), [case[1:] for case in COSTLY], ids=[case[0] for case in COSTLY])
def test_what_would_take_long_is_not_done_at_once(
    schema: dict[str, Any], few: dict[str, Any], many: dict[str, Any]
) -> None:
    compiled = ArgumentSchema(schema)
    assert compiled.problems_at_once(few) == ()
    assert compiled.problems_at_once(many) is None


def test_simple_patterns_are_for_long_texts_and_many() -> None:
    schema = ArgumentSchema(
        {"additionalProperties": {"anyOf": [{"pattern": "^[a-z]+$"}, {"items": {"pattern": "^[a-z]{1,64}$"}}]}}
    )
    assert schema.problems({"long": "a" * 1_000_000}) == ()
    assert schema.problems({"many": ["name"] * 20_000}) == ()


@pytest.mark.parametrize(
    ("schema", "arguments", "lines"),
    [
        ({"allOf": [{"required": ["q"]}] * 100}, {"x": list(range(30_000))}, 1),
        ({"anyOf": [{"required": ["q"]}] * 100}, {"x": list(range(3_000))}, 1),
        (elements({"enum": ["x" * 1_000] * 60}), {"a": [1] * 2_000}, 1),
        (elements({"enum": [n + 0.25 for n in range(4_000)]}), {"a": [1.5] * 32}, 1),
        (elements({"required": [f"k{n}" for n in range(60)]}), {"a": [{} for _ in range(99)]}, 1),
    ],
)
def test_errors_that_take_long_to_make_are_not_made(
    schema: dict[str, Any], arguments: dict[str, Any], lines: int
) -> None:
    assert len(ArgumentSchema(schema).problems(arguments)) == lines


def test_the_size_that_the_caller_knows_decides_as_the_arguments_do() -> None:
    schema = ArgumentSchema({"properties": {"a": {"pattern": SLOW}}})
    assert schema.problems({"a": "ab"}, size=(3, 3)) == ()
    assert schema.problems({"a": "ab" * 50_000}, size=(3, 100_001)) == (REFUSED,)


ROW = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "email": {"pattern": r"^[^@\s]+@[^@\s]+$"}},
    "required": ["id"],
    "additionalProperties": False,
}
ROWS = [{"id": number, "name": "Ada Lovelace", "email": "ada@example.org"} for number in range(2_000)]


@pytest.mark.parametrize(
    "items",
    [
        ROW,
        {"$ref": "#/$defs/row"},
        {"anyOf": [ROW, {"type": "null"}]},
        {"allOf": [ROW], "unevaluatedProperties": False},
    ],
    ids=["inline", "by reference", "optional", "unevaluated"],
)
def test_two_thousand_honest_rows_are_checked_however_their_schema_is_written(items: dict[str, Any]) -> None:
    schema = ArgumentSchema({"properties": {"rows": {"type": "array", "items": items}}, "$defs": {"row": ROW}})
    assert schema.problems({"rows": ROWS}) == ()
    assert schema.problems({"rows": [*ROWS, {"id": "x"}]}) != ()
