"""What matching with a regular expression may cost.

Patterns run in linear time, but linear in the text *times the states of the pattern that are alive at once*: the engine
is fast (a few ns a character) while the sets of live states it has met fit its cache, and goes state by state when they
do not. Which of the two a pattern is cannot be known cheaply, so the live states are bounded from above by its shape.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["NS_PER_MATCH", "pattern_ns_per_char"]

NS_PER_MATCH: Final = 60
"""Starting a match at all, nanoseconds."""

_NS_CACHED: Final = 6
_NS_SEARCHED: Final = 35  # The same where a match may begin anywhere.
_NS_UNCACHED: Final = 250
_NS_PER_STATE: Final = 10
_FEW_STATES: Final = 6  # 2^6 sets of them fit the engine's cache.
_MAX_STATES: Final = 10_000  # What fits the bound on one compiled pattern.

_CLASS: Final = re.compile(r"\[\^?(?:\\.|[^\[\]\\&~])(?:\\.|[^\[\]\\&~])*\]", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:[pPxuU]\{[^{}]*\}|.)", re.DOTALL)
_GROUP: Final = re.compile(r"\((?:\?:|\?P?<\w+>)?(?!\?)")
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{(\d+)(,(\d*))?\})\??")


class _Part(NamedTuple):
    """A part of a pattern: how many states it has, how many can live at once if it is entered once."""

    states: int
    live: int
    varies: bool  # Whether it matches texts of several lengths: what follows may then be entered at several times.


class _OddError(Exception):
    """Something that is not read here: the pattern is taken to be as large as a pattern can be."""


def pattern_ns_per_char(pattern: str) -> int:
    """Nanoseconds that matching may take for each character of a text: an upper bound."""
    try:
        part, end = _alternatives(pattern, 0)
        if end != len(pattern):
            raise _OddError
    except (_OddError, RecursionError):
        part = _Part(_MAX_STATES, _MAX_STATES, varies=True)
    anchored = pattern.startswith("^") and "|" not in pattern
    live = part.live if anchored else part.states
    # A word boundary makes the engine leave its fast way at the first character that is not ASCII.
    if r"\b" not in pattern.lower() and (live <= 1 or part.states <= _FEW_STATES):
        return _NS_CACHED if anchored else _NS_SEARCHED
    return _NS_UNCACHED + _NS_PER_STATE * min(live, _MAX_STATES)


def _alternatives(pattern: str, start: int) -> tuple[_Part, int]:
    part, end = _sequence(pattern, start)
    while end < len(pattern) and pattern[end] == "|":
        other, end = _sequence(pattern, end + 1)
        states = part.states + other.states + 1
        part = _Part(states, states, varies=True)
    return part, end


def _sequence(pattern: str, at: int) -> tuple[_Part, int]:
    states, live, varies = 0, 1, False
    while at < len(pattern) and pattern[at] not in "|)":
        part, at = _atom(pattern, at)
        quantifier = _QUANTIFIER.match(pattern, at)
        if quantifier is not None:
            part, at = _repeated(part, quantifier), quantifier.end()
        # Entered at one moment, one character or a repeated one has one live state; what comes later than a part that
        # varies is entered again and again, and then all of it may be alive.
        live = live + part.states if varies else max(live, part.live)
        varies = varies or part.varies
        states += part.states
    return _Part(states, live, varies), at


def _repeated(part: _Part, quantifier: re.Match[str]) -> _Part:
    least, comma, most = quantifier.groups()
    fixed = least is not None and comma is None
    times = 1 if least is None else max(int(least), int(most or 0), 1)
    states = min(max(part.states, 1) * times, _MAX_STATES)
    single = part.states == 1
    return _Part(states, 1 if single or (fixed and not part.varies) else states, part.varies or not fixed)


def _atom(pattern: str, at: int) -> tuple[_Part, int]:
    if pattern[at] == "(":
        group = _GROUP.match(pattern, at)
        if group is None:
            raise _OddError
        inner, end = _alternatives(pattern, group.end())
        if end == len(pattern):
            raise _OddError
        return inner._replace(states=inner.states + 1), end + 1
    if pattern[at] in "*+?{":
        raise _OddError
    if pattern[at] in "^$":
        return _Part(0, 0, varies=False), at + 1
    found = {"[": _CLASS, "\\": _ESCAPE}.get(pattern[at])
    if found is None:
        return _Part(1, 1, varies=False), at + 1
    atom = found.match(pattern, at)
    if atom is None:
        raise _OddError
    return _Part(1, 1, varies=False), atom.end()
