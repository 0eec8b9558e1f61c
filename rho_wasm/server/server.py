"""The MCP server: a runner's tools under the newest version of the protocol and those before it."""

from __future__ import annotations

import importlib.metadata
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from rho_wasm.events import Event, GenerationSwitched, SourceFailed, ToolProgress, ToolQuarantined
from rho_wasm.names import WORKSHOP
from rho_wasm.runner import ToolRunner
from rho_wasm.server.asking import ANSWER_S
from rho_wasm.server.calling import Calls
from rho_wasm.server.catalogue import Catalogue
from rho_wasm.server.changes import ToolChanges
from rho_wasm.server.feed import EventFeed
from rho_wasm.server.listing import Listing
from rho_wasm.server.session_desk import peer_of
from rho_wasm.server.sessions import Domain, session_of
from rho_wasm.server.shares import Shares

__all__ = ["McpServer"]

_MAX_SUBSCRIPTIONS = 1_000
_WAITING_CHANGES = 64

_INSTRUCTIONS = (
    "The tools of this server change while you work: list them again when you are told so. A text that ends with "
    "[cut: ...] is read on with read_artifact."
)
_EAGER_INSTRUCTIONS = (
    "The tools of this server change while you work. What changed stands at the end of a tool's result; call new tools "
    "through call_tool. A text that ends with [cut: ...] is read on with read_artifact."
)
_WORKSHOP_INSTRUCTIONS = (
    " Where no tool does what you need, make one: write_tool builds a source, test_tool tries it, switch_tools makes "
    "it one of your tools, roll_back_tools undoes that; tool_status and read_tool tell how things stand."
)


class McpServer(Server[Domain]):
    """Serves what ``runner`` runs: every tool of its registry that has a handler and is not manual.

    ``feed`` is the ``on_event`` of the runner and of its host: progress of calls and switches of generations are heard
    there, at once. Without it progress is not told, and changes are seen within half a second. ``eager`` is for clients
    that list tools once: one stable ``call_tool`` that calls any tool, and at the end of each result what changed.

    One connection over stdio or in memory is one session; over HTTP see :func:`rho_wasm.server.sessions.session_of`.
    Questions are answered within ten minutes, and only by the session that was asked: their state is sealed with a key
    that this object alone has. One server belongs to one event loop.
    """

    def __init__(
        self, runner: ToolRunner, *, feed: EventFeed | None = None, eager: bool = False, name: str = "rho-wasm"
    ) -> None:
        self.changes = ToolChanges(runner.registry)
        self.listeners = ListenHandler(
            self.changes.bus, max_subscriptions=_MAX_SUBSCRIPTIONS, max_buffered_events=_WAITING_CHANGES
        )
        self._shares = Shares(_MAX_SUBSCRIPTIONS)
        self.catalogue = Catalogue(runner.registry, eager=eager)
        listing = Listing(self.catalogue)
        self._calls = Calls(runner, self.catalogue, eager=eager)
        super().__init__(
            name,
            version=importlib.metadata.version("rho-wasm"),
            instructions=_instructions(runner, eager=eager),
            lifespan=self._domain,
            get_tool_input_schema=self.catalogue.input_schema,
            on_list_tools=listing.handle,  # type: ignore[arg-type]  # The SDK takes dicts; its overload names models only.
            on_call_tool=self._calls.call,  # type: ignore[arg-type]
            on_subscriptions_listen=self._listen,
        )
        self.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self.changes.tell_older_client
        )
        security = RequestStateSecurity(keys=[secrets.token_bytes(32)], ttl=ANSWER_S, bind_principal=session_of)
        self.middleware.append(listing)
        self.middleware.append(RequestStateBoundary(security, default_audience=name))
        if feed is not None:
            feed.subscribe(self._hear)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What older clients are greeted with: that they will be told of changes, unless something else is said."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(tools_changed=True), experimental_capabilities, extensions
        )

    @asynccontextmanager
    async def _domain(self, _: Server[Domain]) -> AsyncIterator[Domain]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.changes.run)
            yield Domain.new()
            group.cancel_scope.cancel()

    async def _listen(
        self, ctx: ServerRequestContext[Domain, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        peer = peer_of(ctx.request.scope) if isinstance(ctx.request, Request) else ""
        with self._shares.one(peer) as given:
            if not given:
                raise MCPError(types.INTERNAL_ERROR, f"One address has {self._shares.of_one} subscriptions at most")
            return await self.listeners(ctx, params)

    def _hear(self, event: Event) -> None:
        if isinstance(event, ToolProgress):
            self._calls.hear(event)
        elif isinstance(event, GenerationSwitched | ToolQuarantined | SourceFailed):
            self.changes.nudge()


def _instructions(runner: ToolRunner, *, eager: bool) -> str:
    said = _EAGER_INSTRUCTIONS if eager else _INSTRUCTIONS
    offered = {tool.name for tool in runner.registry.core_tools()}
    return said + _WORKSHOP_INSTRUCTIONS if offered >= set(WORKSHOP) else said
