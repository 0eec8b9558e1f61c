"""Keeps statements on their lines through a printer that moves them.

Before it, each line of the source that begins between tokens gets a comment with its number; the printer keeps the
comments that stand before statements and members. After it, lines are broken and joined where the numbers say. What
came out is compared with what the printer makes of the bare source, blanks aside: any doubt, and that is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["in_place"]

_TOKEN = re.compile(
    r"""(?P<newline>\n) | (?P<blank>[^\S\n]+) | (?P<line>//[^\n]*) | (?P<block>/\*.*?(?:\*/|\Z))
    | (?P<string>"(?:[^"\\\n]|\\.)*"? | '(?:[^'\\\n]|\\.)*'?)
    | (?P<word>[\w$#]+) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*+(?:`|\$\{|\Z)", re.DOTALL)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*+\])++/\w*")
_OPENS_TEMPLATE = "`"
_BEFORE_REGEX = frozenset(
    ("return", "typeof", "instanceof", "in", "of", "new", "delete", "void", "throw", "case", "do", "else", "await")
)


def in_place(source: str, transform: Callable[[str], str]) -> str:
    """What ``transform`` makes of ``source``, with its statements on the lines of their originals as far as can be.

    Raises what ``transform`` raises for ``source`` itself. It takes time in proportion to the source.
    """
    bare = transform(source)
    key = "rho"
    while f"/*{key}:" in source:
        key += "o"
    lines = source.split("\n")
    for start in _line_starts(source):
        if start.free and start.number > 1:
            lines[start.number - 1] = f"/*{key}:{start.number}*/{lines[start.number - 1]}"
    try:
        placed = _placed(transform("\n".join(lines)), key)
    except Exception:
        # Whatever it is, a comment where none may stand or the end of a budget: the bare source went through.
        return bare
    return placed if _squeezed(placed) == _squeezed(bare) else bare


def _squeezed(text: str) -> str:
    return "".join(text.split())


class _LineStart(NamedTuple):
    number: int
    free: bool
    """Outside strings, templates and comments."""
    after_comment: bool
    """The line before ends in a ``//`` comment."""


def _line_starts(text: str) -> Iterator[_LineStart]:
    yield _LineStart(1, True, False)
    number = 1
    comment = False
    for kind, token in _tokens(text):
        if kind == "newline":
            number += 1
            yield _LineStart(number, True, comment)
        else:
            for _ in range(token.count("\n")):
                number += 1
                yield _LineStart(number, False, False)
        comment = kind == "line"


def _tokens(text: str) -> Iterator[tuple[str | None, str]]:
    """Kinds and texts of tokens, well enough to know what a line begins in. Where a ``/`` begins a regular expression
    is told by the token before it, which is sometimes wrong: the comparison finds that."""
    braces: list[str] = []
    previous = ""
    position = 0
    no_regex_before = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None, "the last alternative takes anything"
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
            assert rest is not None, "it matches up to the end"
            kind, found = "template", found + rest.group()
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


def _placed(marked: str, key: str) -> str:
    leading = re.compile(rf"[ \t]*(?:/\*{key}:\d+\*/[ \t]*)+")
    marker = re.compile(rf"/\*{key}:(\d+)\*/[ \t]*")
    wanted: list[int | None] = []
    contents: list[str] = []
    for line in marked.split("\n"):
        found = leading.match(line)
        wanted.append(int(marker.findall(found.group())[-1]) if found else None)
        contents.append(marker.sub("", line).rstrip())
    upcoming = _upcoming(wanted)
    out: list[str] = []
    current = 1
    for start, content, target, next_target in zip(
        _line_starts("\n".join(contents)), contents, wanted, upcoming, strict=True
    ):
        if start.free and not content:
            continue
        if not start.free or start.after_comment:
            down = max(1, (target or 0) - current)
        elif target is not None:
            down = max(0, target - current)
        else:
            # A line that the printer made: there is room for it, or it goes behind the one before.
            down = int(bool(out) and (next_target is None or current + 1 < next_target))
        out.append("\n" * down + (content if down or not out else " " + content.lstrip()))
        current += down
    return "".join(out) + "\n"


def _upcoming(wanted: list[int | None]) -> list[int | None]:
    """For each line, the number that the next numbered one wants."""
    following: list[int | None] = []
    upcoming: int | None = None
    for number in reversed(wanted):
        following.append(upcoming)
        upcoming = number if number is not None else upcoming
    return following[::-1]
