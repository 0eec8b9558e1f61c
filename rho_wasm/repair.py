"""Arguments that a schema refuses, made what can only have been meant: numbers in quotation marks, a list as JSON text.

Models send ``"3"`` for 3, ``null`` for an argument that they leave out, ``maxRows`` for ``max_rows``. Each is put right
where the schema leaves one reading, and told, so that the model learns of it. Where a text is allowed a text stays; a
number is taken from its canonical form alone (so "007" is none, and none loses digits); a key that nobody knows is left
out only where it says nothing, or where its tool changes nothing: elsewhere it may be the ``dry_run`` of somebody who
misspelt it. And nowhere is one left out that is written much like an argument that was not given: without its ``top`` a
list is another list. What comes of it is checked against the whole schema afterwards, as any arguments are.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from rho_wasm.json_arguments import Unreadable, read_json
from rho_wasm.schema_graph import pointed
from rho_wasm.spelling import near_ones
from rho_wasm.untrusted import inert

__all__ = ["MAX_LOOKS", "TooMuch", "repaired"]

MAX_LOOKS: Final = 5_000
"""Some 20 ms of work: each value, and each name and each option of a schema that is read for it, is one look."""
_MAX_DEPTH: Final = 32
_MAX_OPTIONS: Final = 16
_MAX_JSON_CHARS: Final = 64 * 1024
_MAX_NOTES: Final = 8
_CHARS_A_LOOK: Final = 64
_SHOWN_CHARS: Final = 40
_SHOWN_KEYS: Final = 20

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS: Final[Mapping[str, tuple[str, Any]]] = {
    "true": ("boolean", True),
    "True": ("boolean", True),
    "false": ("boolean", False),
    "False": ("boolean", False),
    "null": ("null", None),
}
_ANNOTATIONS: Final = frozenset({"$comment", "default", "deprecated", "description", "examples", "title"})
_CHOICES: Final = ("anyOf", "oneOf")
_APPLIED_TOO: Final = frozenset({"$dynamicRef", "$ref", "allOf", "else", "if", "not", "then", *_CHOICES})
_MORE_KEYS: Final = frozenset({"dependentSchemas", "patternProperties", "unevaluatedProperties"})


class TooMuch(Exception):
    """There is more than may be looked through."""


def repaired(
    arguments: dict[str, Any], schema: Mapping[str, Any], *, reads_only: bool = False, looks: int = MAX_LOOKS
) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """``arguments`` (plain data) nearer to ``schema``, and a note of each change; None where nothing can be said.

    ``reads_only``: the tool changes nothing, so a key that its schema does not know may be left out. No more than
    64 KiB of texts are read as JSON. Raises :class:`TooMuch` for arguments that are deeper than 32, or that take more
    than ``looks`` at them and at the schema, whichever of the two is the large one.
    """
    repairer = _Repairer(schema, reads_only=reads_only, looks=looks)
    mended = repairer.value(arguments, schema, "", _MAX_DEPTH)
    if not repairer.notes or type(mended) is not dict:
        return None
    shown = repairer.notes[:_MAX_NOTES]
    if more := len(repairer.notes) - len(shown):
        shown.append(f"and {more} more")
    return mended, tuple(shown)


class _Repairer:
    def __init__(self, root: Mapping[str, Any], *, reads_only: bool, looks: int) -> None:
        self.notes: list[str] = []
        self._root = root
        self._reads_only = reads_only
        self._looks = looks
        self._objects: dict[int, _Object] = {}
        self._json_chars = _MAX_JSON_CHARS

    def value(self, given: Any, schema: Any, path: str, depth: int) -> Any:
        self._look()
        if not depth:
            raise TooMuch
        options = tuple(self._options(schema))
        kinds = _kinds(options)
        if not kinds:
            return given
        if type(given) is str and "string" not in kinds:
            given = self._from_text(given, kinds, path)
        if type(given) is dict and (option := _only("object", options)) is not None:
            return self._object(given, option, path, depth)
        if type(given) is list and (option := _only("array", options)) is not None:
            items = option.get("items")
            if isinstance(items, Mapping) and "prefixItems" not in option:
                return [self.value(item, items, f"{path}[{n}]", depth - 1) for n, item in enumerate(given)]
        return given

    def _look(self, times: int = 1) -> None:
        self._looks -= times
        if self._looks < 0:
            raise TooMuch

    def _from_text(self, text: str, kinds: frozenset[str], path: str) -> Any:
        shown = f'the text "{inert(text, limit=_SHOWN_CHARS)}" was taken as'
        number = _number(text, kinds)
        if number is not None:
            self._note(path, f"{shown} the number; send numbers without quotation marks")
            return number
        word = _WORDS.get(text)
        if word is not None and word[0] in kinds:
            self._note(path, f"{shown} {json.dumps(word[1])}; send it without quotation marks")
            return word[1]
        if text.lstrip()[:1] in ("{", "[") and len(text) <= self._json_chars:
            self._json_chars -= len(text)
            self._look(len(text) // _CHARS_A_LOOK)
            try:
                value, notes = read_json(text)
            except Unreadable:
                return text
            wanted = "object" if type(value) is dict else "array"
            if wanted in kinds:
                what = "an object" if wanted == "object" else "a list"
                self._note(path, f"JSON in a text was taken as {what}; send it without quotation marks")
                for note in notes:
                    self._note(path, note)
                return value
        return text

    def _object(self, given: dict[str, Any], option: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
        about = self._about(option)
        known, others = about.known, about.others
        names = None
        if about.closed and any(key not in known for key in given):
            self._look(len(given))
            names = _Names(given, about)
        mended: dict[str, Any] = {}
        for key, item in given.items():
            self._look()
            inner = _joined(path, key)
            if key in known:
                if item is None and key not in about.required and not self._may_be_null(known[key]):
                    self._note(inner, "null was left out, as the argument is optional; leave it out yourself")
                else:
                    mended[key] = self.value(item, known[key], inner, depth - 1)
            elif names is None:
                mended[key] = self.value(item, others, inner, depth - 1) if isinstance(others, Mapping) else item
            elif (meant := names.meant(key)) is not None:
                self._note(inner, f"the unknown key was taken as {meant}; write it so")
                mended[meant] = self.value(item, known[meant], _joined(path, meant), depth - 1)
            elif (item is None or self._reads_only) and not self._is_misspelt(key, item, about, given):
                self._note(inner, f"the unknown key was left out; allowed: {about.allowed}")
            else:
                mended[key] = item
        return mended

    def _is_misspelt(self, key: str, item: Any, about: _Object, given: Mapping[str, Any]) -> bool:
        """Whether ``item`` is probably said to an argument that was not given. A null says nothing to most."""
        found = about.near.get(key)
        if found is None:
            near = near_ones(key, about.names, look=self._look)
            found = about.near[key] = (near, tuple(name for name in near if self._may_be_null(about.known[name])))
        for name in found[item is None]:
            self._look()
            if name not in given:
                return True
        return False

    def _about(self, option: Mapping[str, Any]) -> _Object:
        """What there is to know of a schema of objects, worked out once however many objects there are."""
        found = self._objects.get(id(option))
        if found is None:
            properties, required = option.get("properties"), option.get("required")
            found = _Object(
                known=properties if isinstance(properties, Mapping) else {},
                others=option.get("additionalProperties", True),
                required=frozenset(required) if isinstance(required, list) else frozenset(),
                more=any(keyword in option for keyword in _MORE_KEYS),
            )
            self._look(len(found.required))
            if found.closed:
                self._look(len(found.known))
            self._objects[id(option)] = found
        return found

    def _may_be_null(self, schema: Any) -> bool:
        kinds = _kinds(tuple(self._options(schema)))
        return not kinds or "null" in kinds

    def _options(self, schema: Any) -> Iterator[Mapping[str, Any]]:
        """The schemas of which one has to hold, none with a reference or a choice in it; an empty one for any value."""
        waiting = [schema]
        seen = 0
        while waiting:
            self._look()
            seen += 1
            schema = waiting.pop(0)
            if seen > _MAX_OPTIONS:
                yield {}
                return
            if not isinstance(schema, Mapping):
                yield {}
                continue
            self._look(len(schema) // _MAX_OPTIONS)
            applied = schema.keys() & _APPLIED_TOO
            if not applied:
                yield schema
                continue
            keyword = next(iter(applied))
            # Beside anything else that is asserted, what one of them allows is not all that counts.
            if schema.keys() - _ANNOTATIONS - {"$defs", "definitions"} != {keyword}:
                yield {}
            elif keyword == "$ref":
                waiting.append(self._target(schema["$ref"]))
            elif keyword in _CHOICES and isinstance(schema[keyword], list):
                waiting.extend(itertools.islice(schema[keyword], _MAX_OPTIONS))
            else:
                yield {}

    def _target(self, reference: Any) -> Any:
        if type(reference) is not str:
            return None
        self._look(len(reference) // _MAX_OPTIONS)
        return pointed(self._root, reference)

    def _note(self, path: str, text: str) -> None:
        self.notes.append(f"{path}: {text}" if path else text)


def _kinds(options: tuple[Mapping[str, Any], ...]) -> frozenset[str]:
    """The types that the schemas allow; none where one of them does not say."""
    kinds: set[str] = set()
    for option in options:
        said = option.get("type")
        if type(said) is str:
            kinds.add(said)
        elif isinstance(said, list) and said:
            kinds.update(said)
        else:
            return frozenset()
    return frozenset(kinds)


def _only(kind: str, options: tuple[Mapping[str, Any], ...]) -> Mapping[str, Any] | None:
    found = [option for option in options if kind in _kinds((option,))]
    return found[0] if len(found) == 1 else None


def _number(text: str, kinds: frozenset[str]) -> int | float | None:
    if kinds & {"integer", "number"} and _INTEGER.fullmatch(text) and text != "-0":
        return int(text)
    if "number" in kinds and _NUMBER.fullmatch(text):
        value = float(text)
        if math.isfinite(value) and Decimal(repr(value)) == Decimal(text):
            return value
    return None


class _Object:
    """A schema of objects. ``more``: it says of further keys what is not looked at here."""

    def __init__(self, *, known: Mapping[str, Any], others: Any, required: frozenset[str], more: bool) -> None:
        self.known = known
        self.others = others
        self.required = required
        self.closed = others is False and not more
        self.near: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        """Of each unknown key that was looked at: the known ones that are written like it, and those of them that may
        be null."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.known)

    @cached_property
    def by_fold(self) -> dict[str, str | None]:
        """The known keys by what they are but for case, hyphens and underscores; None where two of them are alike."""
        found: dict[str, str | None] = {}
        for name in self.names:
            folded = _folded(name)
            found[folded] = None if folded in found else name
        return found

    @cached_property
    def allowed(self) -> str:
        names = [inert(name, limit=_SHOWN_CHARS) for name in self.names[:_SHOWN_KEYS]]
        more = f" and {len(self.known) - _SHOWN_KEYS} more" if len(self.known) > _SHOWN_KEYS else ""
        return ", ".join(names) + more or "none"


class _Names:
    """The keys of one object, for those that its schema does not know."""

    def __init__(self, given: Mapping[str, Any], about: _Object) -> None:
        self._known = about.by_fold
        self._given = Counter(map(_folded, given))

    def meant(self, key: str) -> str | None:
        """The known key that differs only in case, hyphens and underscores, where nothing else is like it."""
        folded = _folded(key)
        return self._known.get(folded) if self._given[folded] == 1 else None


def _folded(key: str) -> str:
    return key.casefold().replace("_", "").replace("-", "")


def _joined(path: str, key: str) -> str:
    name = key if len(key) <= _SHOWN_CHARS and _NAME.fullmatch(key) else json.dumps(inert(key, limit=_SHOWN_CHARS))
    return f"{path}.{name}" if path else name
