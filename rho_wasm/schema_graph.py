"""The shape of a JSON Schema: what stands in it, where its references lead, and what it applies to what.

A validator cannot be interrupted, and some schemas make it run for ever: 30 definitions that each name the next one
twice are 2 KB and 2^30 evaluations. So a schema is bounded when it is compiled, and read into what its cost is counted
with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rho_wasm.errors import SchemaInvalid
from rho_wasm.schema_cost import CostNode
from rho_wasm.schema_pattern_bytes import pattern_bytes
from rho_wasm.untrusted import inert

__all__ = ["SchemaGraph", "pointed"]

_DATA: Final = frozenset({"const", "default", "dependentRequired", "enum", "examples", "required", "type"})
_MAPS: Final = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_APPLIED: Final = (
    dict.fromkeys(("additionalItems", "contains", "items", "prefixItems", "unevaluatedItems"), "elements")
    | dict.fromkeys(("additionalProperties", "unevaluatedProperties"), "others")
    | {"anyOf": "branches", "oneOf": "branches", "patternProperties": "values", "propertyNames": "keys"}
)
"""What of a value a keyword applies its schemas to; every other one to the value itself."""
_SAME_VALUE: Final = frozenset(
    ("$ref", "allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then")
)

# Draft 4 lets a plain ``id`` move what a reference means, so a graph of it cannot be trusted.
_DRAFTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
)
_MOVING: Final = frozenset({"$id", "$schema"})  # Only at the root.

_MAX_DEPTH: Final = 64
_MAX_NODES: Final = 5_000
_MAX_PATTERN_CHARS: Final = 1_000
_MAX_PATTERNS: Final = 200
_MAX_PATTERN_BYTES: Final = 256 * 1024  # Some 3 ms to compile, during which no other thread runs.
_MAX_WEIGHT: Final = 10_000
_MAX_CHAIN: Final = 128
_MAX_UNEVALUATED: Final = 2_000  # Compiling one of them takes some 10 µs.
_TOO_LONG: Final = f"its references lead more than {_MAX_CHAIN} schemas deep"
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
# What RFC 3986 lets stand in a fragment, but for ``%``: a validator decodes ``d%31`` to ``d1``, so whoever takes it as
# it stands looks at another definition.
_POINTER: Final = re.compile(r"#(?:/(?:~[01]|[A-Za-z0-9._!$&'()*+,;=:@?/-])*)?")


def pointed(root: Mapping[str, Any], reference: str) -> Any:
    """What a ``$ref`` into the same schema leads to, by its JSON pointer (RFC 6901); None where that is nowhere.

    So is what a validator may read otherwise: a pointer with ``%``, with a character that no URI has, with ``~`` before
    anything but 0 and 1, or with an index such as ``01``.
    """
    if _POINTER.fullmatch(reference) is None:
        return None
    node: Any = root
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(step)
        elif isinstance(node, (list, tuple)) and _INDEX.fullmatch(step) and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node


class SchemaGraph:
    """``schema``, checked. Raises :class:`SchemaInvalid` where it is too large, or refers to what is outside of it.

    ``recursive``: a reference leads back to what it stands in. ``patterns`` are those that differ, and
    ``pattern_bytes`` what they take when compiled.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._nodes = 0
        self._pattern_keywords = 0
        self.patterns: set[str] = set()
        self.pattern_bytes = 0
        self._check(schema, 0)
        self._known: dict[int, CostNode] = {}
        self._inside: set[int] = set()
        self._same_value: dict[CostNode, list[CostNode]] = {}
        self.recursive = False
        self.node = self._node(schema)
        self._check_same_value()
        self._weigh(self.node, {}, set())

    def _check(self, node: Any, depth: int) -> None:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise SchemaInvalid(f"it has more than {_MAX_NODES} values")
        if depth > _MAX_DEPTH:
            raise SchemaInvalid(f"it is nested more than {_MAX_DEPTH} deep")
        if isinstance(node, Mapping):
            for keyword, value in node.items():
                self._check_keyword(keyword, value, depth)
                self._check(value, depth + 1)
        elif isinstance(node, (list, tuple)):
            for value in node:
                self._check(value, depth + 1)

    def _check_keyword(self, keyword: str, value: Any, depth: int) -> None:
        if keyword in ("$dynamicRef", "$recursiveRef") or (keyword in _MOVING and depth and type(value) is str):
            raise SchemaInvalid(f"{keyword} is not supported here: use $ref to a definition in the same schema")
        if keyword == "$schema" and not depth and (type(value) is not str or value.rstrip("#") not in _DRAFTS):
            raise SchemaInvalid("its $schema is not known: leave it out, or name draft 2020-12, 2019-09, 7 or 6")
        if keyword == "$ref" and type(value) is str:
            self._resolve(value)
        if keyword == "pattern" and type(value) is str:
            self._check_pattern(value)
        if keyword == "patternProperties" and isinstance(value, Mapping):
            for pattern in value:
                self._check_pattern(pattern)

    def _check_pattern(self, pattern: str) -> None:
        self._pattern_keywords += 1
        if self._pattern_keywords > _MAX_PATTERNS:
            raise SchemaInvalid(f"it has more than {_MAX_PATTERNS} patterns")
        if len(pattern) > _MAX_PATTERN_CHARS:
            raise SchemaInvalid(f"a pattern has more than {_MAX_PATTERN_CHARS} characters")
        if pattern not in self.patterns:
            self.patterns.add(pattern)
            self.pattern_bytes += pattern_bytes(pattern)
        if self.pattern_bytes > _MAX_PATTERN_BYTES:
            raise SchemaInvalid(
                f"its patterns take more than {_MAX_PATTERN_BYTES // 1024} KiB when compiled, with "
                f"{inert(pattern, limit=80)!r}: say how long a text is with maxLength instead of {{1,100}}, repeat "
                "wide classes (., [^/], \\S) without a number, and leave out (?i) and (?x)"
            )

    def _resolve(self, reference: str) -> Any:
        shown = inert(reference, limit=80)
        if reference != "#" and not reference.startswith("#/"):
            raise SchemaInvalid(f"the $ref {shown!r} leads outside: only #/... of the same schema is followed")
        if _POINTER.fullmatch(reference) is None:
            raise SchemaInvalid(
                f"the $ref {shown!r} can be read in two ways: name the definition with ASCII letters, digits, '_', '-' "
                "and '.' alone, and write that name as it is, without % (~0 and ~1 stand for '~' and '/')"
            )
        node = pointed(self._root, reference)
        if node is None:
            raise SchemaInvalid(f"the $ref {shown!r} leads nowhere")
        if not isinstance(node, (Mapping, bool)):
            raise SchemaInvalid(f"the $ref {shown!r} does not lead to a schema")
        return node

    def _node(self, schema: Any) -> CostNode:
        key = id(schema)
        if key in self._known:
            self.recursive = self.recursive or key in self._inside
            return self._known[key]
        node = self._known[key] = CostNode()
        if not isinstance(schema, Mapping):
            node.assertions = int(schema is False)
            return node
        if len(self._inside) > _MAX_CHAIN:
            raise SchemaInvalid(_TOO_LONG)
        node.read(schema)
        self._inside.add(key)
        same_value = self._same_value[node] = []
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, Mapping):
                node.properties = {name: self._node(target) for name, target in value.items()}
            else:
                children: list[CostNode] = getattr(node, _APPLIED.get(keyword, "here"))
                found = [self._node(target) for target in self._targets(keyword, value)]
                children.extend(found)
                if keyword in _SAME_VALUE:
                    same_value.extend(found)
        self._inside.discard(key)
        return node

    def _targets(self, keyword: str, value: Any) -> Iterator[Any]:
        if keyword == "$ref" and type(value) is str:
            yield self._resolve(value)
        elif keyword in _DATA or keyword in _DEFINITIONS:
            return
        elif isinstance(value, Mapping):
            if keyword in _MAPS:
                yield from value.values()
            else:
                yield value
        elif isinstance(value, (list, tuple)):
            yield from value

    def _check_same_value(self) -> None:
        """Of what stands for one value: that it ends, and that what is ``unevaluated`` is known after a look or two.

        The validator goes every way through a circle, up to n! of n schemas: with ``oneOf`` for each value, with
        ``unevaluatedProperties`` when it is compiled.
        """
        unfolded: dict[CostNode, int] = {}
        for node in self._same_value:
            self._unfold(node, unfolded, set())
        if sum(number for node, number in unfolded.items() if node.factor > 1) > _MAX_UNEVALUATED:
            raise SchemaInvalid(
                f"its unevaluatedProperties and unevaluatedItems look at more than {_MAX_UNEVALUATED} schemas and "
                "keys: use additionalProperties, or fewer references"
            )

    def _unfold(self, node: CostNode, known: dict[CostNode, int], inside: set[CostNode]) -> int:
        if node in inside:
            raise SchemaInvalid(
                "a $ref leads back to where it stands: what is checked again must be a key or an element of the value"
            )
        if node not in known:
            if len(inside) > _MAX_CHAIN:
                raise SchemaInvalid(_TOO_LONG)
            inside.add(node)
            below = (self._unfold(child, known, inside) for child in self._same_value.get(node, ()))
            known[node] = 1 + len(node.properties) + len(node.values) + sum(below)
            inside.discard(node)
        return known[node]

    def _weigh(self, node: CostNode, known: dict[CostNode, int], inside: set[CostNode]) -> int:
        if node in inside:
            return 1
        if node not in known:
            if len(inside) > _MAX_CHAIN:
                raise SchemaInvalid(_TOO_LONG)
            inside.add(node)
            known[node] = 1 + sum(self._weigh(child, known, inside) for child in node.children())
            inside.discard(node)
        if known[node] > _MAX_WEIGHT:
            raise SchemaInvalid(f"its references unfold to more than {_MAX_WEIGHT} schemas")
        return known[node]
