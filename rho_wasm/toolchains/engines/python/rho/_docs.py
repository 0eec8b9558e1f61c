"""What a docstring says of a function and of its parameters (Google's and Sphinx's ways)."""

from __future__ import annotations

import re

__all__ = ["description", "parameters"]

_SECTION = re.compile(r"(?:Args|Arguments|Parameters|Params):\s*").fullmatch
_OTHER_SECTION = re.compile(r"[A-Z][A-Za-z ]*:\s*").fullmatch
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s+(.*)").match
_SPHINX = re.compile(r":param(?:eter)?\s+(?:[^:]*\s)?(\w+):\s*(.*)").match
_FIELD = re.compile(r":\w+[^:]*:").match


def description(doc: str | None) -> str:
    """The first paragraph, on one line."""
    found: list[str] = []
    for _, text in _lines(doc):
        if not text or _SECTION(text) or _FIELD(text):
            break
        found.append(text)
    return " ".join(found)


def parameters(doc: str | None) -> dict[str, str]:
    """What is said of each parameter, on one line each."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    base = 0
    inside = False
    for indent, text in _lines(doc):
        if not text:
            current = None
        elif match := _SPHINX(text):
            current = found.setdefault(match[1], [match[2]])
            inside, base = False, indent
        elif _FIELD(text):
            current = None
        elif not indent:
            inside, current, base = _SECTION(text) is not None, None, 0
        elif inside and (not base or indent <= base) and (match := _GOOGLE(text)):
            base = indent
            current = found.setdefault(match[1], [match[2]])
        elif current is not None and indent > base:
            current.append(text)
    return {name: " ".join(part for part in parts if part) for name, parts in found.items()}


def _lines(doc: str | None) -> list[tuple[int, str]]:
    """Each line's indentation, that of the docstring itself not counted, and its text."""
    lines = (doc or "").expandtabs().strip().splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    found = []
    for number, line in enumerate(lines):
        text = line.strip()
        found.append((len(line) - len(line.lstrip()) - margin if number and text else 0, text))
    return found
