"""The shape of a JSON Schema: what stands in it, where its references lead, and what validating with it may cost.

A validator cannot be interrupted, and some schemas make it run for ever: 30 definitions that each name the next one
twice are 2 KB and 2^30 evaluations. So a schema is bounded when it is compiled, and where it is recursive or wide the
evaluations of an instance are counted (each pair of sub-schema and value once, so counting is cheap) before they are
done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from rho_wasm.errors import SchemaInvalid
from rho_wasm.untrusted import inert

__all__ = ["SchemaGraph"]

_DATA: Final = frozenset({"const", "default", "enum", "examples", "required", "type"})
_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_OF_ELEMENTS: Final = frozenset({"additionalItems", "contains", "items", "prefixItems", "unevaluatedItems"})
_OF_VALUES: Final = frozenset({"additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties"})

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
_MAX_WEIGHT: Final = 10_000
_MAX_PAIRS: Final = 50_000
_MAX_NESTED_PAIRS: Final = 400  # Python's stack holds twice that.


class _Edge(NamedTuple):
    keyword: str
    name: str | None  # of the property, for ``properties``
    target: Any


class SchemaGraph:
    """``schema``, checked. Raises :class:`SchemaInvalid` where it is too large, or refers to what is outside of it."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._nodes = 0
        self._patterns = 0
        self._check(schema, 0)
        self.recursive = False
        self.weight = self._weigh(schema, {}, set())
        """Evaluations of the whole schema with every reference followed once."""

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
        self._patterns += 1
        if self._patterns > _MAX_PATTERNS:
            raise SchemaInvalid(f"it has more than {_MAX_PATTERNS} patterns")
        if len(pattern) > _MAX_PATTERN_CHARS:
            raise SchemaInvalid(f"a pattern has more than {_MAX_PATTERN_CHARS} characters")

    def _resolve(self, reference: str) -> Any:
        shown = inert(reference, limit=80)
        if reference != "#" and not reference.startswith("#/"):
            raise SchemaInvalid(f"the $ref {shown!r} leads outside: only #/... of the same schema is followed")
        node: Any = self._root
        for step in reference[1:].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and step in node:
                node = node[step]
            elif isinstance(node, (list, tuple)) and step.isascii() and step.isdigit() and int(step) < len(node):
                node = node[int(step)]
            else:
                raise SchemaInvalid(f"the $ref {shown!r} leads nowhere")
        if not isinstance(node, (Mapping, bool)):
            raise SchemaInvalid(f"the $ref {shown!r} does not lead to a schema")
        return node

    def _edges(self, node: Mapping[str, Any]) -> Iterator[_Edge]:
        for keyword, value in node.items():
            if keyword == "$ref" and type(value) is str:
                yield _Edge(keyword, None, self._resolve(value))
            elif keyword in _DATA or keyword in _DEFINITIONS:
                continue
            elif isinstance(value, Mapping):
                if keyword in _MAPS:
                    yield from (_Edge(keyword, name, target) for name, target in value.items())
                else:
                    yield _Edge(keyword, None, value)
            elif isinstance(value, (list, tuple)):
                yield from (_Edge(keyword, None, target) for target in value)

    def _weigh(self, node: Any, known: dict[int, int], inside: set[int]) -> int:
        if not isinstance(node, Mapping):
            return 1
        if id(node) in inside:
            self.recursive = True
            return 1
        if id(node) not in known:
            inside.add(id(node))
            known[id(node)] = 1 + sum(self._weigh(edge.target, known, inside) for edge in self._edges(node))
            inside.discard(id(node))
        if known[id(node)] > _MAX_WEIGHT:
            raise SchemaInvalid(f"its references unfold to more than {_MAX_WEIGHT} schemas")
        return known[id(node)]

    def cost(self, instance: Any) -> int | None:
        """Evaluations that validating ``instance`` may take; None if counting them alone is too much."""
        try:
            return self._cost(self._root, instance, {}, set())
        except OverflowError:
            return None

    def _cost(self, node: Any, instance: Any, known: dict[tuple[int, int], int], inside: set[tuple[int, int]]) -> int:
        if not isinstance(node, Mapping):
            return 1
        pair = (id(node), id(instance))
        if pair in inside:
            return 1
        if pair not in known:
            if len(known) > _MAX_PAIRS or len(inside) > _MAX_NESTED_PAIRS:
                raise OverflowError
            inside.add(pair)
            total = 1
            for edge in self._edges(node):
                for part in _parts(edge, instance):
                    total += self._cost(edge.target, part, known, inside)
            inside.discard(pair)
            known[pair] = total
        return known[pair]


def _parts(edge: _Edge, instance: Any) -> Iterator[Any]:
    """The parts of ``instance`` that the schema at the end of ``edge`` is applied to."""
    if edge.keyword == "properties":
        if isinstance(instance, dict) and edge.name in instance:
            yield instance[edge.name]
    elif edge.keyword in _OF_VALUES:
        if isinstance(instance, dict):
            yield from instance.values()
    elif edge.keyword in _OF_ELEMENTS:
        if isinstance(instance, list):
            yield from instance
    else:
        yield instance
