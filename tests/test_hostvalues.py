"""Values of the host made plain, and the ways in which they try to run code on the way."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, deque, namedtuple
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from rho_wasm import plain
from rho_wasm.errors import NotPlain, TooLarge
from rho_wasm.frozen import freeze


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    HIGH = 3


class Mode(enum.StrEnum):
    FAST = "fast"


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    x: int
    y: tuple[int, ...] = (1, 2)


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    when: datetime.date


class Text(str):
    __slots__ = ()


Pair = namedtuple("Pair", "a b")


def function() -> None: ...


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("value", "made"),
    [
        (None, None),
        (True, True),
        (2**64, str(2**64)),
        (b"a", b"a"),
        (bytearray(b"a"), b"a"),
        (memoryview(b"abc")[1:], b"bc"),
        ((1, (2,)), [1, [2]]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (deque([1]), [1]),
        (Pair(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (freeze({"a": [1]}), {"a": [1]}),
        (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Slotted(1), {"x": 1, "y": [1, 2]}),
        (Model(name="a", when=datetime.date(2024, 2, 29), more=(1,)), {"name": "a", "when": "2024-02-29", "more": [1]}),
        (Text("a"), "a"),
        (Level.HIGH, 3),
        (Mode.FAST, "fast"),
        (Colour.RED, "RED"),
        (Colour.BLUE, "blue"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05+00:00"),
        (datetime.datetime(2024, 1, 2, tzinfo=zoneinfo.ZoneInfo("UTC")), "2024-01-02T00:00:00+00:00"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),
        (datetime.time(3, 4), "03:04:00"),
        (datetime.timedelta(seconds=90), "0:01:30"),
        (decimal.Decimal("12.50"), "12.50"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (function, "function"),
        (len, "len"),
        (functools.partial(function), "function"),
        ([].append, "append"),
        (Point, "Point"),
        (object(), "<object>"),
        (range(3), "<range>"),
        (1j, "<complex>"),
        (ValueError("a"), "<ValueError>"),
        ("a\ud800b", "a\ufffdb"),
        (
            {1: "a", None: "b", False: "c", 2.5: "d", Mode.FAST: "e"},
            {"1": "a", "null": "b", "false": "c", "2.5": "d", "fast": "e"},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_becomes_plain(value: Any, made: Any) -> None:
    result = plain.plain(value)
    assert result == made
    assert plain.decode(plain.encode(result)) == result


def test_the_result_is_a_copy() -> None:
    value = {"a": [1]}
    made = plain.plain(value)
    made["a"].append(2)
    assert value == {"a": [1]}


def test_a_cycle_is_not_plain_but_a_value_in_two_places_is() -> None:
    loop: list[Any] = []
    loop.append({"a": (loop,)})
    with pytest.raises(NotPlain, match="contains itself"):
        plain.plain(loop)
    point = Point(1)
    point.y = point
    with pytest.raises(NotPlain, match="contains itself"):
        plain.plain(point)
    twice = [1]
    assert plain.plain([twice, twice]) == [[1], [1]]


def test_a_value_that_unfolds_without_end_is_too_large() -> None:
    value: Any = [0] * 10
    for _ in range(20):
        value = [value] * 10
    with pytest.raises(TooLarge, match="items"):
        plain.plain(value)


def test_depth_and_items_are_bounded_as_in_the_encoder() -> None:
    assert plain.plain([[1]], max_depth=2) == [[1]]
    with pytest.raises(TooLarge, match="depth"):
        plain.plain([[[1]]], max_depth=2)
    assert plain.plain({"a": [1]}, max_items=4)
    with pytest.raises(TooLarge, match="items"):
        plain.plain({"a": [1]}, max_items=3)


def test_two_keys_of_one_text_are_not_plain() -> None:
    with pytest.raises(NotPlain, match="'1'"):
        plain.plain({1: "a", "1": "b"})


@pytest.mark.parametrize("key", [(1, 2), b"a", frozenset()])
def test_keys_that_have_no_text_are_not_plain(key: Any) -> None:
    with pytest.raises(NotPlain, match="keys of maps are text"):
        plain.plain({key: 1})


def test_an_endless_integer_is_not_plain() -> None:
    with pytest.raises(NotPlain, match="bits"):
        plain.plain(1 << 10_000)


def test_a_dataclass_slot_that_was_never_set_is_left_out() -> None:
    point = Slotted.__new__(Slotted)
    assert plain.plain(point) == {}


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.dates() | st.decimals(),
        lambda v: st.lists(v) | st.sets(st.integers()) | st.dictionaries(st.text(), v) | st.tuples(v),
    )
)
@settings(max_examples=25)
def test_what_was_made_plain_encodes_and_stays_as_it_is(value: Any) -> None:
    made = plain.plain(value)
    assert plain.encode(made)
    assert plain.plain(made) == made


# -- nothing of a foreign object runs


def ran(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("foreign code ran")


class HostileMeta(type):
    __instancecheck__ = __subclasscheck__ = __eq__ = __iter__ = __repr__ = __str__ = ran
    __hash__ = type.__hash__
    __name__ = property(ran)
    __mro__ = property(ran)

    def __getattribute__(cls, name: str) -> NoReturn:
        ran()


HOOKS = """__repr__ __str__ __format__ __eq__ __ne__ __lt__ __iter__ __len__ __bool__ __int__ __index__ __float__
    __bytes__ __getitem__ __contains__ __call__ __fspath__ __getattribute__ __getattr__ __reduce__ __reduce_ex__
    __reversed__ items keys values get copy isoformat utcoffset tzname replace encode"""


def hostile(*bases: type, **more: Any) -> Any:
    """A class whose every hook raises, down to its metaclass."""
    namespace = dict.fromkeys(HOOKS.split(), ran) | {
        "__class__": property(ran),
        "__hash__": object.__hash__ if not bases else bases[0].__hash__,
    }
    return HostileMeta("Hostile", bases, namespace | more)


def make(kind: Any, *arguments: Any) -> Any:
    base = next(base for base in type.__dict__["__mro__"].__get__(kind) if type(base) is type)
    return base.__new__(kind, *arguments)


def test_a_hostile_object_becomes_its_class_name() -> None:
    assert plain.plain([make(hostile())]) == ["<Hostile>"]
    assert plain.plain(make(hostile(__dict__=property(ran)))) == "<Hostile>"
    assert plain.plain(hostile()) == "Hostile"


@pytest.mark.parametrize(
    ("base", "arguments", "made"),
    [
        (str, ("a",), "a"),
        (int, (7,), 7),
        (float, (1.5,), 1.5),
        (bytes, (b"a",), b"a"),
        (tuple, ((1, 2),), [1, 2]),
        (frozenset, ((1, 2),), [1, 2]),
        (decimal.Decimal, ("1.5",), "1.5"),
        (datetime.datetime, (2024, 1, 2), "2024-01-02T00:00:00"),
        (datetime.date, (2024, 1, 2), "2024-01-02"),
        (datetime.timedelta, (1,), "1 day, 0:00:00"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_hostile_subclass_becomes_its_plain_kin(base: type, arguments: tuple[Any, ...], made: Any) -> None:
    value = make(hostile(base), *arguments)
    assert plain.plain([value]) == [made]
    result = plain.plain(value)
    assert type(result) in (str, int, float, bytes, list)


def test_hostile_containers_are_read_without_their_methods() -> None:
    mapping = make(hostile(dict))
    dict.update(mapping, {"a": 1})
    assert plain.plain(mapping) == {"a": 1}
    items = make(hostile(list))
    list.extend(items, [1, 2])
    assert plain.plain(items) == [1, 2]
    members = make(hostile(set))
    set.update(members, {1})
    assert plain.plain(members) == [1]


def test_a_model_or_dataclass_with_hostile_attributes_is_read_from_its_fields() -> None:
    class Sly(BaseModel):
        name: str

        def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
            ran()

        def __getattribute__(self, name: str) -> Any:
            ran()

    assert plain.plain(Sly.model_construct(name="a")) == {"name": "a"}

    @dataclasses.dataclass
    class Trap:
        x: int

        def __getattribute__(self, name: str) -> Any:
            ran()

    assert plain.plain(Trap(1)) == {"x": 1}

    @dataclasses.dataclass
    class Veiled:
        x: int
        __dict__ = property(ran)

    assert plain.plain(Veiled(1)) in ({}, {"x": 1})


def test_keys_that_compare_by_code_of_their_own_are_not_compared() -> None:
    class Key(str):
        __slots__ = ()
        armed = False

        def __hash__(self) -> int:
            return str.__hash__(self)

        def __eq__(self, other: object) -> bool:
            if Key.armed:
                ran()
            return str.__eq__(self, other)

    point = Point(1)
    point.__dict__[Key("__dict__")] = 1
    kind = type("Keyed", (), {Key("__dataclass_fields__"): {"x": 1}, Key("__dict__"): 1})
    Key.armed = True
    try:
        assert plain.plain(point) == {"x": 1, "y": None}
        assert plain.plain(kind()) == "<Keyed>"
        assert plain.plain({Key("a"): 1}) == {"a": 1}
    finally:
        Key.armed = False


def test_a_foreign_time_zone_is_not_asked() -> None:
    class Zone(datetime.tzinfo):
        utcoffset = tzname = dst = ran

    assert plain.plain(datetime.datetime(2024, 1, 2, tzinfo=Zone())) == "<datetime>"
    assert plain.plain(datetime.time(3, tzinfo=Zone())) == "<time>"


def test_a_uuid_with_a_foreign_number_is_not_formatted() -> None:
    value = uuid.UUID(int=1)
    object.__setattr__(value, "int", make(hostile(int), 1))
    assert plain.plain(value) == "<UUID>"


def test_a_foreign_callable_behind_a_partial_or_a_method_is_named_by_its_class() -> None:
    kind = hostile()
    assert plain.plain(functools.partial(make(kind))) == "<Hostile>"
    assert plain.plain(types.MethodType(make(kind), 1)) == "<Hostile>"


def test_a_hostile_name_is_inert_and_bounded() -> None:
    kind = type("\x1b[31m" + "x" * 1000, (), {})
    assert len(plain.plain(kind())) <= 130
    assert plain.plain(kind()).isprintable()
    function_ = types.FunctionType((lambda: None).__code__, {}, "\u202e" * 500)
    assert plain.plain(function_).isprintable()


@pytest.mark.parametrize("slot", ["_str", "_drv", "_root", "_parts", "_raw_paths", "_tail_cached"])
def test_what_somebody_put_into_a_paths_slots_is_never_asked(slot: str) -> None:
    asked: list[str] = []

    class Sly(str):
        __slots__ = ()

        def __len__(self) -> int:
            asked.append("len")
            return 1

        def encode(self, *_: object, **__: object) -> bytes:
            asked.append("encode")
            return b""

        def isascii(self) -> bool:
            asked.append("isascii")
            return False

    path = pathlib.PurePosixPath("a/b")
    try:
        setattr(path, slot, [Sly("x")] if slot in ("_parts", "_raw_paths", "_tail_cached") else Sly("x"))
    except AttributeError:
        return  # Another Python has other slots.
    assert type(plain.plain(path)) is str
    assert asked == []


def test_what_nobody_awaited_or_ran_through_is_no_answer() -> None:
    async def later() -> None: ...

    waiting = later()
    for unfinished in (waiting, (n for n in range(3))):
        with pytest.raises(NotPlain, match="awaited"):
            plain.plain({"a": unfinished})
    waiting.close()
