"""Names that were probably meant, for whoever mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["Enough", "Looks", "did_you_mean", "near_ones", "nearest", "one_slip_apart"]

_LIKENESS: Final = 0.7
_LEAST_CHARS: Final = 3
_MOST_CHARS: Final = 128
"""Of a name that is compared: what a reader would not read is not worth the time."""

_LIKE_CHARS: Final = 64
"""Of names that are compared by their likeness, which takes as long as their lengths multiplied."""
_NAMES_A_LOOK: Final = 8
_CHARS_A_LOOK: Final = 32


class Enough(Exception):
    """There is more to compare than was to be looked at."""


class Looks:
    """Counts looks, and raises :class:`Enough` from then on where there are more than ``most``."""

    def __init__(self, most: int) -> None:
        self._left = most

    def __call__(self, times: int) -> None:
        self._left -= times
        if self._left < 0:
            raise Enough


def near_ones(name: str, known: Iterable[str], *, look: Callable[[int], None]) -> tuple[str, ...]:
    """All of ``known`` that ``name`` may be meant for, those that are one slip away first; () for a long name.

    For names that strangers wrote, and chose to take long: ``look`` is told before each step how much it takes, in
    units of some 4 µs, and ends it all by what it raises. Upper and lower case are one.
    """
    if not 0 < len(name) <= _MOST_CHARS:
        return ()
    meant = name.lower()
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(meant)
    slips: list[str] = []
    alike: list[str] = []
    for at, each in enumerate(known):
        if at % _NAMES_A_LOOK == 0:
            look(1)
        longer, shorter = max(len(meant), len(each)), min(len(meant), len(each))
        if longer > _MOST_CHARS or 2 * shorter < _LIKENESS * (longer + shorter):
            continue
        look(2 + longer // _CHARS_A_LOOK)
        other = each.lower()
        if shorter >= _LEAST_CHARS and one_slip_apart(meant, other):
            slips.append(each)
        elif longer <= _LIKE_CHARS:
            matcher.set_seq1(other)
            if matcher.quick_ratio() >= _LIKENESS:
                look(4 + longer * shorter // _CHARS_A_LOOK)
                if matcher.ratio() >= _LIKENESS:
                    alike.append(each)
    return (*slips, *alike)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Which of ``known`` is written most like ``name``; None where none is."""
    meant, names = name[:_MOST_CHARS].lower(), sorted(known)
    # Of short names one character is too much for a measure of likeness.
    slips = [each for each in names if len(each) >= _LEAST_CHARS and one_slip_apart(meant, each)]
    found = slips or difflib.get_close_matches(meant, names, n=1, cutoff=_LIKENESS)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about the unknown ``name``; nothing where no name is near."""
    meant = nearest(name, known)
    return "" if meant is None else f"; did you mean {meant!r}?"


def one_slip_apart(one: str, other: str) -> bool:
    """Whether one character too many, too few, another one, or two in the wrong order make ``one`` of ``other``."""
    if len(one) < len(other):
        one, other = other, one
    start = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(other))
    rest, others = one[start:], other[start:]
    if len(one) > len(other):
        return rest[1:] == others
    return rest[1:] == others[1:] or (rest[1::-1] == others[:2] and rest[2:] == others[2:])
