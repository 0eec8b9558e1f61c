"""What validating with a schema may cost, counted before it is done: a validator cannot be interrupted.

Everything is in nanoseconds of the validator, measured and rounded up. A :class:`Profile` bounds every instance by its
size alone and is made once; where that is too much, an instance is counted: each pair of a sub-schema and a value
once, with one budget for looking, so that counting is bounded too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

from rho_wasm.schema_patterns import NS_PER_MATCH, pattern_ns_per_char

__all__ = ["CostNode", "ErrorCounter", "Profile", "TooMuchError", "WorkCounter", "profile"]

_NS_NODE: Final = 40
_NS_KEY: Final = 70
_NS_NAME: Final = 140  # One name of ``required``.
_NS_CHOICE: Final = 60  # One value in a ``const`` or an ``enum`` that holds lists or maps.
_NS_STEP: Final = 200
_NS_FLOAT_STEP: Final = 3_000  # ``multipleOf`` with a fraction, and with one of 1e300.
_NS_HUGE_STEP: Final = 60_000
_NS_UNIQUE: Final = 130  # Hashing or comparing one value; up to 15 elements are compared pair by pair.
_NS_CONTENT_CHAR: Final = 40
_PAIRWISE: Final = 15
_UNEVALUATED_FACTOR: Final = 3  # What is below it is evaluated again, at every level.

_NS_ERROR: Final = 30_000
_NS_COPIED: Final = 250  # An error holds a copy of the value it is about.
_NS_COPIED_CHAR: Final = 20
_NS_CHOICE_COPIED: Final = 4_000

_MAX_NESTED: Final = 400  # Python's stack holds twice that.
_CHOICES: Final = ("const", "enum")
_NAMES: Final = ("dependencies", "dependentRequired", "required")
_CONTENT: Final = ("contentEncoding", "contentMediaType")


class TooMuchError(Exception):
    """Counting was stopped: there is too much to look at, or it costs too much already."""


@dataclass(slots=True, eq=False)
class CostNode:
    """One sub-schema: what it does itself, and which others it applies to what."""

    here: list[CostNode] = field(default_factory=list)
    branches: list[CostNode] = field(default_factory=list)
    """``anyOf`` and ``oneOf``: the errors of all are kept if none is valid."""
    properties: dict[str, CostNode] = field(default_factory=dict)
    values: list[CostNode] = field(default_factory=list)
    others: list[CostNode] = field(default_factory=list)
    """For values whose keys ``properties`` does not name."""
    keys: list[CostNode] = field(default_factory=list)
    elements: list[CostNode] = field(default_factory=list)
    factor: int = 1
    assertions: int = 0
    names: int = 0
    choices: int = 0
    unique: bool = False
    step: float | None = None
    ns_char: int = 0
    key_patterns: int = 0
    ns_key_char: int = 0

    def read(self, schema: Mapping[str, Any]) -> None:
        """Takes what ``schema`` itself asks for; its edges are set by who knows where they lead."""
        self.assertions = len(schema)
        for keyword, value in schema.items():
            if keyword in _CHOICES:
                self.choices += _values(value)
            elif keyword in _NAMES:
                self.names += _values(value)
            elif keyword == "pattern" and type(value) is str:
                self.ns_char += pattern_ns_per_char(value)
            elif keyword == "patternProperties" and isinstance(value, Mapping):
                self.key_patterns = len(value)
                self.ns_key_char = sum(map(pattern_ns_per_char, value))
            elif keyword in _CONTENT:
                self.ns_char += _NS_CONTENT_CHAR
            elif keyword == "uniqueItems":
                self.unique = value is True
            elif keyword == "multipleOf" and type(value) in (int, float):
                self.step = value
            elif keyword.startswith("unevaluated"):
                self.factor = _UNEVALUATED_FACTOR

    def children(self) -> Iterator[CostNode]:
        yield from chain(self.here, self.branches, self.properties.values())
        yield from chain(self.values, self.others, self.keys, self.elements)

    @property
    def leaf_ns(self) -> int | None:
        """What it costs for every value, if that is the same for all."""
        edges = next(self.children(), None)
        own = self.names or self.choices or self.unique or self.ns_char or self.key_patterns
        return _NS_NODE if edges is None and not own and self.step is None else None

    @property
    def ns_per_key(self) -> int:
        """Beside the sub-schemas it applies."""
        lookups = _NS_KEY if self.properties or self.values or self.others else 0
        return lookups + (_NS_NAME if self.names else 0) + NS_PER_MATCH * self.key_patterns


def _values(data: Any) -> int:
    inner = data.values() if isinstance(data, Mapping) else data if isinstance(data, (list, tuple)) else ()
    return 1 + (len(data) // 64 if isinstance(data, str) else sum(map(_values, inner)))


# -- every instance


class Profile(NamedTuple):
    """Bounds that hold for every instance: the sum over its values and keys, and over the characters of its texts."""

    by_depth: list[int]
    """Nanoseconds for one value (or key) so many levels below the value that the schema is applied to."""
    chars_by_depth: list[int]
    everywhere: int = 0
    """Nanoseconds for any value below."""
    chars_everywhere: int = 0

    def most(self) -> tuple[int, int]:
        """Nanoseconds at most for each value or key of an instance, and for each character."""
        return (
            max(self.by_depth, default=0) + self.everywhere,
            max(self.chars_by_depth, default=0) + self.chars_everywhere,
        )


def profile(node: CostNode, known: dict[CostNode, Profile]) -> Profile:
    """Of a schema that is not recursive."""
    if node in known:
        return known[node]
    here = [profile(child, known) for child in (*node.here, *node.branches)]
    named = [profile(child, known) for child in node.properties.values()]
    others = [profile(child, known) for child in (*node.values, *node.others, *node.keys)]
    elements = [profile(child, known) for child in node.elements]
    own = _NS_NODE + _NS_CHOICE * node.choices
    if node.step is not None:
        own += _NS_HUGE_STEP
    if node.names:
        own += _NS_NAME
    inner = _added([_highest([p.by_depth for p in named]), *(p.by_depth for p in others), [node.ns_per_key]])
    inner[0] = (inner[0] + 1) // 2  # A key and its value are two.
    inner = _added([inner, *(p.by_depth for p in elements)])
    inner_chars = _added(
        [
            _highest([p.chars_by_depth for p in named]),
            *(p.chars_by_depth for p in (*others, *elements)),
            [node.ns_key_char],
        ]
    )
    parts = (*here, *named, *others, *elements)
    unique = _NS_UNIQUE * _PAIRWISE if node.unique else 0
    known[node] = Profile(
        [node.factor * ns for ns in _added([[own, *inner], *(p.by_depth for p in here)])],
        [node.factor * ns for ns in _added([[node.ns_char, *inner_chars], *(p.chars_by_depth for p in here)])],
        node.factor * (unique + sum(p.everywhere for p in parts)),
        node.factor * ((_PAIRWISE if unique else 0) + sum(p.chars_everywhere for p in parts)),
    )
    return known[node]


def _added(rows: list[list[int]]) -> list[int]:
    total = [0] * max(map(len, rows), default=0)
    for row in rows:
        for index, number in enumerate(row):
            total[index] += number
    return total


def _highest(rows: list[list[int]]) -> list[int]:
    top = [0] * max(map(len, rows), default=0)
    for row in rows:
        for index, number in enumerate(row):
            top[index] = max(top[index], number)
    return top


# -- one instance


class _Counter:
    """Looks at no more than ``looks`` schemas, values and keys together, then raises :class:`TooMuchError`."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self._sizes: dict[int, tuple[int, int]] = {}
        self._inside: set[tuple[int, int]] = set()

    def look(self, number: int) -> None:
        self._looks -= number
        if self._looks < 0:
            raise TooMuchError

    def enter(self, pair: tuple[int, int]) -> None:
        if len(self._inside) > _MAX_NESTED:
            raise TooMuchError
        self._inside.add(pair)

    def size(self, value: Any) -> tuple[int, int]:
        """Values, keys and characters in ``value``."""
        if isinstance(value, str):
            return 1, len(value)
        if not isinstance(value, (dict, list)):
            return 1, 0
        if id(value) not in self._sizes:
            self.look(len(value))
            self.enter((0, id(value)))
            items, chars = (len(value) + 1, sum(map(len, value))) if isinstance(value, dict) else (1, 0)
            for part in value.values() if isinstance(value, dict) else value:
                more, longer = self.size(part)
                items += more
                chars += longer
            self._inside.discard((0, id(value)))
            self._sizes[id(value)] = items, chars
        return self._sizes[id(value)]

    def below(self, node: CostNode, value: Any) -> Iterator[tuple[CostNode, Any]]:
        """The schemas that ``node`` applies to keys, values and elements of ``value``."""
        if isinstance(value, dict):
            if node.properties:
                self.look(len(value))
                for key in value.keys() & node.properties.keys():
                    yield node.properties[key], value[key]
            for child in node.others:
                self.look(len(value))
                for key in value.keys() - node.properties.keys():
                    yield child, value[key]
            for children, parts in ((node.values, value.values()), (node.keys, value)):
                for child in children:
                    self.look(len(value))
                    for part in parts:
                        yield child, part
        elif isinstance(value, list):
            for child in node.elements:
                self.look(len(value))
                for part in value:
                    yield child, part


class WorkCounter(_Counter):
    """Nanoseconds that evaluating may take, no more than ``most``: beyond it raises :class:`TooMuchError`."""

    def __init__(self, *, most: int, looks: int) -> None:
        super().__init__(looks)
        self._most = most
        self._known: dict[tuple[int, int], int] = {}

    def count(self, node: CostNode, value: Any) -> int:
        leaf = node.leaf_ns
        if leaf is not None:
            return leaf
        pair = (id(node), id(value))
        if pair in self._inside:
            return _NS_NODE
        if pair not in self._known:
            self.look(1 + len(node.here) + len(node.branches))
            self.enter(pair)
            total = self._own(node, value)
            for child in (*node.here, *node.branches):
                total += self.count(child, value)
            for child, part in self.below(node, value):
                total += self.count(child, part)
                if total > self._most:
                    raise TooMuchError
            self._inside.discard(pair)
            self._known[pair] = total * node.factor
        if self._known[pair] > self._most:
            raise TooMuchError
        return self._known[pair]

    def _own(self, node: CostNode, value: Any) -> int:
        if isinstance(value, str):
            match = NS_PER_MATCH if node.ns_char else 0
            return _NS_NODE + _NS_CHOICE * node.choices + match + node.ns_char * len(value)
        if isinstance(value, dict):
            if node.ns_key_char:
                self.look(len(value))
            ns = _NS_NODE + _NS_CHOICE * node.choices + node.ns_per_key * len(value)
            # A missing name ends the search, so no more are looked up than there are keys.
            ns += _NS_NAME if node.names else 0
            return ns + (node.ns_key_char * sum(map(len, value)) if node.ns_key_char else 0)
        if isinstance(value, list):
            ns = _NS_NODE + _NS_CHOICE * node.choices
            if node.unique:
                items, chars = self.size(value)
                times = len(value) if len(value) <= _PAIRWISE else 1
                ns += times * (_NS_UNIQUE * items + chars)
            return ns
        if node.step is not None and isinstance(value, (int, float)):
            return _NS_NODE + _NS_CHOICE * node.choices + _step_ns(node.step, value)
        return _NS_NODE + _NS_CHOICE * node.choices


def _step_ns(step: float, value: float) -> int:
    if type(step) is int and type(value) is int and max(step, abs(value)) < 2**63:
        return _NS_STEP
    usual = 1e-9 < step < 1e18 and (value == 0 or 1e-9 < abs(value) < 1e18)
    return _NS_FLOAT_STEP if usual else _NS_HUGE_STEP


class ErrorCounter(_Counter):
    """Nanoseconds that making errors may take: all of them, and the first (with those it holds)."""

    def __init__(self, *, looks: int) -> None:
        super().__init__(looks)
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def count(self, node: CostNode, value: Any) -> tuple[int, int]:
        pair = (id(node), id(value))
        if pair in self._inside:
            return 0, 0
        if pair not in self._known:
            self.look(1 + len(node.here) + len(node.branches))
            items, chars = self.size(value)
            self.enter(pair)
            first = _NS_ERROR + _NS_COPIED * items + _NS_COPIED_CHAR * chars if node.assertions else 0
            first += _NS_CHOICE_COPIED * node.choices
            total = first * (node.assertions + (node.names if isinstance(value, dict) else 0))
            held = first
            for child in node.branches:
                every, _ = self.count(child, value)
                total += every
                held += every
            first = max(first, held)
            for child in node.here:
                every, one = self.count(child, value)
                total += every
                first = max(first, one)
            for child, part in self.below(node, value):
                every, one = self.count(child, part)
                total += every
                first = max(first, one)
            self._inside.discard(pair)
            self._known[pair] = total, first
        return self._known[pair]
