"""How much the tools of a workshop declare: every client that lists tools is sent all of it, and its model reads it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from rho_wasm.dynamic.generation import Candidate, Generation, ToolVersion, VersionKey
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.errors import StoreError
from rho_wasm.frozen import thaw
from rho_wasm.manifest import ToolDeclaration
from rho_wasm.plain import json_text
from rho_wasm.results import Failed
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert
from rho_wasm.workshop.authors import Authors
from rho_wasm.workshop.limits import WorkshopLimits
from rho_wasm.workshop.rates import share_of

__all__ = ["Declared"]

_SIZES = 2_000


class Declared:
    """Descriptions and schemas, as bytes of JSON, within the bounds of ``limits``. For any thread."""

    def __init__(self, source: DynamicSource, *, authors: Authors, limits: WorkshopLimits) -> None:
        self._source = source
        self._authors = authors
        self._limits = limits
        self._sizes: OrderedDict[VersionKey, int] = OrderedDict()

    def check_one(self, tools: Iterable[ToolDeclaration]) -> None:
        """Raises :class:`Failed` for a tool that declares too much by itself."""
        most = self._limits.declared_bytes
        for tool in tools:
            if (size := _size(tool)) > most:
                raise Failed(
                    f"the description and the schemas of {inert(tool.name, limit=64)} have {size} bytes, of {most} "
                    "that they may have: every client is sent them. Shorten them, or take one argument that holds many",
                    details={"reason": "declares_too_much", "tool": tool.name, "limit": most},
                )

    def check(self, candidate: Candidate, live: Generation, session_id: str | None) -> None:
        """Raises :class:`Failed` where what is live would declare too much with ``candidate``.

        What declares no more than before may always go live. Reads the store: not on the event loop's thread.
        """
        changes = candidate.changes
        brought = {name: candidate.tools[name] for name in (*changes.added, *changes.changed)}
        gone = {name: live.tools[name] for name in changes.names if name in live.tools}
        more = self._sum(brought)
        if more <= self._sum(gone):
            return
        kept = {name: version for name, version in live.tools.items() if name not in changes.names}
        ours = self._of(Authors(self._authors.workshop), session_id, kept)
        own = self._of(Authors(self._authors.workshop, shared=False), session_id, kept)
        mine = self._sum(own)
        others = self._sum({name: version for name, version in ours.items() if name not in own})
        most = share_of(self._limits.declared_bytes_of_all, others=others)
        if mine + more > most:
            raise Failed(
                f"descriptions and schemas would have {mine + more} bytes with it, of {most} that those of one session "
                'may have together: shorten them, or take tools away that nobody needs: switch_tools with {"remove": '
                "[NAME]}; tool_status lists them",
                details={"reason": "declares_too_much", "limit": most},
            )

    def _of(
        self, authors: Authors, session_id: str | None, tools: Mapping[str, ToolVersion]
    ) -> Mapping[str, ToolVersion]:
        """Those of ``tools`` that nobody but these authors changed."""
        foreign = authors.foreign(self._source.store, session_id).by_name
        return {name: version for name, version in tools.items() if name not in foreign}

    def _sum(self, tools: Mapping[str, ToolVersion]) -> int:
        return sum(self._size_of(VersionKey(name, version.artifact)) for name, version in tools.items())

    def _size_of(self, key: VersionKey) -> int:
        if (known := self._sizes.get(key)) is None:
            try:
                tool = self._live(key) or self._source.store.artifact(key.artifact).manifest.tool(key.tool)
            except StoreError:
                tool = None  # Damaged, so it is not offered.
            known = self._sizes[key] = 0 if tool is None else _size(tool)
            if len(self._sizes) > _SIZES:
                self._sizes.popitem(last=False)
        return known

    def _live(self, key: VersionKey) -> Tool | None:
        """As it is offered: its artifact may be large, and need not be read for this."""
        live = self._source.live()
        tool = self._source.lookup(key.tool)
        version = live.tools.get(key.tool)
        same = self._source.live() is live and version is not None and version.artifact == key.artifact
        return tool if same else None


def _size(tool: Tool | ToolDeclaration) -> int:
    text, _ = json_text([tool.description, thaw(tool.input_schema), thaw(tool.output_schema)])
    return len(text.encode())
