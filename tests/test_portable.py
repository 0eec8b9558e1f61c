"""Tools that a model's API would refuse are refused where they are made; stored ones are shown as far as can be."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm import Host, Ok, SchemaInvalid, Tool, ToolRegistry, tool
from rho_wasm.errors import ModuleRejected
from rho_wasm.portable import check_declared, object_schema, refused_argument, unportable
from rho_wasm.testing import guest

TEXT = {"type": "string"}
EITHER = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": TEXT, "b": TEXT}}


def tool_of(schema: dict[str, Any]) -> Tool:
    return Tool(name="odd", description="", input_schema=schema, handler=lambda arguments: Ok(arguments))


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": ["object", "null"], "properties": {"a": {"anyOf": [TEXT, {"type": "null"}]}}},
        {"type": "object", "properties": {"a.b-c_D9": {"enum": [1]}}, "required": ["a.b-c_D9"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"x": TEXT}}}},
        {"$schema": "http://json-schema.org/draft-07/schema", "type": "object", "properties": {"a": TEXT}},
    ],
)
def test_most_schemas_are_taken_everywhere(schema: dict[str, Any]) -> None:
    assert unportable(schema) is None
    assert object_schema(schema)["type"] == "object"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (EITHER, "OpenAI and Anthropic refuse a tool whose schema has anyOf at its top: make it one object"),
        ({"oneOf": [{"type": "object"}]}, "has oneOf at its top"),
        ({"type": "object", "allOf": [{}]}, "has allOf at its top"),
        ({"type": "object", "not": {}}, "OpenAI refuses a tool whose schema has not at its top"),
        ({"type": "object", "enum": [{}]}, "has enum at its top"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{}]}}}, "has anyOf at its top"),
        ({"properties": {"größe": TEXT}}, "Anthropic refuses the argument 'größe'"),
        ({"properties": {"x" * 65: TEXT}}, "a name is 1 to 64 of A-Z a-z 0-9 _ . -, so rename it"),
        ({"properties": {"": TEXT}}, "Anthropic refuses the argument ''"),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema",
                "properties": {"a": {"type": "array", "items": [TEXT]}},
            },
            "draft 2020-12",
        ),
    ],
)
def test_a_tool_that_an_api_refuses_is_neither_registered_nor_a_core_tool(schema: dict[str, Any], why: str) -> None:
    assert why in (unportable(schema) or "")
    with pytest.raises(SchemaInvalid, match="odd: "):
        ToolRegistry([]).register(tool_of(schema))
    with pytest.raises(SchemaInvalid, match="odd: "):
        ToolRegistry([tool_of(schema)])


def test_a_source_offers_what_it_has() -> None:
    class Stored:
        def list(self) -> list[Tool]:
            return [odd]

        def lookup(self, name: str) -> Tool | None:
            return odd if name == "odd" else None

        def watch(self, call: object) -> None:
            """Nothing to watch."""

    odd = tool_of(EITHER)
    assert ToolRegistry([], sources=[Stored()]).list() == (odd,)


def test_of_alternatives_at_the_top_a_model_is_shown_all_arguments() -> None:
    schema = {
        "anyOf": [{"properties": {"a": TEXT}}, {"$ref": "#/$defs/b"}, True],
        "properties": {"c": TEXT},
        "required": ["c"],
        "$defs": {"b": {"properties": {"b": {"type": "integer"}, "c": {"type": "integer"}}}},
    }
    shown = object_schema(schema)
    assert shown["properties"] == {"a": TEXT, "b": {"type": "integer"}, "c": TEXT}
    assert shown["required"] == ["c"]
    assert "anyOf" not in shown


@pytest.mark.parametrize("reference", ["#", "#/$defs/a", "#/none", "#/$defs/a/properties", 7])
def test_a_reference_that_leads_nowhere_is_an_object_without_arguments(reference: Any) -> None:
    shown = object_schema({"$ref": reference, "$defs": {"a": {"$ref": "#/$defs/a"}}})
    assert (shown["type"], shown["properties"]) == ("object", {})


def test_an_argument_hidden_in_an_alternative_is_found() -> None:
    assert refused_argument({"anyOf": [{"properties": {"no spaces": TEXT}}]}) == "no spaces"


def test_functions_of_a_host_make_schemas_that_all_take() -> None:
    @tool
    def ask(question: str, options: dict[str, list[int]] | None = None, *, deep: bool = False) -> str:
        """Asks."""
        return question

    assert unportable(ask.input_schema) is None


async def test_a_guests_tool_is_refused_when_it_is_staged_with_a_hint_for_its_author() -> None:
    artifact = guest({"name": "odd", "description": "", "input_schema": EITHER})
    with pytest.raises(ModuleRejected) as refused:
        check_declared(artifact.manifest.tools)
    assert refused.value.reason == "schema_unportable"
    assert refused.value.name == "odd"
    assert "make it one object" in refused.value.hint
    async with Host.open(":memory:") as host:
        with pytest.raises(ModuleRejected):
            await host.source.stage(add=[artifact], author="model")
