"""Any value of the host made plain, without running any code of it.

A handler that an agent wrote may return an object whose ``__iter__``, ``__class__`` or ``__str__`` is its own. So types
are compared by identity along the interpreter's own list of base classes, and values are read through built-in
descriptors and unbound built-in methods, which a class cannot redefine.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import pathlib
import types
import uuid
import zoneinfo
from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel

from rho_wasm.errors import NotPlain, TooLarge
from rho_wasm.untrusted import inert, type_name

__all__ = ["plain"]

_BASES: Any = type.__dict__["__mro__"]
_NAMESPACE: Any = type.__dict__["__dict__"]
_CLASS_NAME: Any = type.__dict__["__name__"]
_TZINFO: Any = datetime.datetime.__dict__["tzinfo"]
_TIME_TZINFO: Any = datetime.time.__dict__["tzinfo"]
_UUID_INT: Any = uuid.UUID.__dict__["int"]

_CONTAINERS: Final = (list, tuple, dict, set, frozenset)
_FUNCTIONS: Final = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
_UNFINISHED: Final = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)
_PATHS: Final = (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
_OWN_ZONES: Final = (type(None), datetime.timezone, zoneinfo.ZoneInfo)
_ITERATORS: Final[tuple[tuple[type, Any], ...]] = (
    (list, list.__iter__),
    (tuple, tuple.__iter__),
    (set, set.__iter__),
    (frozenset, frozenset.__iter__),
    (collections.deque, collections.deque.__iter__),
)
_SETS: Final = (set, frozenset)
_WIDEST_INT_BITS: Final = 8_192  # Its decimal text has 2,467 digits; beyond, that text costs quadratic time.


def plain(
    value: Any, *, max_depth: int = 64, max_items: int = 100_000, wide_ints: bool = False, named: bool = True
) -> Any:
    """``value`` as exact plain data, copied.

    Maps of any ``dict`` kind, pydantic models and dataclasses become maps; lists, tuples, sets and deques lists (sets
    in a fixed order); text, numbers and bytes of a subclass their plain kin; enumerations their value if that is text,
    else their name; dates, times and durations, UUIDs, decimals and paths text; callables and classes their name;
    integers beyond plain data's range their digits (with ``wide_ints`` they stay); lone surrogates U+FFFD. Anything
    else becomes its class's name in angle brackets: nothing of it can be read without running it. Without ``named``
    what would be a mere name is refused.

    Raises :class:`NotPlain` for a cycle, for a coroutine or generator that nobody finished, for an integer of more
    than 8,192 bits, for keys that have no text or the same text, and :class:`TooLarge` beyond ``max_depth`` nested
    lists and maps or ``max_items`` items (counted as :func:`rho_wasm.plain.encode` does).
    """
    return _Maker(max_depth, max_items, wide_ints, named).make(value, max_depth)


class _Maker:
    __slots__ = ("inside", "items", "max_depth", "max_items", "named", "wide_ints")

    def __init__(self, max_depth: int, max_items: int, wide_ints: bool, named: bool) -> None:
        self.max_depth = max_depth
        self.max_items = max_items
        self.wide_ints = wide_ints
        self.named = named
        self.items = 1
        self.inside: set[int] = set()

    def make(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return _text(value)
        if kind is int:
            return self._integer(value)
        if value is None or kind is bool or kind is float or kind is bytes:
            return value
        if kind is dict:
            return self._map(value, value.items(), depth)
        if kind is list:
            return self._list(value, value, depth)
        bases = _BASES.__get__(kind)
        for base, iterate in _ITERATORS:
            if _is_one(base, bases):
                made = self._list(value, iterate(value), depth)
                return sorted(made, key=_set_order) if _is_one(base, _SETS) else made
        if _is_one(dict, bases):
            return self._map(value, dict.items(value), depth)
        fields = _fields(value, bases)
        if fields is not None:
            return self._map(value, fields, depth)
        return self._leaf(value, kind, bases)

    def _integer(self, value: int) -> int | str:
        if -(2**64) <= value < 2**64:
            return value
        if value.bit_length() > _WIDEST_INT_BITS:
            raise NotPlain("$", "int", f"it has more than {_WIDEST_INT_BITS} bits")
        return value if self.wide_ints else str(value)

    def _enter(self, value: object, depth: int) -> None:
        if depth <= 0:
            raise TooLarge("depth", self.max_depth)
        if id(value) in self.inside:
            raise NotPlain("$", type_name(value), "it contains itself")
        self.inside.add(id(value))

    def _count(self, items: int) -> None:
        self.items += items
        if self.items > self.max_items:
            raise TooLarge("items", self.max_items)

    def _list(self, owner: object, values: Iterable[Any], depth: int) -> list[Any]:
        self._enter(owner, depth)
        made = []
        for value in values:
            self._count(1)
            made.append(self.make(value, depth - 1))
        self.inside.discard(id(owner))
        return made

    def _map(self, owner: object, pairs: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        self._enter(owner, depth)
        made: dict[str, Any] = {}
        for key, value in pairs:
            self._count(2)
            text = self._key(key)
            if text in made:
                raise NotPlain("$", type_name(owner), f"two of its keys have the text {inert(text, limit=40)!r}")
            made[text] = self.make(value, depth - 1)
        self.inside.discard(id(owner))
        return made

    def _key(self, key: object) -> str:
        """Other scalars as JSON writes them."""
        kind = type(key)
        if kind is str:
            return _text(key)
        if kind is bytes or _is_one(kind, _CONTAINERS):
            raise NotPlain("$", type_name(key), "keys of maps are text")
        made = self.make(key, 0)
        if made is None or type(made) is bool:
            return {None: "null", True: "true", False: "false"}[made]
        if type(made) in (int, float):
            return repr(made)
        if type(made) is not str:
            raise NotPlain("$", type_name(key), "keys of maps are text")
        return made

    def _leaf(self, value: Any, kind: type, bases: tuple[type, ...]) -> Any:
        if _is_one(str, bases):
            return _text(str.__str__(value))
        if _is_one(int, bases):
            return self._integer(int.__int__(value))
        if _is_one(float, bases):
            return float.__float__(value)
        if _is_one(bytes, bases):
            return bytes.__getitem__(value, slice(None))
        if kind is bytearray or kind is memoryview:
            return bytes(value)
        if _is_one(enum.Enum, bases):
            return _enumeration(value, bases)
        if _is_one(kind, _UNFINISHED):
            raise NotPlain("$", type_name(value), "it has to be awaited, or made a list of, before it is an answer")
        text = _builtin_text(value, kind, bases)
        if text is None and not self.named:
            raise NotPlain("$", type_name(value), "it has nothing that can be read but its name")
        return text if text is not None else _name(value, kind, bases)


def _is_one(kind: type, kinds: tuple[type, ...]) -> bool:
    # By identity: ``in`` would ask a foreign metaclass whether it is equal.
    return any(kind is one for one in kinds)


def _text(value: Any) -> str:
    text: str = value
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _set_order(made: Any) -> tuple[str, str]:
    return (type(made).__name__, repr(made))


def _own(bases: tuple[type, ...], name: str) -> Any:
    """What the nearest class defines as ``name``, as it stands there; None if no class does."""
    for base in bases:
        # One by one: a look-up would compare ``name`` with keys that are foreign text with an ``__eq__`` of its own.
        for key, value in _NAMESPACE.__get__(base).items():
            if type(key) is str and key == name:
                return value
    return None


def _instance_dict(value: object, bases: tuple[type, ...]) -> dict[Any, Any]:
    for base in bases:
        for key, descriptor in _NAMESPACE.__get__(base).items():
            if type(key) is str and key == "__dict__" and type(descriptor) is types.GetSetDescriptorType:
                found = descriptor.__get__(value)
                return found if type(found) is dict else {}
    return {}


def _fields(value: object, bases: tuple[type, ...]) -> Iterable[tuple[Any, Any]] | None:
    """The fields of a pydantic model or a dataclass instance; None for anything else."""
    if _is_one(BaseModel, bases):
        extra_slot = BaseModel.__dict__["__pydantic_extra__"]
        try:
            extra = extra_slot.__get__(value)
        except AttributeError:  # Made without validation.
            extra = None
        return [*_instance_dict(value, bases).items(), *(extra.items() if type(extra) is dict else ())]
    declared = _own(bases, "__dataclass_fields__")
    if type(declared) is not dict:
        return None
    held = {key: item for key, item in _instance_dict(value, bases).items() if type(key) is str}
    pairs = []
    for name in declared:
        if type(name) is not str:
            continue
        slot = None if name in held else _own(bases, name)
        if name in held:
            pairs.append((name, held[name]))
        elif type(slot) is types.MemberDescriptorType:
            try:
                pairs.append((name, slot.__get__(value)))
            except AttributeError:  # Never set.
                continue
    return pairs


def _enumeration(value: object, bases: tuple[type, ...]) -> str:
    held = {key: item for key, item in _instance_dict(value, bases).items() if type(key) is str}
    for key in ("_value_", "_name_"):
        if type(held.get(key)) is str:
            return _text(held[key])
    return f"<{type_name(value)}>"


def _builtin_text(value: Any, kind: type, bases: tuple[type, ...]) -> str | None:
    if _is_one(datetime.datetime, bases):
        return datetime.datetime.isoformat(value) if _is_one(type(_TZINFO.__get__(value)), _OWN_ZONES) else None
    if _is_one(datetime.date, bases):
        return datetime.date.isoformat(value)
    if _is_one(datetime.time, bases):
        return datetime.time.isoformat(value) if _is_one(type(_TIME_TZINFO.__get__(value)), _OWN_ZONES) else None
    if _is_one(datetime.timedelta, bases):
        return datetime.timedelta.__str__(value)
    if _is_one(decimal.Decimal, bases):
        return decimal.Decimal.__str__(value)
    if kind is uuid.UUID:
        number = _UUID_INT.__get__(value)
        return str(uuid.UUID(int=number)) if type(number) is int and 0 <= number < 1 << 128 else None
    if _is_one(kind, _PATHS) and _holds_builtins_alone(value, bases):
        return _text(str(value))
    return None


def _holds_builtins_alone(value: object, bases: tuple[type, ...]) -> bool:
    """Whether every slot of ``value`` is unset or an exact text, number, None, or a list or tuple of exact texts.

    The standard library's own ``__str__`` of a path asks what lies in its slots, and anybody can put something there.
    """
    for base in bases:
        for descriptor in _NAMESPACE.__get__(base).values():
            if type(descriptor) is not types.MemberDescriptorType:
                continue
            try:
                held = descriptor.__get__(value)
            except AttributeError:  # Never set.
                continue
            items = held if type(held) is list or type(held) is tuple else (held,)
            if not all(type(item) is str or type(item) is int or item is None for item in items):
                return False
    return True


def _name(value: Any, kind: type, bases: tuple[type, ...]) -> str:
    while kind is functools.partial or kind is types.MethodType:
        value = value.func if kind is functools.partial else value.__func__
        kind = type(value)
    if _is_one(kind, _FUNCTIONS):
        return inert(value.__name__, limit=128)
    if _is_one(type, _BASES.__get__(kind)):
        return inert(_CLASS_NAME.__get__(value), limit=128)
    return f"<{type_name(value)}>"
