"""What annotations become: a JSON Schema that the host takes, and values of the types that were asked for."""

from __future__ import annotations

import collections.abc
import enum
import typing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, Union

import pytest

from rho_wasm.schema import ArgumentSchema
from rho_wasm.toolchains.engines.python.rho._forms import ArgumentError, Form, FormError, Forms

Metres = NewType("Metres", float)


class Level(enum.Enum):
    LOW = "low"
    HIGH = 3


class Row(TypedDict):
    name: str
    level: NotRequired[Level]


class Loose(TypedDict, total=False):
    a: int


@dataclass
class Window:
    start: int
    end: float = 1.5
    tags: tuple[str, ...] = ()
    level: Level = Level.LOW
    rows: list[Row] = field(default_factory=list)


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)
    parent: Optional[Tree] = None  # noqa: UP045


@dataclass
class Odd:
    value: complex


def form(kind: Any) -> Form:
    return Forms(globals()).of(kind)


ANY: dict[str, Any] = {}
TEXT, INTEGER, NUMBER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "null"}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, TEXT),
        (int, INTEGER),
        (float, NUMBER),
        (bool, {"type": "boolean"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (None, NULL),
        (type(None), NULL),
        (Any, ANY),
        (object, ANY),
        (list, {"type": "array"}),
        (typing.List, {"type": "array"}),  # noqa: UP006
        (list[int], {"type": "array", "items": INTEGER}),
        (typing.List[int], {"type": "array", "items": INTEGER}),  # noqa: UP006
        (list[Any], {"type": "array"}),
        (collections.abc.Sequence[str], {"type": "array", "items": TEXT}),
        (typing.Iterable[str], {"type": "array", "items": TEXT}),
        (tuple, {"type": "array"}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, TEXT], "minItems": 2, "maxItems": 2}),
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (collections.abc.Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (typing.Dict[str, int], {"type": "object", "additionalProperties": INTEGER}),  # noqa: UP006
        (Literal["a", 1, None, True], {"enum": ["a", 1, None, True]}),
        (int | None, {"anyOf": [INTEGER, NULL]}),
        (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045
        (Union[str, list[int]], {"anyOf": [TEXT, {"type": "array", "items": INTEGER}]}),  # noqa: UP007
        (Level, {"enum": ["low", 3]}),
        (Metres, NUMBER),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, "how many", {"minimum": 1}], {"type": "integer", "description": "how many", "minimum": 1}),
        (Annotated[int, len], INTEGER),
        ("int", INTEGER),
        ("list[Level]", {"type": "array", "items": {"enum": ["low", 3]}}),
        (list["Level"], {"type": "array", "items": {"enum": ["low", 3]}}),
        (typing.List["Level"], {"type": "array", "items": {"enum": ["low", 3]}}),  # noqa: UP006
        (
            Row,
            {
                "type": "object",
                "properties": {"name": TEXT, "level": {"enum": ["low", 3]}},
                "additionalProperties": False,
                "required": ["name"],
            },
        ),
        (Loose, {"type": "object", "properties": {"a": INTEGER}, "additionalProperties": False}),
    ],
    ids=str,
)
def test_the_schema_of_an_annotation(kind: Any, schema: dict[str, Any]) -> None:
    assert form(kind).schema == schema
    ArgumentSchema({"type": "object", "properties": {"x": form(kind).schema}})


def test_the_schema_of_a_dataclass_has_its_defaults() -> None:
    schema = form(Window).schema
    assert schema["required"] == ["start"]
    assert schema["properties"]["end"] == {"type": "number", "default": 1.5}
    assert schema["properties"]["level"] == {"enum": ["low", 3]}


def test_a_type_that_holds_itself_is_said_once() -> None:
    forms = Forms(globals())
    found = forms.of(Tree)
    assert found.schema == {"$ref": "#/$defs/Tree"}
    schema = {"type": "object", "properties": {"tree": found.schema}, "$defs": forms.definitions}
    problems = ArgumentSchema(schema).problems({"tree": {"name": "a", "children": [{"name": 1}]}})
    assert problems
    assert found.read is not None
    tree = found.read({"name": "a", "children": [{"name": "b", "children": []}], "parent": None})
    assert tree == Tree("a", [Tree("b", [])])


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (bytes, b"ab", b"ab"),
        (bytes, "YWI", b"ab"),
        (bytes, "-_8=", b"\xfb\xff"),
        (bytes, "+/8", b"\xfb\xff"),
        (tuple, [1, 2], (1, 2)),
        (tuple[float, ...], [1, 2], (1.0, 2.0)),
        (tuple[int, Level], [1, "low"], (1, Level.LOW)),
        (list[Level], ["low", 3], [Level.LOW, Level.HIGH]),
        (dict[str, Level], {"a": 3}, {"a": Level.HIGH}),
        (Level | None, None, None),
        (Level | None, "low", Level.LOW),
        (int | str, "3", "3"),
        (float | None, 2, 2.0),
        (Window | str, {"start": 1}, Window(1)),
        (Window | str, "all", "all"),
        (Row | Window, {"start": 1, "end": 2}, Window(1, 2.0)),
        (Row | Window, {"name": "a"}, {"name": "a"}),
        (Row, {"name": "a", "level": 3}, {"name": "a", "level": Level.HIGH}),
        (Window, {"start": 1, "tags": ["a"], "level": 3}, Window(1, 1.5, ("a",), Level.HIGH)),
        (Annotated[Level, "which"], 3, Level.HIGH),
        (Annotated[list[Window], "which"], [{"start": 1.0}], [Window(1)]),
    ],
    ids=str,
)
def test_an_argument_becomes_a_value_of_its_type(kind: Any, given: Any, value: Any) -> None:
    read = form(kind).read
    assert read is not None
    found = read(given)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("kind", [str, bool, Any, list[str], dict[str, list[bool]], Literal["a"], bool | str], ids=str)
def test_what_is_right_already_is_left_alone(kind: Any) -> None:
    assert form(kind).read is None


def test_what_fits_no_member_of_a_union_is_refused() -> None:
    read = form(Window | Level).read
    assert read is not None
    given: Any
    for given in ("neither", 4, True, {"start": 1, "other": 2}, {}, []):
        with pytest.raises(ArgumentError):
            read(given)


@pytest.mark.parametrize("given", ["a", "é", "YW=I", "Y W I", "===="])
def test_text_that_is_no_base64_is_refused(given: str) -> None:
    read = form(bytes).read
    assert read is not None
    with pytest.raises(ArgumentError, match="is no base64"):
        read(given)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (complex, "complex is no type that a schema can be made from"),
        (set[int], "set[int] is no type"),
        (typing.Callable[[], None], "is no type"),
        (dict[int, str], "the keys of a map are text: dict[str, ...], not dict[int, ...]"),
        (Literal[1.5], "a Literal here is of text, integers, bools and None"),
        (Odd, "Odd.value: complex is no type"),
        (list[Odd], "Odd.value: complex is no type"),
        ("Missing", "an annotation names Missing, which is not defined"),
        (list[typing.ForwardRef("Missing")], "an annotation names Missing"),  # type: ignore[misc]
        ("1 +", "the annotation '1 +' cannot be read"),
        (3, "3 is no type"),
        (enum.Enum("Empty", {}), "the members of Empty have values"),
        (enum.Enum("Pairs", {"A": (1, 2)}), "the members of Pairs have values"),
    ],
    ids=str,
)
def test_what_no_schema_can_be_made_from_is_refused_by_name(kind: Any, said: str) -> None:
    with pytest.raises(FormError) as caught:
        form(kind)
    assert said in str(caught.value)
