"""Schemas that every model's API takes: what one of them refuses is said where a tool is made, not at its first turn.

One tool that an API refuses makes it refuse the whole request, so a tool must not be offered that way. As seen of them:

* OpenAI wants an object at the top, without ``anyOf``, ``oneOf``, ``allOf``, ``not``, ``enum`` or ``const`` beside it.
* Anthropic wants an object at the top without ``anyOf``, ``oneOf`` or ``allOf``, reads draft 2020-12 alone, and takes
  arguments whose names are 1 to 64 of ``A-Z a-z 0-9 _ . -``.

(Names of tools are 1 to 64 of ``A-Z a-z 0-9 _ -`` anywhere here, which both take.) A registry refuses such a tool of
the host, a build and ``stage`` one of an agent. Tools that were stored before stay what they are:
:func:`object_schema` shows a model what it can of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import jsonschema_rs

from rho_wasm.errors import ModuleRejected
from rho_wasm.frozen import thaw
from rho_wasm.schema_graph import pointed
from rho_wasm.untrusted import inert

__all__ = ["check_declared", "object_schema", "refused_argument", "unportable"]

_ARGUMENT: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_REFUSED_BY: Final = dict.fromkeys(_COMBINED, "OpenAI and Anthropic refuse") | dict.fromkeys(
    ("const", "enum", "not"), "OpenAI refuses"
)
_LATEST: Final = "https://json-schema.org/draft/2020-12/schema"
_MAX_HOPS: Final = 8
_MAX_BRANCHES: Final = 64


class _Declared(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def input_schema(self) -> Mapping[str, Any]: ...


def unportable(schema: Mapping[str, Any]) -> str | None:
    """Which API refuses a tool with that schema of its arguments, and what to do; None where none does."""
    top = _at_top(schema)
    for keyword, who in _REFUSED_BY.items():
        if keyword in top:
            return (
                f"{who} a tool whose schema has {keyword} at its top: make it one object, its arguments optional where "
                "they depend on each other, and say in their descriptions which belong together"
            )
    if (name := refused_argument(schema)) is not None:
        shown = inert(name, limit=80)
        return f"Anthropic refuses the argument {shown!r}: a name is 1 to 64 of A-Z a-z 0-9 _ . -, so rename it"
    if not jsonschema_rs.meta.is_valid({**thaw(schema), "$schema": _LATEST}):
        return (
            "Anthropic reads it as JSON Schema draft 2020-12, which it is not: there a list with a schema for each "
            "place is prefixItems, and definitions are $defs"
        )
    return None


def refused_argument(schema: Mapping[str, Any]) -> str | None:
    """The first argument whose name Anthropic refuses, if there is one."""
    properties = object_schema(schema)["properties"]
    return next((name for name in properties if _ARGUMENT.fullmatch(name) is None), None)


def check_declared(tools: Iterable[_Declared]) -> None:
    """Raises :class:`ModuleRejected` (``schema_unportable``) for the first tool that an API would refuse."""
    for tool in tools:
        if (why := unportable(tool.input_schema)) is not None:
            fault, _, hint = why.partition(": ")
            raise ModuleRejected(
                "schema_unportable", f"the input_schema of {tool.name}: {fault}", name=tool.name, hint=hint
            )


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of ``schema`` that is an object at its top, with ``properties`` and without what is refused there.

    Of alternatives at the top a model is shown the arguments of all of them; that some exclude others the runner
    still checks. Where the top is a reference, what it leads to stands there.
    """
    top = {**_at_top(schema), "type": "object"}
    properties = top.get("properties")
    shown = dict(properties) if isinstance(properties, dict) else {}
    for keyword in _COMBINED:
        branches = top.get(keyword)
        for branch in branches[:_MAX_BRANCHES] if isinstance(branches, list) else ():
            inner = _followed(branch, schema).get("properties")
            if isinstance(inner, Mapping):
                shown = {**thaw(inner), **shown}
    for keyword in _REFUSED_BY:
        top.pop(keyword, None)
    top["properties"] = shown
    return top


def _at_top(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return dict(thaw(schema))
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return dict(thaw({**_followed(schema, schema), **beside}))


def _followed(node: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a chain of references leads to; an empty schema where that is none."""
    for _ in range(_MAX_HOPS):
        if not isinstance(node, Mapping):
            break
        reference = node.get("$ref")
        if type(reference) is not str:
            return node
        node = pointed(root, reference)
    return {}
