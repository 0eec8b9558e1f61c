"""What a docstring says of a function and of its parameters (Google's and Sphinx's ways)."""

from __future__ import annotations

import inspect
import re

__all__ = ["description", "parameters"]

_SECTION = re.compile(r"(?:Args|Arguments|Parameters|Params):\s*")
_OTHER_SECTION = re.compile(r"[A-Z][A-Za-z ]*:\s*")
_GOOGLE = re.compile(r"(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s+(.*)")
_SPHINX = re.compile(r":param(?:eter)?\s+(?:[^:]*\s)?(\w+):\s*(.*)")
_FIELD = re.compile(r":\w+[^:]*:")


def description(doc: str | None) -> str:
    """The first paragraph, on one line."""
    lines: list[str] = []
    for line in inspect.cleandoc(doc or "").splitlines():
        if not line.strip() or _SECTION.fullmatch(line) or _FIELD.match(line):
            break
        lines.append(line.strip())
    return " ".join(lines)


def parameters(doc: str | None) -> dict[str, str]:
    """What is said of each parameter, on one line each."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    base: int | None = None
    inside = False
    for line in inspect.cleandoc(doc or "").splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if match := _SPHINX.match(text):
            current = found.setdefault(match[1], [match[2]])
            inside, base = False, indent
        elif _FIELD.match(text):
            current = None
        elif indent == 0 and _SECTION.fullmatch(text):
            inside, current, base = True, None, None
        elif indent == 0 and _OTHER_SECTION.fullmatch(text):
            inside, current = False, None
        elif not text:
            current = None
        elif inside and (base is None or indent <= base) and (match := _GOOGLE.match(text)) and indent:
            base = indent
            current = found.setdefault(match[1].lstrip("*"), [match[2]])
        elif current is not None and base is not None and indent > base:
            current.append(text)
    return {name: " ".join(part for part in parts if part) for name, parts in found.items()}
