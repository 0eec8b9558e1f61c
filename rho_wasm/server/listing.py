"""``tools/list`` as clients ask for it: a page is made ready for the wire once, and sent to one of them at a time."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from rho_wasm.server.catalogue import Catalogue
from rho_wasm.server.sessions import Domain, session_of

__all__ = ["Listing"]

_METHOD = "tools/list"


class Listing:
    """Answers from ``catalogue``. As a middleware of the SDK it keeps what the SDK made of a page, for the next client.

    What of a page is still made for each of them, its JSON, holds the event loop. So they go on one by one, and
    whoever calls a tool meanwhile waits for one of them and not for all.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._turn = anyio.Lock()

    async def handle(
        self, ctx: ServerRequestContext[Domain, Any], params: types.PaginatedRequestParams | None
    ) -> dict[str, Any]:
        """The page that was asked for. Raises MCPError for a cursor that was never given out."""
        cursor = None if params is None else params.cursor
        return self._catalogue.page(cursor, version=ctx.protocol_version, session=session_of(ctx)).result

    async def __call__(self, ctx: ServerRequestContext[Domain, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method != _METHOD:
            return await call_next(ctx)
        async with self._turn:
            await anyio.lowlevel.checkpoint()
            version = ctx.protocol_version
            cursor = None if ctx.params is None else ctx.params.get("cursor")
            # Whether a client was greeted, and what it sent otherwise, the SDK looks at.
            greeted = version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None
            if not greeted or not (cursor is None or isinstance(cursor, str)):
                return await call_next(ctx)
            page = self._catalogue.page(cursor, version=version, session=session_of(ctx))
            wire = page.wire.get(version)
            if wire is None:
                made = await call_next(ctx)
                if not isinstance(made, dict):
                    return made
                wire = page.wire[version] = made
            return wire
