"""From a type annotation to a form: its JSON Schema, and how an argument that fits it becomes a value of that type.

What is done here when a tool is loaded is done with few steps of the standard library's: code that runs changes itself
as it adapts, and each page that loading changes is one that every call pays for.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

__all__ = ["ArgumentError", "Form", "FormError", "Forms", "Reader", "or_none"]

Reader = Callable[[Any], Any]

_LISTS = frozenset(
    {
        list,
        collections.abc.Collection,
        collections.abc.Iterable,
        collections.abc.MutableSequence,
        collections.abc.Sequence,
    }
)
_MAPS = frozenset({dict, collections.abc.Mapping, collections.abc.MutableMapping})
_UNIONS = (Union, types.UnionType)
_SUPPORTED = (
    "str, int, float, bool, bytes, None, Any, list, tuple, dict[str, ...], Literal, Optional and unions, Enum, "
    "TypedDict, dataclasses and Annotated"
)


class FormError(TypeError):
    """An annotation that no schema can be made from."""


class ArgumentError(ValueError):
    """An argument that fits its schema but is no value of its type."""


class Form:
    """``read`` is None where arguments are what they should be already; ``fits`` tells members of a union apart."""

    __slots__ = ("fits", "read", "schema")

    def __init__(self, schema: Mapping[str, Any], fits: Callable[[Any], bool], read: Reader | None = None) -> None:
        self.schema = schema
        self.fits = fits
        self.read = read


def or_none(form: Form) -> Form:
    """The same, and None."""
    read = form.read
    return Form(
        {"anyOf": [dict(form.schema), {"type": "null"}]},
        lambda value: value is None or form.fits(value),
        None if read is None else lambda value: None if value is None else read(value),
    )


class Forms:
    """Forms of one function's annotations, in which names are those of ``namespace``.

    ``definitions`` are the schemas of types that hold themselves.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.definitions: dict[str, Any] = {}
        self._namespace = namespace
        self._open: list[Any] = []
        self._recursive: set[Any] = set()
        self._readers: dict[Any, Reader] = {}

    def of(self, kind: Any) -> Form:
        """Raises :class:`FormError`."""
        kind = self.evaluated(kind)
        try:
            return _SIMPLE[kind]
        except (KeyError, TypeError):
            pass
        origin = getattr(kind, "__origin__", None)
        parts = getattr(kind, "__args__", ())
        if hasattr(kind, "__metadata__"):
            return self._annotated(origin, kind.__metadata__)
        if origin is Literal:
            return _literal(parts)
        if origin is Union or type(kind) is types.UnionType:
            return self._union(parts)
        if origin in _LISTS:
            return self._list(parts)
        if origin is tuple:
            return self._tuple(parts)
        if origin in _MAPS:
            return self._map(parts)
        if type(kind) is typing.NewType:
            return self.of(kind.__supertype__)
        if type(kind).__name__ == "TypeAliasType":
            return self.of(kind.__value__)
        if isinstance(kind, type):
            if issubclass(kind, enum.Enum):
                return _enum(kind)
            if dataclasses.is_dataclass(kind):
                return self._named(kind, self._dataclass)
            if typing.is_typeddict(kind):
                return self._named(kind, self._typed_dict)
        raise FormError(f"{_name(kind)} is no type that a schema can be made from; there are {_SUPPORTED}")

    def evaluated(self, kind: Any) -> Any:
        """What an annotation that is text means. Raises :class:`FormError`."""
        if type(kind) is typing.ForwardRef:
            kind = kind.__forward_arg__
        if type(kind) is not str:
            return kind
        try:
            return eval(kind, dict(self._namespace))  # noqa: S307
        except NameError as error:
            raise FormError(f"an annotation names {error.name}, which is not defined") from None
        except Exception:
            raise FormError(f"the annotation {kind!r:.80} cannot be read") from None

    def _annotated(self, kind: Any, extras: tuple[Any, ...]) -> Form:
        form = self.of(kind)
        schema = dict(form.schema)
        for extra in extras:
            if isinstance(extra, str):
                schema["description"] = extra
            elif isinstance(extra, Mapping):
                schema.update(extra)
        return Form(schema, form.fits, form.read)

    def _union(self, kinds: tuple[Any, ...]) -> Form:
        forms = [self.of(kind) for kind in kinds]

        def fits(value: Any) -> bool:
            return any(form.fits(value) for form in forms)

        def read(value: Any) -> Any:
            for form in forms:
                if form.fits(value):
                    return value if form.read is None else form.read(value)
            raise ArgumentError("fits none of its types")

        reads = read if any(form.read is not None for form in forms) else None
        return Form({"anyOf": [dict(form.schema) for form in forms]}, fits, reads)

    def _list(self, parts: tuple[Any, ...]) -> Form:
        form = self.of(parts[0])
        schema = {"type": "array", "items": dict(form.schema)} if form.schema else {"type": "array"}
        if (read := form.read) is None:
            return Form(schema, _is_list)
        return Form(schema, _is_list, lambda value: [read(item) for item in value])

    def _tuple(self, parts: tuple[Any, ...]) -> Form:
        if len(parts) == 2 and parts[1] is Ellipsis:
            form = self._list(parts[:1])
            read = form.read
            return Form(form.schema, _is_list, tuple if read is None else lambda value: tuple(read(value)))
        forms = [self.of(part) for part in parts]
        schema = {
            "type": "array",
            "prefixItems": [dict(form.schema) for form in forms],
            "minItems": len(forms),
            "maxItems": len(forms),
        }

        def read_each(value: Any) -> Any:
            return tuple(
                item if form.read is None else form.read(item) for form, item in zip(forms, value, strict=True)
            )

        return Form(schema, lambda value: _is_list(value) and len(value) == len(forms), read_each)

    def _map(self, parts: tuple[Any, ...]) -> Form:
        if self.evaluated(parts[0]) is not str:
            raise FormError(f"the keys of a map are text: dict[str, ...], not dict[{_name(parts[0])}, ...]")
        form = self.of(parts[1])
        schema: dict[str, Any] = {"type": "object"}
        if form.schema:
            schema["additionalProperties"] = dict(form.schema)
        if (read := form.read) is None:
            return Form(schema, _is_map)
        return Form(schema, _is_map, lambda value: {key: read(item) for key, item in value.items()})

    def _named(self, kind: type, make: Callable[[type], tuple[dict[str, Any], Reader | None, frozenset[str]]]) -> Form:
        """A type with fields. One that holds itself is said once, in ``definitions``, and named there."""
        reference = {"$ref": f"#/$defs/{kind.__name__}"}
        if kind in self._open:
            self._recursive.add(kind)
            return Form(reference, _is_map, lambda value: self._readers[kind](value))
        self._open.append(kind)
        try:
            schema, read, required = make(kind)
        finally:
            self._open.pop()
        names = frozenset(schema["properties"])
        self._readers[kind] = read or (lambda value: value)

        def fits(value: Any) -> bool:
            return _is_map(value) and required <= value.keys() <= names

        if kind in self._recursive:
            self.definitions[kind.__name__] = schema
            return Form(reference, fits, read)
        return Form(schema, fits, read)

    def _dataclass(self, kind: type) -> tuple[dict[str, Any], Reader | None, frozenset[str]]:
        hints = _hints(kind)
        fields = [field for field in dataclasses.fields(kind) if field.init]
        forms = {field.name: self._field(kind, field.name, hints[field.name]) for field in fields}
        schema = _object(forms)
        missing = dataclasses.MISSING
        for field in fields:
            if field.default is not missing and _is_plain(field.default):
                schema["properties"][field.name]["default"] = field.default
        required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
        if required:
            schema["required"] = required
        read = _fields_reader(forms)

        def build(value: Any) -> Any:
            return kind(**value) if read is None else kind(**read(value))

        return schema, build, frozenset(required)

    def _typed_dict(self, kind: type) -> tuple[dict[str, Any], Reader | None, frozenset[str]]:
        hints = _hints(kind)
        forms = {name: self._field(kind, name, hint) for name, hint in hints.items()}
        schema = _object(forms)
        # What a key is marked as counts: where annotations are text, the class itself has not seen it.
        marks = {name: getattr(hint, "__origin__", None) for name, hint in hints.items()}
        usual: frozenset[str] = kind.__required_keys__  # type: ignore[attr-defined]
        required = [
            name
            for name, mark in marks.items()
            if mark is typing.Required or (name in usual and mark is not typing.NotRequired)
        ]
        if required:
            schema["required"] = required
        return schema, _fields_reader(forms), frozenset(required)

    def _field(self, kind: type, name: str, hint: Any) -> Form:
        if getattr(hint, "__origin__", None) in (typing.Required, typing.NotRequired):
            (hint,) = hint.__args__
        try:
            return self.of(hint)
        except FormError as error:
            raise FormError(f"{kind.__name__}.{name}: {error}") from None


def _hints(kind: type) -> dict[str, Any]:
    """The annotations of a class and its bases, those that are text evaluated. Raises :class:`FormError`."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise FormError(f"an annotation of {kind.__name__} names {error.name}, which is not defined") from None
    except Exception:
        raise FormError(f"an annotation of {kind.__name__} cannot be read") from None


def _object(forms: Mapping[str, Form]) -> dict[str, Any]:
    properties = {name: dict(form.schema) for name, form in forms.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _fields_reader(forms: Mapping[str, Form]) -> Reader | None:
    reads = {name: form.read for name, form in forms.items() if form.read is not None}
    if not reads:
        return None

    def read(value: Any) -> Any:
        return {name: reads[name](item) if name in reads else item for name, item in value.items()}

    return read


def _is_list(value: Any) -> bool:
    return type(value) is list


def _is_map(value: Any) -> bool:
    return type(value) is dict


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool)


def _read_int(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is an integer."""
    return int(value) if type(value) is float else value


def _read_float(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _read_bytes(value: Any) -> bytes:
    """Bytes as they are; JSON has none, so there they are base64, in either alphabet."""
    if type(value) is bytes:
        return value
    text = value.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ArgumentError("is no base64") from None


def _literal(values: tuple[Any, ...]) -> Form:
    if not all(_is_plain(value) and type(value) is not float for value in values):
        raise FormError("a Literal here is of text, integers, bools and None")
    return Form({"enum": list(values)}, lambda value: _is_plain(value) and value in values)


def _enum(kind: type[enum.Enum]) -> Form:
    values = [member.value for member in kind]
    if not values or not all(_is_plain(value) for value in values):
        raise FormError(f"the members of {kind.__name__} have values that are no text or numbers")
    return Form({"enum": values}, lambda value: _is_plain(value) and value in values, kind)


def _name(kind: Any) -> str:
    return kind.__name__ if type(kind) is type else repr(kind).removeprefix("typing.")[:80]


_SIMPLE: dict[Any, Form] = {
    str: Form({"type": "string"}, lambda value: type(value) is str),
    int: Form({"type": "integer"}, lambda value: type(value) is int, _read_int),
    float: Form({"type": "number"}, lambda value: type(value) in (int, float), _read_float),
    bool: Form({"type": "boolean"}, lambda value: type(value) is bool),
    bytes: Form(
        {"type": "string", "contentEncoding": "base64"}, lambda value: type(value) in (str, bytes), _read_bytes
    ),
    None: Form({"type": "null"}, lambda value: value is None),
    type(None): Form({"type": "null"}, lambda value: value is None),
    Any: Form({}, lambda value: True),
    object: Form({}, lambda value: True),
    list: Form({"type": "array"}, _is_list),
    typing.List: Form({"type": "array"}, _is_list),  # noqa: UP006
    tuple: Form({"type": "array"}, _is_list, tuple),
    typing.Tuple: Form({"type": "array"}, _is_list, tuple),  # noqa: UP006
    dict: Form({"type": "object"}, _is_map),
    typing.Dict: Form({"type": "object"}, _is_map),  # noqa: UP006
}
_SIMPLE |= dict.fromkeys(_LISTS, _SIMPLE[list]) | dict.fromkeys(_MAPS, _SIMPLE[dict])
