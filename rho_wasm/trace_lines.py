"""The line of a source in a backtrace, as guests of interpreted languages have it: ``file:line in name: text``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["both_ends", "innermost_line", "source_lines", "with_texts"]

_LINE: Final = r"(?:near )?(?![^:\n]* without types:)([^:\n]{1,128}):([1-9][0-9]{0,5})"
"""But of TypeScript where its lines could not be kept: those are of a text that its author does not have."""
_PLACE: Final = re.compile(rf"{_LINE}(?: in |: |$)")
_BARE: Final = re.compile(rf"{_LINE}(?: in [^:\n]{{1,128}})?")
_LEFT_OUT: Final = re.compile(r"\.\.\. ([1-9][0-9]{0,5}) more \.\.\.")
_LINE_END: Final = re.compile(r"\r\n?|\n")
"""As Python and JavaScript count lines: str.splitlines ends them at form feeds too."""


def source_lines(source: str) -> list[str]:
    """The lines that backtraces number."""
    return _LINE_END.split(source)


def both_ends(backtrace: Sequence[str], most: int) -> list[str]:
    """At most so many frames: the first and the last ones, since the innermost is the first or, in Python, the last."""
    if len(backtrace) <= most:
        return list(backtrace)
    first, last = most // 2, most - most // 2 - 1
    # Some were left out before, where a line says how many.
    left = [_LEFT_OUT.fullmatch(frame) for frame in backtrace[first:-last]]
    over = sum(1 if found is None else int(found[1]) for found in left)
    return [*backtrace[:first], f"... {over} more ...", *backtrace[-last:]]


def innermost_line(backtrace: Sequence[str], *, lines: int, last: bool = False) -> int | None:
    """The innermost line that a source of so many ``lines`` has; None where no frame names one.

    ``last``: the innermost frame comes last, as Python says it of what a handler raised. The outermost frame is in the
    source's own file; others are of what a tool made out of text.
    What stands there may be the guest's own words, so no more is taken of it than the number.
    """
    inwards = backtrace if last else reversed(backtrace)
    found = [place for frame in inwards if (place := _PLACE.match(frame)) is not None and int(place[2]) <= lines]
    return next((int(place[2]) for place in reversed(found) if place[1] == found[0][1]), None)


def with_texts(backtrace: Sequence[str], source: str | None) -> list[str]:
    """The frames of a tool that was stopped, with the text of each line in ``source``, as those of a raise have it.

    For who wrote the source, whose file is that of the outermost frame. Other frames are as they are.
    """
    lines = [] if source is None else source_lines(source)
    found = [_BARE.fullmatch(frame) for frame in backtrace]
    own = next((place[1] for place in reversed(found) if place is not None), None)
    told = []
    for frame, place in zip(backtrace, found, strict=True):
        number = 0 if place is None or place[1] != own else int(place[2])
        told.append(f"{frame}: {lines[number - 1].strip()}" if 0 < number <= len(lines) else frame)
    return told
