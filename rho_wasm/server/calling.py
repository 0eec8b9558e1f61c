"""``tools/call``: one call of the protocol is one call of the runner, of what is live when it comes."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from rho_wasm.adapters.mcp import RESULT_KEY, declares_answers, result_to_mcp
from rho_wasm.calls import ToolCall
from rho_wasm.events import ToolProgress
from rho_wasm.results import ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.server.asking import answer_to_retry, asked_now, asked_on_retry, question_text, told
from rho_wasm.server.catalogue import Catalogue, offered_here
from rho_wasm.server.lanes import Lanes
from rho_wasm.server.sessions import client_of, session_of
from rho_wasm.tools import Tool
from rho_wasm.untrusted import inert

__all__ = ["Calls"]

_WAITING_PROGRESS = 16
_ID_CHARS = 64
_MESSAGE_CHARS = 500


class Calls:
    """Answers ``tools/call``. A client that cancels, or goes, stops its call: its task is cancelled, and so the guest.

    ``eager`` appends what changed among the tools to each result, for clients that do not listen for changes.
    """

    def __init__(self, runner: ToolRunner, catalogue: Catalogue, *, eager: bool = False) -> None:
        self._runner = runner
        self._catalogue = catalogue
        self._eager = eager
        # Several servers may share a feed, which tells of calls by their ids.
        self._ids = map(f"mcp-{secrets.token_hex(4)}-{{}}".format, itertools.count(1))
        self._progress: dict[str, _Progress] = {}
        self._lanes = Lanes()

    async def call(self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> dict[str, Any]:
        """The result of one call; tools' faults are in it. Raises MCPError for a tool that is not offered.

        A retry with a question's state is answered from that alone.
        """
        if params.request_state is not None:
            return answer_to_retry(params.request_state, params.input_responses)
        name, arguments = params.name, params.arguments or {}
        through = name == "call_tool" and self._catalogue.has_call_tool
        if through:
            if (inner := _inner(arguments)) is None:
                usage = 'call_tool takes {"name": text, "arguments": object}, where an object may be left out'
                return told(usage, is_error=True)
            name, arguments = inner
        session = session_of(ctx)
        tool = self._runner.registry.lookup(name)
        if tool is not None and not offered_here(tool):
            tool = None
        why = None if tool is not None or self._runner.advise is None else self._runner.advise.absent(name)
        if tool is None and not through and why is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {inert(name, limit=_ID_CHARS)}")
        if tool is None:
            said = f"there is no tool {inert(name, limit=_ID_CHARS)}; there are: {self._catalogue.names()}"
            shown = told(said if why is None else f"{said}\n[{why}]", is_error=True)
        else:
            call = ToolCall(id=next(self._ids), name=name, arguments=arguments)
            result = await self._run(ctx, call, session)
            shown = await self._shown(ctx, result, tool, through=through)
        if self._eager and shown["resultType"] == "complete" and (news := self._catalogue.news(session)) is not None:
            shown["content"].append({"type": "text", "text": news})
        return shown

    def hear(self, event: ToolProgress) -> None:
        """Passes a call's progress on to the client that waits for it, if it asked for that."""
        progress = self._progress.get(event.call.id)
        if progress is not None:
            progress.put(event)

    async def _run(self, ctx: ServerRequestContext[Any, Any], call: ToolCall, session: str) -> ToolResult:
        if ctx.meta is None or ctx.meta.get("progress_token") is None:
            return await self._one(ctx, call, session)
        progress = self._progress[call.id] = _Progress(ctx)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(progress.tell)
                result = await self._one(ctx, call, session)
                progress.end()
            return result
        finally:
            del self._progress[call.id]

    async def _one(self, ctx: ServerRequestContext[Any, Any], call: ToolCall, session: str) -> ToolResult:
        request_id = None if ctx.request_id is None else inert(str(ctx.request_id), limit=_ID_CHARS)
        async with self._lanes.turn(call.name):
            return await self._runner.run(call, context=client_of(ctx), session_id=session, request_id=request_id)

    async def _shown(
        self, ctx: ServerRequestContext[Any, Any], result: ToolResult, tool: Tool, *, through: bool
    ) -> dict[str, Any]:
        newest = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        # call_tool itself declares no schema of its answers.
        shown = result_to_mcp(result, tool=None if through else tool, newest=newest)
        if result.status != "ask_user":
            return shown
        declares = not through and declares_answers(tool, newest=newest)
        asked = asked_on_retry(ctx, result, declares=declares) or await asked_now(ctx, result, declares=declares)
        if asked is None:
            shown["content"][0]["text"] = question_text(result)
            return shown
        return {"_meta": {RESULT_KEY: shown["_meta"][RESULT_KEY]}, **asked}


class _Progress:
    """What one call said of its progress and its client has not been told yet: the first that wait, at most 16."""

    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._ctx = ctx
        self._send, self._receive = anyio.create_memory_object_stream[ToolProgress](_WAITING_PROGRESS)
        self._last: float | None = None

    def put(self, event: ToolProgress) -> None:
        """Drops what comes while the client does not read, and what does not go forward, as the protocol demands."""
        if self._last is not None and event.done <= self._last:
            return
        try:
            self._send.send_nowait(event)
        except (anyio.WouldBlock, anyio.ClosedResourceError):
            return
        self._last = event.done

    def end(self) -> None:
        """The call is over: what waits is told, and no more."""
        self._send.close()

    async def tell(self) -> None:
        """Tells the client until the end of the call."""
        with self._receive:
            async for event in self._receive:
                text = inert(event.text, limit=_MESSAGE_CHARS) if event.text else None
                await self._ctx.session.report_progress(event.done, event.total, text)


def _inner(arguments: Mapping[str, Any]) -> tuple[str, Any] | None:
    """What ``call_tool`` is to call; None where its arguments are others than it takes.

    Text and null pass for an object: the runner reads or refuses them, as it does where a tool is called by its name.
    """
    name, inner = arguments.get("name"), arguments.get("arguments", {})
    if (
        not isinstance(name, str)
        or not isinstance(inner, dict | str | None)
        or arguments.keys() - {"name", "arguments"}
    ):
        return None
    return name, inner
