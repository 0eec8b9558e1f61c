"""What a call brings along beside its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Context"]


class Context:
    """Given to a parameter annotated ``Context``. What the host did not tell is None, and ``values`` is empty."""

    __slots__ = ("call_id", "request_id", "session_id", "values")

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.call_id: str | None = given.get("call_id")
        self.session_id: str | None = given.get("session_id")
        self.request_id: str | None = given.get("request_id")
        self.values: dict[str, Any] = given.get("values", {})
