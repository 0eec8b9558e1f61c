"""A schema is compiled once for all who ask, and what is kept is bounded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rho_wasm.errors import ModuleRejected, SchemaInvalid
from rho_wasm.frozen import freeze
from rho_wasm.manifest import Manifest
from rho_wasm.offered import KnownTool
from rho_wasm.results import Ok
from rho_wasm.schema_cache import PatternBudget, compiled_schema
from rho_wasm.tools import Tool


def numbered(number: int, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"kept{number}": {"type": "integer"}}, **more}


def dear(number: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"pattern": rf"^(\s\S){{60}}{number}"}}}


def test_a_schema_is_compiled_once_for_the_manifest_and_for_the_calls() -> None:
    schema = numbered(0)
    Manifest.from_json({"tools": [{"name": "t", "description": "d", "input_schema": schema}]})
    kept = compiled_schema(schema)
    tool = Tool(name="t", description="d", input_schema=schema, handler=lambda arguments, context: Ok(1))
    assert KnownTool(tool).schema is kept
    assert compiled_schema(freeze(schema)) is kept
    assert compiled_schema(schema, of_arguments=False) is not kept


def test_threads_that_ask_at_once_get_what_works_for_all() -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: compiled_schema(numbered(n % 4)).problems({f"kept{n % 4}": 1}), range(64)))
    assert found == [()] * 64


def test_what_is_wrong_with_a_schema_is_remembered_too() -> None:
    for _ in range(2):
        with pytest.raises(SchemaInvalid, match="leads nowhere"):
            compiled_schema(numbered(1, **{"$ref": "#/$defs/none"}))


@pytest.mark.parametrize("patterns", [0, 1])
def test_old_schemas_are_let_go(patterns: int) -> None:
    more: dict[str, Any] = {"patternProperties": {"^a": {}}} if patterns else {}
    first = compiled_schema(numbered(1_000, **more))
    assert compiled_schema(numbered(1_000, **more)) is first
    for number in range(1_001, 1_130 if patterns else 1_260):
        compiled_schema(numbered(number, **more))
    assert compiled_schema(numbered(1_000, **more)) is not first


def test_the_patterns_of_all_tools_of_a_manifest_are_bounded_together() -> None:
    tools = [{"name": f"t{n}", "description": "d", "input_schema": dear(n)} for n in range(9)]
    Manifest.from_json({"tools": tools[:4]})
    Manifest.from_json({"tools": [tool | {"input_schema": dear(0)} for tool in tools]})
    with pytest.raises(ModuleRejected, match="the patterns of all tools together take more than 1024 KiB"):
        Manifest.from_json({"tools": tools})


def test_a_schema_counts_once() -> None:
    budget, schema = PatternBudget(), compiled_schema(dear(0))
    for _ in range(20):
        budget.take(schema)
