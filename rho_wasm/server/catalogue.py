"""The tools as clients list them, live, and what changed since a session last heard of them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeAlias

from mcp_types.methods import serialize_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from rho_wasm.adapters.mcp import HEADER_KEY, tool_to_mcp
from rho_wasm.frozen import thaw
from rho_wasm.offered import ToolSnapshot
from rho_wasm.registry import ToolRegistry
from rho_wasm.server.pages import PAGE, Listed, Page, Pages, weight_of
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert

__all__ = ["CALL_TOOL", "Catalogue", "offered_here"]

_Told: TypeAlias = tuple[str, Mapping[str, Any]]

_MAX_SESSIONS = 1_000
_MAX_HEADERS = 1_000
_SHOWN_TOOLS = 8
_SHOWN_SCHEMA_CHARS = 2_000
_SHOWN_NAMES = 50

CALL_TOOL: Mapping[str, Any] = {
    "name": "call_tool",
    "description": (
        "Calls any tool of this server by its name, also one that came after you last listed them: the tools of this "
        "server change while you work. Give the name, and the arguments as that tool takes them."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The tool's name."},
            "arguments": {"type": "object", "description": "Its arguments; without them an empty object."},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
}
"""The one tool that is always there in eager mode, for clients that list tools once and never again."""


def offered_here(tool: Tool) -> bool:
    """Whether a client may call ``tool``: not what only a loop's own host answers."""
    return tool.handler is not None and not tool.manual


class Catalogue:
    """What ``registry`` offers, as ``tools/list`` has it. ``eager`` lists :data:`CALL_TOOL` too.

    A tool is made ready once, and again only when it is another. One that the protocol cannot show is not listed: it
    must not take the others along. A page has ``page`` tools at most.
    """

    def __init__(self, registry: ToolRegistry, *, eager: bool = False, page: int = PAGE) -> None:
        self._registry = registry
        self._page = page
        self._eager = eager
        self.has_call_tool = eager and registry.lookup("call_tool") is None
        self._pages: dict[bool, tuple[ToolSnapshot, Pages] | None] = {True: None, False: None}
        self._shown: dict[bool, dict[str, tuple[Tool, Listed | None]]] = {True: {}, False: {}}
        self._headers: dict[str, tuple[Tool, Mapping[str, Any] | None]] = {}
        self._known: tuple[ToolSnapshot, Mapping[str, _Told]] | None = None
        self._heard: OrderedDict[str, Mapping[str, _Told]] = OrderedDict()

    def page(self, cursor: str | None, *, version: str, session: str) -> Page:
        """What ``tools/list`` answers, whose client has heard of all tools with its last page.

        Raises MCPError for a cursor that was never given out.
        """
        page = self._listed(newest=version in MODERN_PROTOCOL_VERSIONS).after(cursor)
        if self._eager and page.is_last:
            self._hears(session, self._told())
        return page

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The schema of ``name`` where it says which arguments clients copy into headers, for the SDK's check of them.

        None for all others, and for an untrusted tool, which has no say in that.
        """
        tool = self._registry.lookup(name)
        if tool is None or tool.untrusted:
            return None
        known = self._headers.get(name)
        if known is None or known[0] is not tool:
            schema = tool_to_mcp(tool)["inputSchema"]
            known = self._headers[name] = tool, schema if HEADER_KEY in json.dumps(schema) else None
            if len(self._headers) > _MAX_HEADERS:
                del self._headers[next(iter(self._headers))]
        return known[1]

    def names(self) -> str:
        """The names of what is offered now, for a model that called something else. At most 50 of them."""
        names = [tool.name for tool in self._registry.list() if offered_here(tool)]
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        return ", ".join(names[:_SHOWN_NAMES]) + more

    def news(self, session: str) -> str | None:
        """What changed since ``session`` last heard, for its model to read; None where nothing did.

        A session that never asked has heard of everything there is now. The last 1,000 sessions are remembered.
        """
        before, now = self._heard.get(session), self._told()
        self._hears(session, now)
        if before is None or before is now:
            return None
        new = [name for name in now if before.get(name) != now[name]]
        gone = [name for name in before if name not in now]
        if not new and not gone:
            return None
        lines = ["[The tools of this server changed. Call the new ones through call_tool.]"]
        lines += [_described(name, *now[name]) for name in new[:_SHOWN_TOOLS]]
        if len(new) > _SHOWN_TOOLS:
            lines.append(f"{len(new) - _SHOWN_TOOLS} more: {', '.join(new[_SHOWN_TOOLS:][:_SHOWN_NAMES])}")
        if gone:
            lines.append(f"no longer there: {', '.join(gone[:_SHOWN_NAMES])}")
        return "\n".join(lines)

    def _told(self) -> Mapping[str, _Told]:
        """What a model reads of each tool. Not the tools: sessions must not keep old generations alive."""
        snapshot = self._registry.snapshot()
        if self._known is None or self._known[0] is not snapshot:
            told = {tool.name: (tool.description, tool.input_schema) for tool in snapshot.list() if offered_here(tool)}
            self._known = snapshot, told
        return self._known[1]

    def _hears(self, session: str, told: Mapping[str, _Told]) -> None:
        self._heard[session] = told
        self._heard.move_to_end(session)
        while len(self._heard) > _MAX_SESSIONS:
            self._heard.popitem(last=False)

    def _listed(self, *, newest: bool) -> Pages:
        snapshot = self._registry.snapshot()
        known = self._pages[newest]
        if known is None or known[0] is not snapshot:
            known = self._pages[newest] = snapshot, self._pages_of(snapshot, newest=newest)
        return known[1]

    def _pages_of(self, snapshot: ToolSnapshot, *, newest: bool) -> Pages:
        tools = {tool.name: tool for tool in snapshot.list() if offered_here(tool)}
        before = self._shown[newest]
        made = {name: before[name] for name, tool in tools.items() if name in before and before[name][0] is tool}
        self._shown[newest] = made

        def show(name: str) -> Listed | None:
            if self.has_call_tool and name == CALL_TOOL["name"]:
                return Listed(dict(CALL_TOOL), weight_of(CALL_TOOL))
            if name not in made:
                made[name] = tools[name], _shown(tools[name], newest=newest)
            return made[name][1]

        untrusted = {name: tool.untrusted for name, tool in tools.items()}
        if self.has_call_tool:
            untrusted[CALL_TOOL["name"]] = False
        return Pages(untrusted, show=show, most=self._page)


def _shown(tool: Tool, *, newest: bool) -> Listed | None:
    """``tool`` as it is listed; None where the protocol's own schema refuses it."""
    shown = tool_to_mcp(tool, newest=newest)
    page = {"tools": [shown], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    try:
        serialize_server_result("tools/list", LATEST_MODERN_VERSION if newest else LATEST_HANDSHAKE_VERSION, page)
    except ValidationError:
        return None
    return Listed(shown, weight_of(shown))


def _described(name: str, description: str, input_schema: Mapping[str, Any]) -> str:
    # As JSON: what a tool's author wrote stays inside its quotes.
    about: dict[str, Any] = {"name": name, "description": inert(description, limit=500)}
    schema = thaw(input_schema)
    if len(json.dumps(schema)) <= _SHOWN_SCHEMA_CHARS:
        about["inputSchema"] = schema
    return json.dumps(about, ensure_ascii=False)
