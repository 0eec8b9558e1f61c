"""What a person is shown of the tools that a manifest declares."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm.cli.declared_tools import show_tools
from rho_wasm.cli.output import Output
from rho_wasm.manifest import Manifest


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "integer"}]}, "integer or string"),
        ({"oneOf": [{"anyOf": [{"type": "array"}, {}]}, {"type": "null"}]}, "array or any or null"),
        ({"anyOf": [{"type": "integer", "const": number} for number in range(9)]}, "integer or more"),
        ({"$ref": "#/$defs/Tree"}, "Tree"),
        ({"enum": ["a", 1]}, 'one of ["a", 1]'),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_an_argument_is_shown_in_the_words_of_its_schema(
    capsys: pytest.CaptureFixture[str], schema: Any, shown: str
) -> None:
    schemas = {"type": "object", "properties": {"a": schema}, "$defs": {"Tree": {"type": "object"}}}
    declared = {"name": "t", "description": "d", "input_schema": schemas}
    show_tools(Output(as_json=False), Manifest.from_json({"tools": [declared]}))
    assert f"      a: {shown}, optional\n" in capsys.readouterr().out
