"""Arguments (and answers) against a JSON Schema, and what is wrong with them in words that a model can act on.

The schema was written by whoever wrote the tool, so it is bounded, offline (no reference leaves it) and its patterns
run in linear time. ``format`` is an annotation, as draft 2020-12 has it by default: what a format means differs between
implementations, and a tool that needs a date must look at it anyway.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

import jsonschema_rs

from rho_wasm.errors import SchemaInvalid
from rho_wasm.frozen import thaw
from rho_wasm.schema_cost import ErrorCounter, TooMuchError, WorkCounter, profile
from rho_wasm.schema_graph import SchemaGraph
from rho_wasm.spelling import Enough, Looks, near_ones
from rho_wasm.untrusted import inert, type_name

__all__ = ["ArgumentSchema", "schema_text"]

_MAX_PROBLEMS: Final = 8
_SHOWN_CHARS: Final = 80
_PATTERN_BYTES: Final = 256 * 1024  # Of one compiled pattern; the library's default of 10 MiB holds \w{65536}.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

# Arguments are checked on the event loop. Nanoseconds of the validator, and schemas, keys and values looked at (2 µs
# each) to know before.
_MAX_NS: Final = 8_000_000
_MAX_LOOKS: Final = 5_000
# In a thread the counting disturbs nobody much; the check itself keeps the interpreter lock, and is estimated high.
_PATIENT_NS: Final = 60_000_000
_PATIENT_LOOKS: Final = 300_000
_TOO_MUCH: Final = "too deeply nested, too many or too long to be checked against the tool's schema and its patterns"
_MAX_ERRORS_NS: Final = 8_000_000
_MAX_SPELLING_LOOKS: Final = 1_000
"""Some 4 ms for what unknown keys may have been meant for, all those of one call together."""

_TYPES: Final = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "a map",
    "string": "a string",
}


def schema_text(schema: Mapping[str, Any], *, max_bytes: int = 64 * 1024) -> str:
    """``schema`` as JSON. Raises :class:`SchemaInvalid` where it is none, or more than ``max_bytes`` of it."""
    try:
        text = json.dumps(thaw(schema), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):
        raise SchemaInvalid("it holds something that JSON cannot, such as bytes, NaN or itself") from None
    if size > max_bytes:
        raise SchemaInvalid(f"it has {size} bytes as JSON, at most {max_bytes} are allowed")
    return text


class ArgumentSchema:
    """A compiled schema. Compile once, use from any thread. Not ``of_arguments``: of an answer, any value.

    ``patterns`` is how many different ones it has, ``pattern_bytes`` about what they take when compiled, 256 KiB at
    most. Raises :class:`SchemaInvalid` for a schema that is no JSON Schema, has more than ``max_bytes`` as JSON, is too
    deep or too branched, takes no map, has a pattern with look-around or back-references or patterns that are dear to
    compile, or a ``$ref`` that leaves it.
    """

    def __init__(self, schema: Mapping[str, Any], *, max_bytes: int = 64 * 1024, of_arguments: bool = True) -> None:
        self._compile(schema_text(schema, max_bytes=max_bytes), of_arguments=of_arguments)

    @classmethod
    def of_text(cls, text: str, *, of_arguments: bool = True) -> Self:
        """That of a schema which :func:`schema_text` made JSON of."""
        made = cls.__new__(cls)
        made._compile(text, of_arguments=of_arguments)
        return made

    def _compile(self, text: str, *, of_arguments: bool) -> None:
        self._of_arguments = of_arguments
        self._whole = "arguments" if of_arguments else "the answer"
        self._schema: dict[str, Any] = json.loads(text)
        # No reference needs it, and with one that names a known schema ``#/...`` would lead into that.
        self._schema.pop("$id", None)
        kinds = self._schema.get("type", "object")
        if of_arguments and kinds != "object" and (not isinstance(kinds, list) or "object" not in kinds):
            raise SchemaInvalid(f"type: arguments are a map, so it must be 'object', not {_shown(kinds)}")
        self._graph = SchemaGraph(self._schema)
        self.patterns, self.pattern_bytes = len(self._graph.patterns), self._graph.pattern_bytes
        self._most = None if self._graph.recursive else profile(self._graph.node, {}).most()
        try:
            self._validator = jsonschema_rs.validator_for(
                self._schema,
                offline=True,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES),
                validate_formats=False,
            )
            self._is_valid = self._validator.is_valid
        except jsonschema_rs.ValidationError as error:
            where = _path(error.instance_path) or "the schema"
            raise SchemaInvalid(f"{where}: {inert(error.message, limit=200)}") from None
        except (ValueError, jsonschema_rs.ReferencingError):
            raise SchemaInvalid("it cannot be compiled") from None

    def problems(self, arguments: Any, *, size: tuple[int, int] | None = None) -> tuple[str, ...]:
        """What is wrong with ``arguments`` (plain data), at most 8 lines; () if they are valid.

        A line names the place, what was given (inert and short) and what is wanted: ``days: got text "three", wanted an
        integer``. Only the first is named, or only that there is one, where finding more would take long. It may take
        part of a second to see what a check would cost, and refuses what may then take long itself: not for the event
        loop's thread. ``size`` says how many values and keys they have, and how many characters all their texts, where
        the caller knows.
        """
        found = self._problems(arguments, size, most=_PATIENT_NS, looks=_PATIENT_LOOKS)
        return (f"{self._whole}: {_TOO_MUCH}",) if found is None else found

    def problems_at_once(self, arguments: Any, *, size: tuple[int, int] | None = None) -> tuple[str, ...] | None:
        """The same, or None where it is not said within about 20 ms: then ask :meth:`problems`, in a thread."""
        if size is not None and self._most is not None and type(arguments) is dict:
            an_item, a_char = self._most
            if size[0] * an_item + size[1] * a_char <= _MAX_NS:
                try:
                    if self._is_valid(arguments):
                        return ()
                except ValueError:
                    pass
        return self._problems(arguments, size, most=_MAX_NS, looks=_MAX_LOOKS)

    def _problems(
        self, arguments: Any, size: tuple[int, int] | None, *, most: int, looks: int
    ) -> tuple[str, ...] | None:
        instance = arguments
        if type(arguments) is not dict and self._of_arguments:
            if not isinstance(arguments, Mapping):
                return (f"arguments: got {_shown(arguments)}, wanted a map",)
            instance = thaw(arguments)
        if not self._fits(instance, size):
            try:
                WorkCounter(most=most, looks=looks).count(self._graph.node, instance)
            except TooMuchError:
                return None
        try:
            if self._is_valid(instance):
                return ()
            errors = self._errors(instance)
        except ValueError:
            return (_not_json(instance) or f"{self._whole}: something in it JSON cannot say",)
        spelling = Looks(_MAX_SPELLING_LOOKS)
        lines = dict.fromkeys(line for error in errors for line in self._lines(error, instance, spelling))
        return tuple(itertools.islice(lines, _MAX_PROBLEMS)) or (f"{self._whole}: no match for the tool's schema",)

    def _fits(self, instance: Any, size: tuple[int, int] | None) -> bool:
        if self._most is None:
            return False
        items, chars = _size(instance) if size is None else size
        an_item, a_char = self._most
        return items * an_item + chars * a_char <= _MAX_NS

    def _errors(self, instance: Any) -> Iterable[jsonschema_rs.ValidationError]:
        try:
            every, first = ErrorCounter(looks=_MAX_LOOKS).count(self._graph.node, instance)
        except TooMuchError:
            return ()
        if every <= _MAX_ERRORS_NS:
            return self._validator.iter_errors(instance)
        if first <= _MAX_ERRORS_NS:
            try:
                self._validator.validate(instance)
            except jsonschema_rs.ValidationError as error:
                return (error,)
        return ()

    def _lines(self, error: jsonschema_rs.ValidationError, instance: Any, spelling: Looks) -> Iterable[str]:
        parent = _follow(self._schema, error.schema_path[:-1])
        place = error.instance_path
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.Required(name):
                wanted = _wanted_by(_follow(parent, ["properties", name]))
                yield f"{_path([*place, name])}: missing" + (f", wanted {wanted}" if wanted else "")
            case jsonschema_rs.ValidationErrorKind.AdditionalProperties(
                names
            ) | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties(names):
                allowed = _follow(parent, ["properties"])
                known = _list(sorted(allowed), most=20) if isinstance(allowed, dict) and allowed else "none"
                for name in names[:_MAX_PROBLEMS]:
                    meant = _meant(name, allowed, _follow(instance, place), spelling)
                    yield f"{_path([*place, name])}: unknown key, {meant}allowed: {known}"
            case kind:
                given = _shown(_follow(instance, place))
                yield f"{_path(place) or self._whole}: got {given}, wanted {_wanted(kind, parent)}"


def _meant(name: str, allowed: Any, given: Any, looks: Looks) -> str:
    """What an unknown key was probably meant for, of what is allowed and was not given; nothing if that is unclear."""
    if not isinstance(allowed, dict) or not isinstance(given, dict):
        return ""
    try:
        near = near_ones(name, (each for each in allowed if each not in given), look=looks)
    except Enough:
        return ""
    return f"did you mean '{inert(near[0], limit=40)}'? " if near else ""


def _size(value: Any) -> tuple[int, int]:
    items, chars = 1, 0
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, dict):
            items += 2 * len(value)
            chars += sum(map(len, value))
            waiting.extend(value.values())
        elif isinstance(value, list):
            items += len(value)
            waiting.extend(value)
    return items, chars


def _follow(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _path(steps: Sequence[str | int]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _NAME.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(inert(step, limit=40), ensure_ascii=False)}]"
    return inert(text, limit=200)


def _shown(value: Any) -> str:
    """What was given, in words: its type, and the value itself where that is short."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f'text "{inert(value, limit=_SHOWN_CHARS)}"'
    if isinstance(value, int):
        return f"the integer {value}" if value.bit_length() <= 128 else "an integer of more than 128 bits"
    if isinstance(value, float):
        return f"the number {value}"
    if isinstance(value, (list, dict)):
        return f"a {'list' if isinstance(value, list) else 'map'} of {len(value)}"
    return f"{len(value)} bytes" if isinstance(value, bytes) else type_name(value)


def _json(value: Any) -> str:
    return inert(json.dumps(value, ensure_ascii=False, default=str), limit=_SHOWN_CHARS)


def _list(values: Sequence[Any], *, most: int) -> str:
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(v if isinstance(v, str) and _NAME.fullmatch(v) else _json(v) for v in values[:most]) + more


def _wanted_by(schema: Any) -> str:
    """What a schema wants, if a few words say it; else an empty text."""
    if not isinstance(schema, dict):
        return ""
    if "enum" in schema and isinstance(schema["enum"], list):
        return "one of " + _choices(schema["enum"])
    if "const" in schema:
        return _json(schema["const"])
    if "type" in schema:
        return _types(schema["type"])
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            words = [_wanted_by(option) for option in options[:_MAX_PROBLEMS]]
            return " or ".join(dict.fromkeys(words)) if all(words) else ""
    return ""


def _choices(values: Sequence[Any]) -> str:
    more = f" and {len(values) - 20} more" if len(values) > 20 else ""
    return ", ".join(map(_json, values[:20])) + more


def _types(types: Any) -> str:
    return " or ".join(
        _TYPES.get(name, inert(str(name), limit=40)) for name in ([types] if isinstance(types, str) else types)
    )


_WANTED: Final[Mapping[str, Callable[[Any], str]]] = {
    "const": _json,
    "enum": lambda values: "one of " + _choices(values),
    "exclusiveMaximum": lambda limit: f"less than {limit}",
    "exclusiveMinimum": lambda limit: f"more than {limit}",
    "maxItems": lambda limit: f"at most {limit} elements",
    "maxLength": lambda limit: f"at most {limit} characters",
    "maxProperties": lambda limit: f"at most {limit} keys",
    "maximum": lambda limit: f"at most {limit}",
    "minItems": lambda limit: f"at least {limit} elements",
    "minLength": lambda limit: f"at least {limit} characters",
    "minProperties": lambda limit: f"at least {limit} keys",
    "minimum": lambda limit: f"at least {limit}",
    "multipleOf": lambda step: f"a multiple of {step}",
    "pattern": lambda pattern: f"text that matches {inert(pattern, limit=_SHOWN_CHARS)}",
    "type": _types,
    "uniqueItems": lambda _: "elements that all differ",
}


def _wanted(kind: jsonschema_rs.ValidationErrorKind, parent: Any) -> str:
    keyword = kind.name
    if isinstance(parent, dict) and keyword in parent and keyword in _WANTED:
        return _WANTED[keyword](parent[keyword])
    if keyword in ("anyOf", "oneOf"):
        one = "exactly one" if keyword == "oneOf" else "one"
        return _wanted_by(parent) or f"what {one} of the alternatives in the schema allows"
    return f"what {inert(keyword, limit=40)!r} in the schema allows"


def _not_json(instance: Any) -> str:
    """Where a value stands that JSON Schema has no type for: bytes, which a model cannot write in JSON anyway."""
    waiting: list[tuple[Any, tuple[str | int, ...]]] = [(instance, ())]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((item, (*path, key)) for key, item in value.items())
        elif isinstance(value, list):
            waiting.extend((item, (*path, index)) for index, item in enumerate(value))
        elif value is not None and not isinstance(value, (bool, int, float, str)):
            return f"{_path(path)}: got {_shown(value)}, wanted what JSON can say: text, a number, a list, a map"
    return ""
