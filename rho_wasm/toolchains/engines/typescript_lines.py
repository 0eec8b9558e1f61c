"""Keeps statements on their lines through a printer that moves them.

What is loaded is the printer's own text with nothing changed but the line breaks and blanks between two of its lines:
there may be more breaks, or none where none is needed. Where a statement wants to be is told by a second run, over a
source whose lines begin with a comment each that has their number; what comes out of that run is never loaded.

Which lines begin in a template or a comment is told by a tokenizer too simple for JavaScript. Nothing rests on it:
a parser reads both texts, and unless both print as the same the printer's own text is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rho_wasm.sandbox.faults import CallFailed

__all__ = ["KEPT_CHARS", "KEPT_LINES", "Placed", "in_place"]

KEPT_CHARS = 64 * 1024
KEPT_LINES = 5_000
"""Of a source, and of what is printed. This code runs under no budget: what is longer is taken as it is printed."""

_TOKEN = re.compile(
    r"""(?P<newline>\n) | (?P<blank>[^\S\n]+) | (?P<line>//[^\n]*) | (?P<block>/\*.*?(?:\*/|\Z))
    | (?P<string>"(?:[^"\\\n]|\\.)*+"? | '(?:[^'\\\n]|\\.)*+'?)
    | (?P<word>[\w$#]+) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*+(?:`|\$\{|\\?\Z)", re.DOTALL)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*+\])++/\w*")
_OPENS_TEMPLATE = "`"
_BEFORE_REGEX = frozenset(
    ("return", "typeof", "instanceof", "in", "of", "new", "delete", "void", "throw", "case", "do", "else", "await")
)
_ENDS = (";", "{", "}", ",", "(", "[")
"""After these no line break means anything: a statement is over, or cannot be."""
_BEGINS = ("}", ")", "]")
"""Nor before these."""
_BY_THE_CLOCK = ("deadline", "cancelled")
"""Another time it would end otherwise, and the same source must become the same bytes."""


class Placed(NamedTuple):
    text: str
    exact: bool
    """Each line of the source that could be followed is where it was."""


def in_place(source: str, strip: Callable[[str], str], reprint: Callable[[str], str]) -> Placed:
    """What ``strip`` makes of ``source``, with its statements on the lines of their originals as far as can be.

    ``reprint`` parses JavaScript and prints it, so that what differs in meaning prints differently. Raises what
    ``strip`` raises for ``source`` itself, and when its time is over. Beyond ``KEPT_CHARS`` and
    ``KEPT_LINES`` nothing is moved.
    """
    bare = strip(source)
    if not (_is_short(source) and _is_short(bare)):
        return Placed(bare, False)
    try:
        placed = _placed(bare, _wanted(source, bare, strip))
        if reprint(placed.text) != reprint(bare):
            return Placed(bare, False)
        # Templates are printed as they are: what differs was taken for one, and its lines were not followed.
        return placed._replace(exact=placed.exact and _templates(source) == _templates(bare))
    except CallFailed as failed:
        if failed.reason in _BY_THE_CLOCK:
            raise
        return Placed(bare, False)
    except Exception:
        # Whatever it is, perhaps a comment where none may stand: the bare source went through.
        return Placed(bare, False)


def _is_short(text: str) -> bool:
    return len(text) <= KEPT_CHARS and text.count("\n") < KEPT_LINES


def _wanted(source: str, bare: str, strip: Callable[[str], str]) -> list[int | None]:
    """For each line of ``bare``, the line of ``source`` that begins with the same token, where that is known."""
    key = "rho"
    while f"{key}:" in source or f"{key}:" in bare:
        key += "o"
    lines = source.split("\n")
    for number, free in _line_starts(source):
        if free and number > 1:
            lines[number - 1] = f"/*{key}:{number}*/{lines[number - 1]}"
    pieces = re.split(rf"/\*{key}:(\d+)\*/", strip("\n".join(lines)))
    if _squeezed("".join(pieces[::2])) != _squeezed(bare):
        return [None] * (bare.count("\n") + 1)
    numbers: dict[int, int] = {}
    offset = 0
    for text, number_text in zip(pieces[::2], [*pieces[1::2], None], strict=True):
        offset += len(_squeezed(text))
        if number_text is not None:
            numbers[offset] = min(int(number_text), len(lines))
    wanted: list[int | None] = []
    offset = 0
    for line in bare.split("\n"):
        wanted.append(numbers.get(offset) if line.strip() else None)
        offset += len(_squeezed(line))
    return wanted


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _placed(bare: str, wanted: list[int | None]) -> Placed:
    out: list[str] = []
    current = 1
    exact = any(wanted) or "\n" not in bare.strip()
    before = ""
    lines = zip(_line_starts(bare), bare.split("\n"), wanted, _upcoming(wanted), strict=True)
    for (_, free), line, target, next_target in lines:
        if not free:
            down = 1
        elif not line.strip():
            continue
        else:
            if target is not None:
                down = target - current
            else:
                # A line that the printer made: there is room for it, or it goes behind the one before.
                down = int(bool(out) and (next_target is None or current + 1 < next_target))
            down = max(down, 0 if not out or _may_join(before, line) else 1)
        out.append("\n" * down + (line if down or not out else " " + line.lstrip()))
        current += down
        exact = exact and target in (None, current)
        before = line
    return Placed("".join(out) + "\n", exact)


def _may_join(before: str, line: str) -> bool:
    """Whether a line may go behind another. ``//`` anywhere, were it in a string, might begin a comment."""
    if "//" in before or before.startswith("#!"):
        return False
    return before.endswith(_ENDS) or line.lstrip().startswith(_BEGINS)


def _upcoming(wanted: list[int | None]) -> list[int | None]:
    """For each line, the number that the next numbered one wants."""
    following: list[int | None] = []
    upcoming: int | None = None
    for number in reversed(wanted):
        following.append(upcoming)
        upcoming = number if number is not None else upcoming
    return following[::-1]


def _line_starts(text: str) -> Iterator[tuple[int, bool]]:
    """The number of each line, and whether it begins outside strings, templates and comments."""
    yield 1, True
    number = 1
    for kind, token in _tokens(text):
        for _ in range(token.count("\n")):
            number += 1
            yield number, kind == "newline"


def _templates(text: str) -> list[str]:
    return [token for kind, token in _tokens(text) if kind == "template" and "\n" in token]


def _tokens(text: str) -> Iterator[tuple[str | None, str]]:
    """Kinds and texts of tokens. Where a ``/`` begins a regular expression is told by the token before it, which is
    sometimes wrong."""
    braces: list[str] = []
    previous = ""
    position = 0
    no_regex_before = 0
    while (match := _TOKEN.match(text, position)) is not None:
        kind, found = match.lastgroup, match.group()
        if found == "/" and position >= no_regex_before and _regex_may_follow(previous):
            if (literal := _REGEX.match(text, position)) is not None:
                kind, found = "regex", literal.group()
            else:
                # It was looked for up to the line's end: not again for each further one.
                end_of_line = text.find("\n", position)
                no_regex_before = end_of_line if end_of_line >= 0 else len(text)
        elif found == "`" or (found == "}" and braces[-1:] == [_OPENS_TEMPLATE]):
            if found == "}":
                braces.pop()
            rest = _TEMPLATE.match(text, position + 1)
            kind, found = "template", found + (rest.group() if rest is not None else text[position + 1 :])
            if found.endswith("${"):
                braces.append(_OPENS_TEMPLATE)
        elif found == "{":
            braces.append(found)
        elif found == "}" and braces:
            braces.pop()
        yield kind, found
        position += len(found)
        if kind not in ("newline", "blank", "line", "block"):
            previous = found


def _regex_may_follow(previous: str) -> bool:
    if not previous or previous in _BEFORE_REGEX:
        return True
    return not (previous[-1] in ")]}`\"'/_$" or previous[-1].isalnum())
