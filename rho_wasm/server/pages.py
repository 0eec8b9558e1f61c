"""The pages of ``tools/list``: each is made once for all clients, when it is asked for, and bounded by what it takes.

A page is checked and written as JSON on the event loop, by code that is not ours: everybody waits for it.
"""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from rho_wasm.limits import KIB

__all__ = ["PAGE", "Listed", "Page", "Pages", "weight_of"]

PAGE = 1_000
"""Tools of one page at most. Clients that read the first page only are common, so it is large."""
_PAGE_WEIGHT = 256 * KIB
_OF_A_PART = 8
"""Bytes that take as long to write as one comma, colon or opening bracket and what it stands for."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool as it is listed, and what that takes (:func:`weight_of`)."""

    shown: dict[str, Any]
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """The result of one ``tools/list``. ``wire``: the same as it goes over the wire, by version of the protocol."""

    result: dict[str, Any]
    wire: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def is_last(self) -> bool:
        return "nextCursor" not in self.result


class Pages:
    """The pages of tools, by name, each with whether it is untrusted. ``show`` makes one ready; None: it is left out.

    They are in the order of their names, those of the host first: somebody else's must not push them off the first
    page. A page has ``most`` tools at most and one at least, and ends before about 256 KiB.
    """

    def __init__(self, tools: Mapping[str, bool], *, show: Callable[[str], Listed | None], most: int = PAGE) -> None:
        self._keys = sorted(f"{untrusted:d}{name}" for name, untrusted in tools.items())
        self._show = show
        self._most = most
        self._kept: dict[int, Page | None] = {0: None}  # By where they start, where a cursor of these tools goes on.

    def after(self, cursor: str | None) -> Page:
        """The page that goes on there; None: the first. Raises MCPError for a cursor that was never given out.

        The same object as before, where the cursor was given out for these tools.
        """
        start = 0 if cursor is None else bisect_right(self._keys, _key_of(cursor))
        if (known := self._kept.get(start)) is not None:
            return known
        page, end = self._made(start)
        if start in self._kept:
            self._kept[start] = page
            self._kept.setdefault(end)
        return page

    def _made(self, start: int) -> tuple[Page, int]:
        """The page from there on, and where the next one starts."""
        tools: list[dict[str, Any]] = []
        # They may change at any moment: nothing is said for longer than it is true.
        result: dict[str, Any] = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        weight = 0
        for at in range(start, len(self._keys)):
            if (listed := self._show(self._keys[at][1:])) is None:
                continue
            weight += listed.weight
            if tools and (len(tools) == self._most or weight > _PAGE_WEIGHT):
                result["nextCursor"] = base64.urlsafe_b64encode(self._keys[at - 1].encode()).decode()
                return Page(result), at
            tools.append(listed.shown)
        return Page(result), len(self._keys)


def weight_of(shown: Mapping[str, Any]) -> int:
    """How long it takes to list a tool, in bytes of long texts."""
    text = json.dumps(shown, ensure_ascii=False)
    return len(text.encode("utf-8", "surrogatepass")) + _OF_A_PART * sum(map(text.count, (",", ":", "[", "{")))


def _key_of(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (UnicodeError, binascii.Error):
        raise MCPError(INVALID_PARAMS, "Invalid cursor") from None
