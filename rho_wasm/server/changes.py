"""Tells clients that the tools changed: on the SDK's subscription bus, and older ones by a notification."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent, ToolsListChanged

from rho_wasm.offered import ToolSnapshot
from rho_wasm.registry import ToolRegistry
from rho_wasm.server.sessions import session_of

__all__ = ["ToolChanges"]

_LOOK_EVERY_S = 0.5
"""How soon a change that no event tells of is seen (a tool that the host registered, a source's own refresh)."""
_MAX_TOLD = 1_000
"""Connections of older clients that are told at once."""


class ToolChanges:
    """Watches what ``registry`` offers and publishes every change on :attr:`bus`.

    ``run`` may run several times at once, once for each connection: a change is still told once.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self.bus = InMemorySubscriptionBus()
        self._registry = registry
        self._seen: ToolSnapshot = registry.snapshot()
        self._nudged = anyio.Event()
        self._told: set[str] = set()

    def nudge(self) -> None:
        """Something happened that may have changed the tools: they are looked at soon. In the event loop's thread."""
        self._nudged.set()

    async def run(self) -> None:
        """Looks at every nudge, and every half second. Until it is cancelled."""
        while True:
            await self.look()
            if self._nudged.is_set():
                self._nudged = anyio.Event()
            with anyio.move_on_after(_LOOK_EVERY_S):
                await self._nudged.wait()

    async def look(self) -> None:
        """Publishes a change since the last look, if there was one."""
        now = self._registry.snapshot()
        if now is not self._seen:
            self._seen = now
            await self.bus.publish(ToolsListChanged())

    async def tell_older_client(self, ctx: ServerRequestContext[Any, Any], params: types.NotificationParams) -> None:
        """Handles ``notifications/initialized``: from then on, as long as its connection lasts, a client is told.

        The SDK runs a notification's handler in its connection's own task group, so this ends with the connection. A
        client that falls behind is told once of all that it missed. Beyond 1,000 connections further ones are not told.
        """
        session = session_of(ctx)
        if session in self._told or len(self._told) >= _MAX_TOLD:
            return
        changed = anyio.Event()

        def hear(event: ServerEvent) -> None:
            changed.set()

        unsubscribe = self.bus.subscribe(hear)
        self._told.add(session)
        try:
            while True:
                await changed.wait()
                changed = anyio.Event()
                await ctx.session.send_tool_list_changed()
        finally:
            self._told.discard(session)
            unsubscribe()
