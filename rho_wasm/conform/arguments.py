"""Arguments that a tool's schema takes: as little as it asks for, and as much as a host ever sends.

Schemas are a stranger's, so what is made of one is bounded, in depth and in size, and is then held against the schema
itself: a keyword that is not understood here costs a test, never a wrong one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from rho_wasm import plain
from rho_wasm.errors import PlainError
from rho_wasm.schema import ArgumentSchema
from rho_wasm.schema_graph import pointed

__all__ = ["EVERY_PLANE", "FloatPlace", "ToolArguments", "nested"]

EVERY_PLANE: Final = "a\0ü水\U0001f600" + "".join(
    chr(plane << 16 | low) for plane in range(17) for low in (0x0041, 0xD7FF, 0xE000, 0xFFFC)
)
"""Text with a NUL inside and characters of all 17 planes of Unicode, the first and the last that are no surrogates."""

_DEPTH: Final = 12
_STEPS: Final = 10_000
"""Values that are made of one schema: ten references to what has ten references each need few levels to be millions."""
_PATIENCE_S: Final = 2.0
"""How long places for one value are looked for."""
_MOST: Final = 1_000
"""Characters or items that are made because a schema asks for at least so many."""
_EXTRA: Final = "conform"
_PLACES: Final = 32
_FRACTIONS: Final = (1.5, 0.5, 10.5, 100.5, -1.5, -10.5, -100.5)
"""Numbers that a schema may take, all exact in half precision."""
_EXAMPLES: Final = 8
"""So many are looked at: each is held against the schema, and that may take its time."""


def nested(depth: int) -> Any:
    """Lists and maps inside one another, ``depth`` of them."""
    value: Any = []
    for level in range(depth - 1):
        value = {"k": value} if level % 2 else [value]
    return value


@dataclass(frozen=True, slots=True)
class FloatPlace:
    """Arguments that the schema takes: the one called ``name`` is ``value``, or the list of it alone."""

    arguments: dict[str, Any]
    name: str
    value: float
    """Exact in half precision."""


class ToolArguments:
    """Arguments for one tool of ``schema``. ``examples`` are used where none can be made of the schema."""

    def __init__(self, schema: Mapping[str, Any], examples: tuple[Mapping[str, Any], ...] = ()) -> None:
        self._schema = schema
        self._checked = ArgumentSchema(schema)
        self.why_none = "what its schema asks for could not be made of it"
        """Why ``least`` is None, where it is."""
        made: Any = None
        try:
            made = _Least(schema).of(schema, 0)
        except _TooMuch:
            self.why_none = f"its schema asks for more than {_STEPS:,} values"
        candidates = (made, *map(dict, examples[:_EXAMPLES]))
        self.least: dict[str, Any] | None = next((value for value in candidates if self._takes(value)), None)
        """As little as the schema asks for; None where nothing was found that it takes."""

    def with_value(self, value: Any, kind: str) -> dict[str, Any] | None:
        """The least arguments with ``value``, of the JSON type ``kind``, where the schema takes it; None for nowhere.

        A short text stands in as many places as there are for it, anything else in one. Places are looked for about two
        seconds: whether the schema takes a large value may take long to see, each time.
        """
        found = self.least
        ends = time.monotonic() + _PATIENCE_S
        for name in self._places(kind):
            if time.monotonic() > ends:
                break
            candidate = {**(found or {}), name: value}
            if self._takes(candidate):
                found = candidate
                if kind != "string" or len(value) > _MOST:
                    break
        return None if found is self.least else found

    def with_fraction(self) -> FloatPlace | None:
        """A number with a fraction where the schema names one, by itself or in a list, or takes what it does not name.

        Looked for about two seconds; None where no place is found, or the schema takes another number there.
        """
        ends = time.monotonic() + _PATIENCE_S
        named = [(name, kind) for kind in ("number", "array") for name in self._places(kind) if name != _EXTRA]
        for name, kind in (*named, (_EXTRA, "number")):
            for value in _FRACTIONS:
                if time.monotonic() > ends:
                    return None
                candidate = {**(self.least or {}), name: [value] if kind == "array" else value}
                if self._takes(candidate):
                    return FloatPlace(candidate, name, value)
        return None

    def _places(self, kind: str) -> Iterator[str]:
        properties = self._schema.get("properties")
        for name, schema in islice(properties.items(), _PLACES) if isinstance(properties, Mapping) else ():
            kinds = schema.get("type", kind) if isinstance(schema, Mapping) else ()
            if kinds == kind or (isinstance(kinds, list | tuple) and kind in kinds):
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


class _TooMuch(Exception):
    """More values are asked for than are made."""


class _Least:
    """Makes values of one schema, :data:`_STEPS` of them at most. Raises :class:`_TooMuch`."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _STEPS
        self._following: list[Any] = [root]
        """What is being made a value of already, because a reference leads there."""

    def of(self, schema: Any, depth: int) -> Any:
        """A value that ``schema`` may take; None for what has no end."""
        self._spend(1)
        if not isinstance(schema, Mapping) or depth > _DEPTH:
            return None
        if "const" in schema:
            return schema["const"]
        if isinstance(values := schema.get("enum"), list | tuple) and values:
            return values[0]
        if isinstance(reference := schema.get("$ref"), str):
            return self._of_reference(reference, depth)
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(choices := schema.get(word), list | tuple) and choices:
                choice = choices[0] if isinstance(choices[0], Mapping) else {}
                self._spend(len(schema) + len(choice))
                rest = {key: value for key, value in schema.items() if key != word}
                return self.of({**rest, **choice} if "$ref" not in choice else choice, depth + 1)
        kind = schema.get("type", "object" if "properties" in schema or depth == 0 else "null")
        return self._of_kind(kind[0] if isinstance(kind, list | tuple) and kind else kind, schema, depth)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooMuch

    def _of_reference(self, reference: str, depth: int) -> Any:
        self._spend(reference.count("/"))
        schema = pointed(self._root, reference)
        if any(schema is other for other in self._following):
            return None
        self._following.append(schema)
        try:
            return self.of(schema, depth + 1)
        finally:
            self._following.pop()

    def _of_kind(self, kind: Any, schema: Mapping[str, Any], depth: int) -> Any:
        match kind:
            case "object":
                properties = schema.get("properties")
                known = properties if isinstance(properties, Mapping) else {}
                required = schema.get("required")
                names = required if isinstance(required, list | tuple) else ()
                return {name: self.of(known.get(name, {}), depth + 1) for name in names if isinstance(name, str)}
            case "array":
                return self._list(schema, depth)
            case "string":
                return "x" * _at_least(schema, "minLength")
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return False
        return None

    def _list(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        count = _at_least(schema, "minItems")
        if not count:
            return []
        before = self._left
        item = self.of(schema.get("items"), depth + 1)
        self._spend((before - self._left) * (count - 1))
        return [item] * count


def _at_least(schema: Mapping[str, Any], word: str) -> int:
    wanted = schema.get(word, 0)
    return min(wanted, _MOST) if type(wanted) is int and wanted > 0 else 0


def _number(schema: Mapping[str, Any]) -> int | float:
    for word, more in (("minimum", 0), ("exclusiveMinimum", 1), ("maximum", 0), ("exclusiveMaximum", -1)):
        bound = schema.get(word)
        if isinstance(bound, int | float) and (bound > 0 if word.endswith("inimum") else bound < 0):
            return bound + more
    return 0
