"""Arguments that a tool's schema takes: as little as it asks for, and as much as a host ever sends.

Schemas are a stranger's, so what is made of one is bounded, and is then held against the schema itself: a keyword that
is not understood here costs a test, never a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from rho_wasm import plain
from rho_wasm.errors import PlainError
from rho_wasm.schema import ArgumentSchema

__all__ = ["EVERY_PLANE", "ToolArguments", "nested"]

EVERY_PLANE: Final = "a\0ü水\U0001f600" + "".join(
    chr(plane << 16 | low) for plane in range(17) for low in (0x0041, 0xD7FF, 0xE000, 0xFFFC)
)
"""Text with a NUL inside and characters of all 17 planes of Unicode, the first and the last that are no surrogates."""

_DEPTH: Final = 12
_MOST: Final = 1_000
"""Characters or items that are made because a schema asks for at least so many."""
_EXTRA: Final = "conform"
_PLACES: Final = 32
_EXAMPLES: Final = 8
"""So many are looked at: each is held against the schema, and that may take its time."""


def nested(depth: int) -> Any:
    """Lists and maps inside one another, ``depth`` of them."""
    value: Any = []
    for level in range(depth - 1):
        value = {"k": value} if level % 2 else [value]
    return value


class ToolArguments:
    """Arguments for one tool of ``schema``. ``examples`` are used where none can be made of the schema."""

    def __init__(self, schema: Mapping[str, Any], examples: tuple[Mapping[str, Any], ...] = ()) -> None:
        self._schema = schema
        self._checked = ArgumentSchema(schema)
        made = _Least(schema).of(schema, 0)
        candidates = [made, *map(dict, examples[:_EXAMPLES])]
        self.least: dict[str, Any] | None = next((value for value in candidates if self._takes(value)), None)
        """As little as the schema asks for; None where nothing was found that it takes."""

    def with_value(self, value: Any, kind: str) -> dict[str, Any] | None:
        """The least arguments with ``value``, of the JSON type ``kind``, where the schema takes it; None for nowhere.

        A short text stands in as many places as there are for it, anything else in one.
        """
        found = self.least
        for name in self._places(kind):
            candidate = {**(found or {}), name: value}
            if self._takes(candidate):
                found = candidate
                if kind != "string" or len(value) > _MOST:
                    break
        return None if found is self.least else found

    def _places(self, kind: str) -> Iterator[str]:
        properties = self._schema.get("properties")
        for name, schema in islice(properties.items(), _PLACES) if isinstance(properties, Mapping) else ():
            if isinstance(schema, Mapping) and schema.get("type", kind) in (kind, [kind]):
                yield name
        yield _EXTRA

    def _takes(self, arguments: Any) -> bool:
        if not isinstance(arguments, dict):
            return False
        try:
            plain.encode(arguments, max_depth=63)
        except PlainError:
            return False
        return not self._checked.problems(arguments)


class _Least:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def of(self, schema: Any, depth: int) -> Any:
        """A value that ``schema`` may take."""
        if not isinstance(schema, Mapping) or depth > _DEPTH:
            return None
        if "const" in schema:
            return schema["const"]
        if isinstance(values := schema.get("enum"), list | tuple) and values:
            return values[0]
        if isinstance(reference := schema.get("$ref"), str):
            return self.of(self._referred(reference), depth + 1)
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(choices := schema.get(word), list | tuple) and choices:
                rest = {key: value for key, value in schema.items() if key != word}
                choice = choices[0] if isinstance(choices[0], Mapping) else {}
                return self.of({**rest, **choice} if "$ref" not in choice else choice, depth + 1)
        kind = schema.get("type", "object" if "properties" in schema or depth == 0 else "null")
        return self._of_kind(kind[0] if isinstance(kind, list | tuple) and kind else kind, schema, depth)

    def _of_kind(self, kind: Any, schema: Mapping[str, Any], depth: int) -> Any:
        match kind:
            case "object":
                properties = schema.get("properties")
                known = properties if isinstance(properties, Mapping) else {}
                required = schema.get("required")
                names = required if isinstance(required, list | tuple) else ()
                return {name: self.of(known.get(name, {}), depth + 1) for name in names if isinstance(name, str)}
            case "array":
                return [self.of(schema.get("items"), depth + 1)] * _at_least(schema, "minItems")
            case "string":
                return "x" * _at_least(schema, "minLength")
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return False
        return None

    def _referred(self, reference: str) -> Any:
        found: Any = self._root
        if not reference.startswith("#"):
            return None
        for step in filter(None, re.split("/", reference[1:])):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _at_least(schema: Mapping[str, Any], word: str) -> int:
    wanted = schema.get(word, 0)
    return min(wanted, _MOST) if type(wanted) is int and wanted > 0 else 0


def _number(schema: Mapping[str, Any]) -> int | float:
    for word, more in (("minimum", 0), ("exclusiveMinimum", 1), ("maximum", 0), ("exclusiveMaximum", -1)):
        bound = schema.get(word)
        if isinstance(bound, int | float) and (bound > 0 if word.endswith("inimum") else bound < 0):
            return bound + more
    return 0
