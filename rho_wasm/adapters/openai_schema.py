"""The schema of a tool's arguments as OpenAI takes it, and as it takes it for ``strict``, where that means the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rho_wasm.portable import object_schema

__all__ = ["description_of", "openai_schema", "strict_schema"]

DESCRIPTION_CHARS: Final = 1_024
"""Of a function's description. OpenAI has lifted that bound for some of its models; those behind it still have it."""

_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS: Final = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_ONES: Final = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")

_STRICT_KEYS: Final = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum"}
    | {"exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern"}
    | {"properties", "required", "title", "type"}
)
_STRICT_FORMATS: Final = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)
_MAX_DEPTH: Final = 10
_MAX_PROPERTIES: Final = 5_000
_MAX_ENUM: Final = 1_000
_MAX_CHARS: Final = 120_000


def description_of(text: str) -> str:
    """A description within OpenAI's bound: cut at the end of a line or a word, and then it says so."""
    if len(text) <= DESCRIPTION_CHARS:
        return text
    kept = text[: DESCRIPTION_CHARS - len(" …")]
    end = max(kept.rfind("\n", len(kept) // 2), kept.rfind(" ", len(kept) // 2))
    return f"{kept[:end] if end > 0 else kept} …"


def openai_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` with an object at its top, ``items`` for every list and ``properties`` for every object, as OpenAI
    demands. It means the same, but for what :func:`rho_wasm.portable.object_schema` leaves out at the top."""
    shown: dict[str, Any] = _filled(object_schema(schema))
    shown.pop("$schema", None)
    return shown


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """``schema`` for ``strict``: None where that would not mean the same, or OpenAI would refuse it.

    So every argument has to be required: one that may be left out, the model would have to send. Objects take no
    further keys; where a schema does not say whether they do, they do not here.
    """
    shown = openai_schema(schema)
    try:
        _Strict().check(shown, 0)
    except _NotStrictError:
        return None
    return shown


def _filled(schema: Any) -> Any:
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        return schema
    found = _mapped(schema, _filled)
    if found.get("type") == "array":
        found.setdefault("items", {})
    elif found.get("type") == "object":
        found.setdefault("properties", {})
    return found


def _mapped(schema: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """``schema`` with ``change`` of each schema directly in it; data in it (an enum, a default) stays."""
    found = dict(schema)
    for key in _ONES:
        if isinstance(schema.get(key), dict):
            found[key] = change(schema[key])
    for key in _LISTS:
        if isinstance(schema.get(key), list):
            found[key] = [change(item) for item in schema[key]]
    for key in _MAPS:
        if isinstance(schema.get(key), dict):
            found[key] = {name: change(item) for name, item in schema[key].items()}
    return found


class _NotStrictError(Exception):
    """The schema is outside of what ``strict`` has."""


class _Strict:
    """Checks that a schema is inside, and says of its objects that they take no other keys."""

    def __init__(self) -> None:
        self._properties = self._values = self._chars = 0

    def check(self, schema: Any, depth: int) -> None:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or not schema.keys() <= _STRICT_KEYS:
            raise _NotStrictError
        for name, inner in (schema.get("$defs") or {}).items():
            self._chars += len(name)
            self.check(inner, depth + 1)
        if "$ref" in schema:
            if schema.keys() - {"$ref", "$defs"}:
                raise _NotStrictError
        elif "anyOf" in schema:
            for inner in schema["anyOf"]:
                self.check(inner, depth + 1)
        elif "type" not in schema and "enum" not in schema and "const" not in schema:
            raise _NotStrictError
        if schema.get("format", "date") not in _STRICT_FORMATS:
            raise _NotStrictError
        kinds = schema.get("type", ())
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        if "array" in kinds:
            self.check(schema.get("items"), depth + 1)
        if "object" in kinds:
            self._object(schema, depth)
        values = schema.get("enum") or ()
        self._values += len(values)
        self._chars += sum(len(value) for value in values if isinstance(value, str))
        if self._properties > _MAX_PROPERTIES or self._values > _MAX_ENUM or self._chars > _MAX_CHARS:
            raise _NotStrictError

    def _object(self, schema: dict[str, Any], depth: int) -> None:
        properties = schema.get("properties") or {}
        open_map = not properties and depth > 0 and "additionalProperties" not in schema
        if open_map or schema.setdefault("additionalProperties", False) is not False:
            raise _NotStrictError
        if set(schema.setdefault("required", [])) != properties.keys():
            raise _NotStrictError
        for name, inner in properties.items():
            self._properties += 1
            self._chars += len(name)
            self.check(inner, depth + 1)
