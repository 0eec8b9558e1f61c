"""What the engine loads and calls a few times before it is frozen, so that its own code has run by then."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import dataclasses
import enum
import re
from collections import Counter
from typing import Annotated, Any, Literal, TypedDict

from rho import AskUser, Context, Failed, Halt, Ok, tool

WORD = re.compile(r"\w+")


class Kind(enum.Enum):
    SHORT = "short"
    LONG = "long"


class Row(TypedDict):
    name: str
    value: float


@dataclasses.dataclass
class Window:
    """Some rows."""

    start: int
    end: int = 10
    tags: list[str] = dataclasses.field(default_factory=list)


def helper(text: str, *, least: int = 1) -> dict[str, int]:
    """Counts words."""
    counts = Counter(word.lower() for word in WORD.findall(text))
    return {word: count for word, count in counts.most_common() if count >= least}


@tool
def count(text: str, least: int = 1) -> dict[str, Any]:
    """Counts the words of a text.

    Args:
        text: what to count
        least: how often a word must occur
    """
    found = helper(text, least=least)
    return {"words": sum(found.values()), "top": sorted(found.items(), key=lambda pair: -pair[1])[:5], "mean": 1.5}


@tool(read_only=True, timeout_ms=1_000, examples=[{"arguments": {"rows": []}, "answer": Ok([])}])
def rows(
    rows: list[Row],
    window: Window | None = None,
    kind: Kind = Kind.SHORT,
    mode: Annotated[Literal["a", "b"], "how"] = "a",
    *,
    ctx: Context,
) -> Any:
    """Works on rows."""
    if not rows:
        return Failed("no rows", details={"mode": mode})
    if kind is Kind.LONG:
        return AskUser("which?", {"values": [row["name"] for row in rows]})
    total = 0.0
    for row in rows:
        total += row["value"]
    try:
        int("x")
    except ValueError as error:
        text = f"{error!s:>5} {total:.2f}"
    if mode == "b":
        return Halt("done", {"total": total, "session": ctx.session_id})
    if window is not None and window.start > window.end:
        raise KeyError(window.start)
    return Ok({"total": total, "text": text, "data": b"\x00\x01", "flags": [True, False, None, -1, 70_000, 2**40]})
