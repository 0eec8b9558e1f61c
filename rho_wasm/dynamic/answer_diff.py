"""How two answers differ, as a person reads it: a small unified diff of their JSON, inert and bounded."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from rho_wasm.dynamic.recording import plain_json
from rho_wasm.untrusted import inert

__all__ = ["answer_diff"]

_LINES, _WIDTH = 40, 160
"""Of a diff."""
_COMPARED = 200
"""Lines of each side that are compared, from shortly before the first that differs: comparing takes their product."""
_CONTEXT = 2


def answer_diff(recorded: Any, replayed: Any) -> str:
    """Lines joined by line feeds, at most 40 of 160 characters, for two plain values that are not the same."""
    before, after = list(_lines(recorded)), list(_lines(replayed))
    first = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), None)
    if first is None:
        if len(before) == len(after):
            return "(JSON shows no difference: they differ in bytes, in a NaN, or in an integer for a float)"
        first = min(len(before), len(after))
    begin = max(0, first - _CONTEXT)
    told = list(
        difflib.unified_diff(
            before[begin : begin + _COMPARED],
            after[begin : begin + _COMPARED],
            fromfile="recorded",
            tofile="replayed",
            n=_CONTEXT,
            lineterm="",
        )
    )
    if len(told) > _LINES:
        told = [*told[: _LINES - 1], f"(and {len(told) - _LINES + 1} more lines)"]
    return "\n".join(inert(line, limit=_WIDTH + 8) for line in told)


def _lines(value: Any) -> Iterator[str]:
    text = json.dumps(plain_json(value), ensure_ascii=False, indent=1, sort_keys=True)
    for line in text.split("\n"):
        if len(line) <= _WIDTH and "\\n" not in line:
            yield line
        else:
            yield from _pieces(line)


def _pieces(line: str) -> Iterator[str]:
    """A long line, cut after each escaped line feed of a text in it, so that texts are compared line by line."""
    at = 0
    while at < len(line):
        feed = line.find("\\n", at, at + _WIDTH)
        end = at + _WIDTH if feed < 0 else feed + 2
        yield line[at:end]
        at = end
