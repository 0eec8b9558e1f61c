"""Names of tools in a policy: a name, a prefix that ends in ``*``, or ``*``."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, StrictStr

from rho_wasm.untrusted import inert

__all__ = ["ToolPattern", "matches", "narrower"]

_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}|[A-Za-z0-9_-]{0,63}\*")


def _pattern(text: str) -> str:
    if _PATTERN.fullmatch(text) is None:
        raise ValueError(f"{inert(text, limit=80)!r} is no tool name, prefix ending in * or *")
    return text


ToolPattern = Annotated[StrictStr, AfterValidator(_pattern)]


def matches(pattern: str, name: str) -> bool:
    """Whether ``pattern`` means the tool ``name``."""
    return pattern == name or (pattern.endswith("*") and name.startswith(pattern[:-1]))


def narrower(one: str, other: str) -> str | None:
    """The pattern of what both mean; None if they have no name in common."""
    if matches(one, other):
        return other
    return one if matches(other, one) else None
