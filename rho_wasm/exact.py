"""Plain data copied exactly: one walk that checks types and bounds, and may put maps into their deterministic order.

Each list and map is copied at once and only then looked at: another thread may alter the value meanwhile. And with the
order made here no encoder need make it, which takes longer than the walk.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rho_wasm.errors import NotPlain, TooLarge
from rho_wasm.untrusted import inert, type_name

__all__ = ["MAX_DEPTH", "Copied", "ExactCopy", "Refused", "flat_copy"]

MAX_DEPTH: Final = 256
"""No ``max_depth`` beyond this is honoured: encoders and readers recurse."""

_PATH_STEPS: Final = 16
_INT_MIN, _INT_MAX = -(2**64), 2**64 - 1
_LONGEST_HEAD: Final = 9


class Copied(NamedTuple):
    """A copy, and what was seen of it: nobody has altered it since.

    ``items`` counts values and keys, ``chars`` is the length of all strings, ``depth`` how many lists and maps are
    inside one another. ``floats``: there is one. ``in_order``: the keys of its maps are in the order of their
    encodings.
    """

    value: Any
    items: int
    chars: int
    depth: int
    floats: bool
    in_order: bool


class Refused(Exception):
    """Something inside that is not plain. Each level on the way out adds where it was: ``path`` is innermost first."""

    def __init__(self, value: object, detail: str) -> None:
        self.type_name = type_name(value)
        self.detail = detail
        self.path: list[str | int] = []

    def as_error(self) -> NotPlain:
        steps = self.path[::-1][:_PATH_STEPS]
        shown = (f"[{step}]" if isinstance(step, int) else f".{inert(step, limit=40)}" for step in steps)
        return NotPlain("$" + "".join(shown), self.type_name, self.detail)


class ExactCopy:
    """Makes one copy of a value, in which every type is exact and every bound kept.

    ``max_bytes`` bounds the characters and bytes of all strings; what they take when encoded is at most
    :meth:`most_bytes` where all are ASCII. With ``in_order`` the keys of maps come in the bytewise order of their
    encodings (RFC 8949, section 4.2.1), else as they were.
    """

    ascii = True
    """Whether all strings are ASCII."""
    floats = False
    """Whether there is one."""

    deepest = 0
    """How many lists and maps are inside one another."""

    def __init__(self, *, max_bytes: int, max_depth: int, max_items: int, in_order: bool) -> None:
        self.in_order = in_order
        self.max_bytes = self.room = max_bytes
        self.max_depth = max_depth if max_depth < MAX_DEPTH else MAX_DEPTH
        self.max_items = max_items
        self.items_left = max_items - 1

    def of(self, value: Any) -> Any:
        """The copy, once. Raises :class:`Refused` and :class:`TooLarge`."""
        kind = type(value)
        if kind is dict:
            return self._map(value, 0)
        if kind is str or kind is bytes:
            self._take(len(value), value.isascii())
            return value
        return self._other(value, 0)

    def most_bytes(self) -> int:
        """More bytes than that the encoding of the copy does not have, if all its strings are ASCII."""
        return _LONGEST_HEAD * (self.max_items - self.items_left) + self.max_bytes - self.room

    def _other(self, value: Any, depth: int) -> Any:
        """Any value; most of those inside a list or map are strings or integers, which need no call of this."""
        kind = type(value)
        if kind is dict:
            return self._map(value, depth)
        if kind is list:
            return self._list(value, depth)
        if kind is float:
            self.floats = True
            return value
        if kind is bool or value is None:
            return value
        if kind is not int:
            raise Refused(value, "")
        if not _INT_MIN <= value <= _INT_MAX:
            raise Refused(value, "integers are within -2^64 .. 2^64-1")
        return value

    def _list(self, values: list[Any], depth: int) -> list[Any]:
        if depth == self.max_depth:
            raise TooLarge("depth", self.max_depth)
        if len(values) > self.items_left:
            raise TooLarge("items", self.max_items)
        if depth >= self.deepest:
            self.deepest = depth + 1
        copy = values[:]
        self._count(len(copy))
        size = 0
        ascii = True
        for index, value in enumerate(copy):
            kind = type(value)
            if kind is str or kind is bytes:
                size += len(value)
                ascii = ascii and value.isascii()
            elif not ((kind is int and _INT_MIN <= value <= _INT_MAX) or kind is bool):
                try:
                    copy[index] = self._other(value, depth + 1)
                except Refused as refused:
                    refused.path.append(index)
                    raise
        self._take(size, ascii)
        return copy

    def _map(self, pairs: dict[Any, Any], depth: int) -> dict[str, Any]:
        if depth == self.max_depth:
            raise TooLarge("depth", self.max_depth)
        if len(pairs) > self.items_left:
            raise TooLarge("items", self.max_items)
        if depth >= self.deepest:
            self.deepest = depth + 1
        copy = dict(pairs)
        self._count(2 * len(copy))
        for key in copy:
            if type(key) is not str:
                raise Refused(key, "keys of maps are text")
        together = "".join(copy)
        size = len(together)
        ascii = together.isascii()
        if self.in_order and len(copy) > 1:
            copy = _ordered(copy, ascii)
        for key, value in copy.items():
            kind = type(value)
            if kind is str or kind is bytes:
                size += len(value)
                ascii = ascii and value.isascii()
            elif not ((kind is int and _INT_MIN <= value <= _INT_MAX) or kind is bool):
                try:
                    copy[key] = self._other(value, depth + 1)
                except Refused as refused:
                    refused.path.append(key)
                    raise
        self._take(size, ascii)
        return copy

    def _count(self, items: int) -> None:
        self.items_left -= items
        if self.items_left < 0:
            raise TooLarge("items", self.max_items)

    def _take(self, size: int, ascii: bool) -> None:
        if not ascii:
            self.ascii = False
        # One string may stand in many places: without the sum, 1 MiB of it would become 100 GB.
        self.room -= size
        if self.room < 0:
            raise TooLarge("bytes", self.max_bytes)


def flat_copy(pairs: dict[Any, Any], *, max_bytes: int, max_items: int, in_order: bool) -> Copied | None:
    """A copy as :class:`ExactCopy` makes it of a map of ASCII text, integers, booleans and nulls.

    None for any other map, and where its encoding might be over a bound. Most arguments are such a map.
    """
    copy = dict(pairs)
    chars = 0
    for key, value in copy.items():
        if type(key) is not str or not key.isascii():
            return None
        chars += len(key)
        kind = type(value)
        if kind is str:
            if not value.isascii():
                return None
            chars += len(value)
        elif not ((kind is int and _INT_MIN <= value <= _INT_MAX) or kind is bool or value is None):
            return None
    items = 1 + 2 * len(copy)
    if items > max_items or chars + _LONGEST_HEAD * items > max_bytes:
        return None
    if in_order and items > 3:
        copy = _ordered(copy, True)
    return Copied(copy, items, chars, 1, False, in_order)


def _ordered(pairs: dict[str, Any], ascii: bool) -> dict[str, Any]:
    """Shorter keys first; among those of one length UTF-8 keeps the order of characters."""
    keys = sorted(pairs)
    keys.sort(key=len if ascii else _utf8_bytes)
    return {key: pairs[key] for key in keys}


def _utf8_bytes(text: str) -> int:
    return len(text.encode())
