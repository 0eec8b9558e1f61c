"""Arguments that a schema refuses: what is put right, what is told, and what is left as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rho_wasm.repair import TooMuch, repaired
from rho_wasm.schema import ArgumentSchema
from rho_wasm.spelling import near_ones


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


INTEGER, NUMBER, BOOLEAN, TEXT = ({"type": kind} for kind in ("integer", "number", "boolean", "string"))


@pytest.mark.parametrize(
    ("schema", "given", "mended"),
    [
        (INTEGER, "3", 3),
        (INTEGER, "-12", -12),
        (NUMBER, "3", 3),
        (NUMBER, "3.25", 3.25),
        (NUMBER, "1e3", 1000.0),
        (BOOLEAN, "true", True),
        (BOOLEAN, "False", False),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "4", 4),
        ({"$ref": "#/$defs/count", "description": "how many"}, "5", 5),
        ({"type": "array", "items": INTEGER}, ["1", 2], [1, 2]),
        ({"type": "array", "items": INTEGER}, '["1", 2]', [1, 2]),
        ({"type": "array", "items": TEXT}, '["a"]', ["a"]),
        (closed({"x": INTEGER}), '{"x": 1,}', {"x": 1}),
        (closed({"x": INTEGER}), {"x": "1"}, {"x": 1}),
        ({"type": "object", "additionalProperties": INTEGER}, {"any": "1"}, {"any": 1}),
    ],
)
def test_a_value_is_made_what_its_place_allows(schema: Any, given: Any, mended: Any) -> None:
    whole = closed({"a": schema}, **{"$defs": {"count": INTEGER}})
    found = repaired({"a": given}, whole)
    assert found is not None
    assert found[0] == {"a": mended}
    assert type(found[0]["a"]) is type(mended)
    assert all(note.startswith("a") for note in found[1])


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (TEXT, "3"),
        ({"type": ["string", "integer"]}, "3"),
        ({"anyOf": [INTEGER, TEXT]}, "3"),
        ({"anyOf": [INTEGER, {}]}, "3"),
        ({"enum": [1, 2]}, "1"),
        ({"allOf": [INTEGER]}, "3"),
        ({"anyOf": [INTEGER], "not": {"const": 3}}, "3"),
        (INTEGER, "007"),
        (INTEGER, "3.0"),
        (INTEGER, " 3"),
        (INTEGER, "+3"),
        (INTEGER, "-0"),
        (INTEGER, "three"),
        (INTEGER, "1_000"),
        (INTEGER, "٣"),
        (INTEGER, "9" * 19),
        (INTEGER, 3.5),
        (NUMBER, "0.12345678901234567"),
        (NUMBER, "1e999"),
        (NUMBER, "NaN"),
        (NUMBER, "0x10"),
        (BOOLEAN, "yes"),
        (BOOLEAN, "1"),
        (BOOLEAN, 1),
        ({"type": "array"}, "a, b"),
        ({"type": "array"}, "[1, 2"),
        ({"type": "object"}, "[1]"),
        ({"$ref": "#/$defs/loop"}, "3"),
        ({"$ref": "#/$defs/none"}, "3"),
        ({"$dynamicRef": "#x"}, "3"),
        (True, "3"),
        (False, "3"),
    ],
)
def test_what_may_mean_two_things_or_loses_something_stays(schema: Any, given: Any) -> None:
    whole = closed({"a": schema}, **{"$defs": {"loop": {"$ref": "#/$defs/loop"}}})
    assert repaired({"a": given}, whole) is None


def test_null_for_an_optional_argument_is_left_out() -> None:
    schema = closed({"a": INTEGER, "b": INTEGER}, required=["b"])
    found = repaired({"a": None, "b": 1}, schema)
    assert found == ({"b": 1}, ("a: null was left out, as the argument is optional; leave it out yourself",))
    assert repaired({"a": 1, "b": None}, schema) is None


def test_null_that_may_be_said_stays() -> None:
    assert repaired({"a": None, "b": None}, closed({"a": {"type": ["integer", "null"]}, "b": {}})) is None


def test_a_key_in_another_spelling_is_the_key_where_there_is_just_one() -> None:
    schema = closed({"max_rows": INTEGER})
    found = repaired({"maxRows": "5"}, schema)
    assert found is not None
    assert found[0] == {"max_rows": 5}
    assert found[1][0] == "maxRows: the unknown key was taken as max_rows; write it so"
    assert repaired({"maxRows": 5, "max-rows": 6}, schema) is None
    assert repaired({"maxRows": 5, "max_rows": 6}, schema) is None
    assert repaired({"maxRows": 5}, closed({"max_rows": INTEGER, "max-rows": INTEGER})) is None


def test_an_unknown_key_that_says_something_is_left_out_only_where_nothing_is_changed() -> None:
    schema = closed({"path": TEXT})
    given = {"path": "/a", "dryRun": True}
    assert repaired(given, schema) is None
    found = repaired(given, schema, reads_only=True)
    assert found == ({"path": "/a"}, ("dryRun: the unknown key was left out; allowed: path",))


def test_an_unknown_key_that_says_nothing_is_left_out() -> None:
    assert repaired({"a": None}, closed({})) == ({}, ("a: the unknown key was left out; allowed: none",))


@pytest.mark.parametrize("key", ["tpo", "Tpo", "topp", "to", "tops", "expected"])
def test_a_misspelt_argument_that_was_not_given_is_never_left_out(key: str) -> None:
    schema = closed({"path": TEXT, "top": INTEGER, "expect": INTEGER})
    assert repaired({"path": "/a", key: 5}, schema, reads_only=True) is None
    mended = repaired({"path": "/a", key: 5, "top": "5", "expect": 1}, schema, reads_only=True)
    assert mended is not None
    assert mended[0] == {"path": "/a", "top": 5, "expect": 1}
    problems = ArgumentSchema(schema).problems({"path": "/a", key: 5})
    meant = "expect" if key == "expected" else "top"
    assert problems == (f"{key}: unknown key, did you mean '{meant}'? allowed: expect, path, top",)


def test_a_null_for_a_misspelt_argument_stays_only_where_null_says_something() -> None:
    assert repaired({"tpo": None}, closed({"top": INTEGER})) is not None
    assert repaired({"tpo": None}, closed({"top": {"type": ["integer", "null"]}})) is None


def test_two_spellings_of_one_argument_are_not_both_left_out() -> None:
    assert repaired({"maxRows": 5, "max-rows": 6}, closed({"max_rows": INTEGER}), reads_only=True) is None


def test_a_key_that_is_near_nothing_is_left_out_and_told() -> None:
    found = repaired({"path": "/a", "verbose": 1}, closed({"path": TEXT, "top": INTEGER}), reads_only=True)
    assert found == ({"path": "/a"}, ("verbose: the unknown key was left out; allowed: path, top",))


def test_how_often_names_are_compared_is_bounded_for_hostile_names_and_many_keys() -> None:
    alike = closed({"ab" * 30 + f"{n:03}": INTEGER for n in range(900)})
    with pytest.raises(TooMuch):
        repaired({"ba" * 30: 1}, alike, reads_only=True)
    others = closed({f"known{n}": INTEGER for n in range(300)})
    with pytest.raises(TooMuch):
        repaired({f"knawm_{n}": 1 for n in range(300)}, others, reads_only=True)
    looks = 0

    def look(times: int) -> None:
        nonlocal looks
        looks += times

    assert near_ones("x" * 1_000_000, ["x" * 100], look=look) == near_ones("x", ["x" * 1_000_000], look=look) == ()
    assert looks == 1
    schema = ArgumentSchema({**alike, "properties": dict(list(alike["properties"].items())[:600])})
    assert schema.problems({"ba" * 30 + str(n): 1 for n in range(50)})[7].startswith("ba" * 20)


def test_keys_that_a_schema_lets_in_another_way_stay() -> None:
    ways: list[dict[str, Any]] = [{"patternProperties": {"^x": {}}}, {"unevaluatedProperties": True}]
    for more in [*ways, {"dependentSchemas": {}}]:
        assert repaired({"b": None}, closed({"a": INTEGER}, **more), reads_only=True) is None
    assert repaired({"b": None}, {"type": "object", "properties": {"a": INTEGER}}, reads_only=True) is None


def test_notes_are_inert_and_few() -> None:
    schema = closed({f"k{n}": INTEGER for n in range(12)})
    found = repaired({f"k{n}": "1" for n in range(12)}, schema)
    assert found is not None
    assert len(found[1]) == 9
    assert found[1][-1] == "and 4 more"
    found = repaired({"\x1b[31m" + "x" * 1_000: None}, schema)
    assert found is not None
    assert found[1][0].isprintable()
    assert len(found[1][0]) < 200


def test_much_is_not_looked_through() -> None:
    numbers = {"type": "object", "properties": {"a": {"type": "array", "items": INTEGER}}}
    with pytest.raises(TooMuch):
        repaired({"a": ["1"] * 5_000}, numbers)
    deep: Any = {"type": "object"}
    deep["properties"] = {"a": {"$ref": "#"}, "n": INTEGER}
    given: Any = {"n": "1"}
    for _ in range(40):
        given = {"a": given}
    with pytest.raises(TooMuch):
        repaired(given, deep)


def test_little_of_texts_is_read_as_json() -> None:
    schema = closed({"a": {"type": "array"}, "b": {"type": "array"}})
    long = "[" + "1," * 20_000 + "1]"
    found = repaired({"a": long, "b": long}, schema)
    assert found is not None
    assert (len(found[0]["a"]), found[0]["b"]) == (20_001, long)
    assert repaired({"a": long + " " * 40_000}, schema) is None


def test_many_unknown_keys_are_looked_at_once_each() -> None:
    schema = closed({f"known{n}": INTEGER for n in range(500)})
    unknown: dict[str, Any] = {f"unknown{n}": n for n in range(1_000)}
    assert repaired(unknown, schema) is None
    with pytest.raises(TooMuch):
        repaired(unknown, schema, looks=2_499)


class Counted(dict[str, Any]):
    """Properties that count how often they are gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_a_large_schema_is_gone_through_once_for_however_many_objects() -> None:
    properties = Counted({f"known{n}": INTEGER for n in range(1_000)})
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": closed({})}}}
    schema["properties"]["l"]["items"]["properties"] = properties  # type: ignore[index]
    found = repaired({"l": [{"un_known": None}] * 400}, schema)
    assert found is not None
    assert found[0] == {"l": [{}] * 400}
    assert properties.times == 1


def test_a_schema_counts_as_much_as_what_is_given() -> None:
    rows = {"type": "array", "items": closed({f"known{n}": True for n in range(5_000)})}
    schema = {"type": "object", "properties": {"l": rows}}
    with pytest.raises(TooMuch):
        repaired({"l": [{"unknown": None}]}, schema)
    with pytest.raises(TooMuch):
        repaired({"a": None}, {"type": "object", "required": [f"a{n}" for n in range(5_000)]})
