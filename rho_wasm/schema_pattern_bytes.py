"""How large a regular expression becomes when it is compiled, said before it is.

Compiling holds the interpreter's lock and cannot be interrupted, and takes some 10 µs for each KiB of what comes of it:
``\\S{100}`` is 7 characters and 200 KiB. The parts of a pattern are weighed with what they were measured to be, rounded
up; what takes long beside its size is given the size that takes as long.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["pattern_bytes"]

_LITERAL: Final = 40
_FOLDED: Final = 250
_BEYOND_ASCII: Final = 150
_GROUP: Final = 150
_CHOICE: Final = 100
_REPEAT: Final = 100
_CLASS: Final = 80
_CLASS_CHAR: Final = 8
_CLASS_BEYOND_ASCII: Final = 500
_CLASS_READ: Final = 512  # Once, however often it is repeated.
_WIDE: Final = 1_400
_NEGATED: Final = 1_000
_ESCAPES: Final = {"d": _CLASS, "w": 2 * _CLASS, "s": 800, "S": 2_200, "D": 1_100, "W": 1_200}
_PROPERTY: Final = 48 * 1024
_ENDLESS: Final = 1 << 30
_FOLDED_PER_CODE_POINT: Final = 6
# Where a match may begin anywhere, all short texts that it may begin with are collected: 0.3 ms for ``[aceg]{3}``.
_SEARCHED: Final = 12 * 1024
_AT_LEAST: Final = 1024

_FLAGS: Final = re.compile(r"\(\?([a-zA-Z-]*)[:)]")
_OPEN: Final = re.compile(r"\((?:\?[a-zA-Z-]*[:)]|\?P?<\w*>?)?")
_ESCAPE: Final = re.compile(r"\\(?:[pPxuU]\{[^{}]*\}?|.)", re.DOTALL)
# Possessive, for spaces can be shared out between its parts in very many ways; and 0000000000105 is 105.
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{\s*+0*+([0-9]{0,9}+)\s*+(,\s*+0*+([0-9]{0,9}+)\s*+)?+\})\??")
# The validator looks at such texts character by character, without a regular expression.
_LENGTH_ONLY: Final = re.compile(
    r"\^(\.|\\[dDwWsS]|\\[pP]\{\w+\}|\[\^?(?:[^\[\]\\&~]|\\[dDwWsSnrt./\[\]\\^$|()*+?{}-]|\\x[0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\[pP]\{\w+\})+\])\{[0-9]{1,9}(?:,[0-9]{1,9})?\}\$"
)
# Folding the case of a class goes through all that is in it, 10 ms for one that is nearly everything.
_SLOW_TO_FOLD: Final = re.compile(r"\\[DWSpPxuU]|(?<!\A)\[\^|:\^", re.DOTALL)
_CLASSES: Final = re.compile(r"\[|\\[dDwWsSpP]")
_RANGE: Final = re.compile(r"(.)-([^\x00-\x7f])", re.DOTALL)


def pattern_bytes(pattern: str) -> int:
    """Bytes that ``pattern`` takes when it is compiled, about and at most; very many for what is not read here."""
    if (alone := _LENGTH_ONLY.fullmatch(pattern)) is not None:
        pattern = alone[1]
    flags = "".join(_FLAGS.findall(pattern))
    if "x" in flags:
        return _ENDLESS
    return _Reader(pattern, folded="i" in flags).read()


class _Reader:
    def __init__(self, pattern: str, *, folded: bool) -> None:
        self._pattern = pattern
        self._folded = folded
        self._anchored = pattern.startswith("^")
        self._once = _AT_LEAST
        self._at = 0

    def read(self) -> int:
        outer: list[int] = []
        size = last = 0
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == "(":
                outer.append(size)
                opened = _OPEN.match(self._pattern, self._at)
                assert opened is not None, "it begins with the bracket"
                self._at = opened.end()
                if opened[0].endswith(")"):
                    outer.pop()
                else:
                    size = 0
                last = 0
                continue
            if character == ")":
                self._at += 1
                last = size + _GROUP
                size = last + (outer.pop() if outer else 0)
            elif (quantifier := _QUANTIFIER.match(self._pattern, self._at)) is not None:
                self._at = quantifier.end()
                times, optional = _times(quantifier)
                more = last * (times - 1) + _REPEAT * optional
                size, last = min(size + more, _ENDLESS), min(last + more, _ENDLESS)
            elif character == "{":
                return _ENDLESS  # Whatever it is to the validator, it is not counted here.
            else:
                self._anchored = self._anchored and (character != "|" or bool(outer))
                last = self._atom(character)
                size += last
        several = self._folded or len(_CLASSES.findall(self._pattern)) + ("{" in self._pattern) > 1
        searched = _SEARCHED if several and not self._anchored else 0
        return min(size + sum(outer) + self._once + searched, _ENDLESS)

    def _atom(self, character: str) -> int:
        start = self._at
        if character == "[":
            self._at = _end_of_class(self._pattern, start)
            return self._class(self._pattern[start : self._at])
        if character == "\\" and (escape := _ESCAPE.match(self._pattern, start)) is not None:
            self._at = escape.end()
            return self._escape(escape[0])
        self._at += 1
        if character == ".":
            return _WIDE
        if character == "|":
            return _CHOICE
        if self._folded:
            return _FOLDED
        return _LITERAL if character.isascii() else _BEYOND_ASCII

    def _escape(self, escape: str) -> int:
        kind = escape[1]
        if kind in "pP":
            return _ENDLESS if self._folded else _PROPERTY
        if kind in "xuU" or not escape.isascii():
            return _FOLDED if self._folded else _BEYOND_ASCII
        self._once += _CLASS_READ if kind in _ESCAPES else 0
        return _ESCAPES.get(kind, _FOLDED if self._folded else _LITERAL)

    def _class(self, text: str) -> int:
        self._once += _CLASS_READ
        size = _CLASS + _CLASS_CHAR * len(text)
        if self._folded:
            if _SLOW_TO_FOLD.search(text) is not None:
                return _ENDLESS
            spans = sum(max(ord(end) - ord(start), 0) for start, end in _RANGE.findall(text))
            self._once += _FOLDED_PER_CODE_POINT * spans
            size *= 3
        size += _NEGATED * (text.count("[^") + text.count(":^"))
        size += _CLASS_BEYOND_ASCII * sum(not character.isascii() for character in text)
        for escape in _ESCAPE.findall(text):
            kind = escape[1]
            size += _PROPERTY if kind in "pP" else _CLASS_BEYOND_ASCII if kind in "xuU" else _ESCAPES.get(kind, 0)
        return size


def _times(quantifier: re.Match[str]) -> tuple[int, int]:
    """How often what is repeated stands there, and how many of them may be left out."""
    least, comma, most = quantifier.groups()
    if least is None:
        return 1, 1
    fewest = int(least or 0)
    times = max(fewest + (comma is not None and not most), int(most or 0), 1)
    return times, times - fewest + 1


def _end_of_class(pattern: str, start: int) -> int:
    """Where the class that begins at ``start`` ends; classes may stand in classes."""
    depth, at = 0, start
    while at < len(pattern):
        character = pattern[at]
        if character == "[":
            depth += 1
            at += pattern.startswith("[^", at)
            at += pattern.startswith("]", at + 1)  # As the first one it stands for itself.
        elif character == "]":
            depth -= 1
            if not depth:
                return at + 1
        elif character == "\\":
            at += 1
        at += 1
    return len(pattern)
