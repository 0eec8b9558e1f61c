"""``todo``: a list that a model keeps for itself while it works, one for each session."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from rho_wasm.calls import ToolContext
from rho_wasm.results import Ok
from rho_wasm.tools import Tool

__all__ = ["todo"]

MAX_ITEMS = 100
MAX_ITEM_CHARS = 500
MAX_SESSIONS = 1_000

_MARKS = {"open": "[ ]", "doing": "[~]", "done": "[x]"}


class _Lists:
    """The lists of the last ``MAX_SESSIONS`` sessions that used theirs; the least recently used is let go."""

    def __init__(self) -> None:
        self._lists: OrderedDict[str, Sequence[Mapping[str, str]]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, session_id: str | None) -> Sequence[Mapping[str, str]]:
        with self._lock:
            if session_id is None or session_id not in self._lists:
                return ()
            self._lists.move_to_end(session_id)
            return self._lists[session_id]

    def write(self, session_id: str | None, items: Sequence[Mapping[str, str]]) -> None:
        if session_id is None:
            return  # calls without a session may be anybody's, so nothing is kept for them
        with self._lock:
            self._lists[session_id] = items
            self._lists.move_to_end(session_id)
            while len(self._lists) > MAX_SESSIONS:
                self._lists.popitem(last=False)


def todo() -> Tool:
    """A new tool with lists of its own, in memory. A call outside a session answers its list but keeps nothing."""
    lists = _Lists()

    async def keep(arguments: Mapping[str, Any], context: ToolContext) -> Ok:
        if "items" in arguments:
            lists.write(context.session_id, arguments["items"])
            items: Sequence[Mapping[str, str]] = arguments["items"]
        else:
            items = lists.read(context.session_id)
        if not items:
            return Ok("The list is empty.")
        lines = (f"{n}. {_MARKS[item.get('state', 'open')]} {item['text']}" for n, item in enumerate(items, 1))
        return Ok("\n".join(lines))

    return Tool(
        name="todo",
        description=(
            "Your own list of what is to be done. With items it replaces the whole list; without it shows the list. "
            "Write it before long work and mark what is doing and done as you go."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "maxItems": MAX_ITEMS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "text": {"type": "string", "minLength": 1, "maxLength": MAX_ITEM_CHARS},
                            "state": {"enum": list(_MARKS)},
                        },
                        "required": ["text"],
                        "additionalProperties": False,
                    },
                }
            },
            "additionalProperties": False,
        },
        read_only=False,
        destructive=False,
        idempotent=True,
        handler=keep,
    )
