"""What a ``$ref`` leads to: the validator and whoever else follows it take it for the same, or it is refused."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rho_wasm.errors import SchemaInvalid
from rho_wasm.portable import object_schema
from rho_wasm.repair import repaired
from rho_wasm.schema import ArgumentSchema
from rho_wasm.schema_graph import pointed

_LENGTHS = range(1, 12)
_DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
)
_STEPS = st.lists(
    st.sampled_from(["a", "b", "0", "1", "2", "~", "~0", "~1", "%", "%31", "%61", "%2F", "%7E", "/", "+", "-", " "])
    | st.sampled_from(["#", "?", "$", "é", "%C3%A9", "\t", "\\", "[", "{", "^", "'", ":", "٣", "\0", "😀"]),
    max_size=3,
).map("".join)


def chain(length: int) -> dict[str, Any]:
    """Each definition names the next twice, percent-encoded, and beside it stands one of that very name."""
    definitions: dict[str, Any] = {f"d{length}": {"type": "string"}}
    for n in range(length):
        following = str(n + 1)
        name = f"d{following[:-1]}%{ord(following[-1]):02x}"
        definitions[f"d{n}"] = {"allOf": [{"$ref": f"#/$defs/{name}"}, {"$ref": f"#/$defs/{name}"}]}
        definitions[name] = True
    return {"type": "object", "$defs": definitions, "properties": {"x": {"$ref": "#/$defs/d0"}}}


@pytest.mark.parametrize("of_arguments", [True, False])
def test_a_chain_of_references_that_a_decoy_hides_is_refused(of_arguments: bool) -> None:
    with pytest.raises(SchemaInvalid, match="without %"):
        ArgumentSchema(chain(4), of_arguments=of_arguments)


@pytest.mark.parametrize("reference", ["#/$defs/d%31", "#/%24defs/d1", "#/$defs/d%2531"])
def test_nobody_follows_a_reference_that_is_percent_encoded(reference: str) -> None:
    decoy = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    root = {"$ref": reference, "$defs": {"d1": {"type": "object"}, "d%31": decoy, "d%2531": decoy}, "%24defs": {}}
    assert pointed(root, reference) is None
    assert repaired({"n": "1"}, root) is None
    assert "n" not in object_schema(root)["properties"]


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/~2", "#/$defs/~", "#/$defs/é", "#/$defs/a b", "#/$defs/a#b", "#/$defs/a\n", "#/%", "#/$defs/\\"],
)
def test_a_reference_that_can_be_read_in_two_ways_is_refused(reference: str) -> None:
    name = reference.removeprefix("#/$defs/")
    with pytest.raises(SchemaInvalid, match="in two ways"):
        ArgumentSchema({"$defs": {name: {}, "%": {}}, "properties": {"x": {"$ref": reference}}})


@pytest.mark.parametrize("index", ["01", "+1", "00", "-0", "1_0", "٣", "1e0", "-", "9999999999999999999999"])
def test_an_index_that_is_not_written_as_numbers_are_leads_nowhere(index: str) -> None:
    schema = {"allOf": [{}, {}], "properties": {"x": {"$ref": f"#/allOf/{index}"}}}
    with pytest.raises(SchemaInvalid, match=r"leads nowhere|two ways"):
        ArgumentSchema(schema)


@pytest.mark.parametrize(
    "reference", ["", "#a", "##", "#?", "x.json#/$defs/a", "?#/$defs/a", "json-schema:///#/$defs/a"]
)
def test_what_is_no_pointer_into_the_schema_leads_outside(reference: str) -> None:
    with pytest.raises(SchemaInvalid, match=r"leads outside|two ways"):
        ArgumentSchema({"$defs": {"a": {"$anchor": "a"}}, "properties": {"x": {"$ref": reference}}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"not": {"not": {"$ref": "#"}}},
        {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"if": {"$ref": "#/$defs/a"}}}},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
    ],
)
def test_a_schema_that_stands_for_itself_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaInvalid, match="leads back to where it stands"):
        ArgumentSchema(schema)


@pytest.mark.parametrize("keyword", ["allOf", "oneOf"])
def test_definitions_that_all_name_each_other_are_not_gone_through_in_every_order(keyword: str) -> None:
    everyone = [{"$ref": f"#/$defs/d{n}"} for n in range(12)]
    definitions = {f"d{n}": {keyword: everyone, "unevaluatedProperties": False} for n in range(12)}
    with pytest.raises(SchemaInvalid, match="leads back"):
        ArgumentSchema({"$defs": definitions, "$ref": "#/$defs/d0"})


def test_what_unevaluated_keys_have_to_look_at_is_bounded() -> None:
    definitions: dict[str, Any] = {"d8": {"properties": {"a": {}}}}
    for n in range(8):
        twice = [{"$ref": f"#/$defs/d{n + 1}"}] * 2
        definitions[f"d{n}"] = {"allOf": twice, "unevaluatedProperties": False}
    with pytest.raises(SchemaInvalid, match="unevaluatedProperties"):
        ArgumentSchema({"$defs": definitions, "$ref": "#/$defs/d0"})
    assert ArgumentSchema({"$defs": definitions, "$ref": "#/$defs/d4"}).problems({"a": 1}) == ()


def test_a_long_chain_is_refused_in_whatever_order_it_is_met() -> None:
    chain = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(300)} | {"d300": {}}
    last_first = {f"p{n}": {"$ref": f"#/$defs/d{n}"} for n in range(300, -1, -20)}
    with pytest.raises(SchemaInvalid, match="128 schemas deep"):
        ArgumentSchema({"$defs": chain, "properties": last_first, "allOf": [{"$ref": "#/$defs/d0"}]})


@settings(max_examples=25, deadline=None)
@given(st.sets(_STEPS, min_size=1, max_size=6), _STEPS, st.sampled_from(["$defs", "allOf", "%24defs"]), st.data())
def test_a_reference_leads_to_what_the_validator_takes_it_for(
    names: set[str], step: str, under: str, data: st.DataObject
) -> None:
    lengths = iter(_LENGTHS)
    root: dict[str, Any] = {
        "$schema": data.draw(st.sampled_from(_DRAFTS)),
        "$defs": {name: {"minLength": next(lengths)} for name in sorted(names)},
        "allOf": [{"minLength": next(lengths)} for _ in range(4)],
    }
    reference = f"#/{under}/{data.draw(st.sampled_from([step, *sorted(names)]))}"
    target = pointed(root, reference)
    if not isinstance(target, dict):
        return
    validator = jsonschema_rs.validator_for({**root, "properties": {"x": {"$ref": reference}}}, offline=True)
    accepted = [length for length in _LENGTHS if validator.is_valid({"x": "x" * length})]
    assert accepted == [length for length in _LENGTHS if length >= target["minLength"]]
