"""``tool.call``: a tool calls another, through the same look-up, schema, gate, limits and strikes as a model's call.

``tool.call {"name", "arguments"?}`` answers ``{"value": plain}``, or ``{"error": plain}`` where the other tool reports
a failure. Its images and details are not passed on; the log says how many images were left out.

The called tool acts for the same session and request, and is answered from the tools that the model was shown in this
turn. It has the time that its caller has left, and a deadline inherited like this is no strike. What it does wrong is
its own fault, so its caller is told ``unavailable``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.capabilities.capability import Arguments, Capability, CapabilityContext
from rho_wasm.errors import CapabilityError
from rho_wasm.grants import ToolCallBounds
from rho_wasm.names import MAX_NAME_CHARS, RESERVED, WORKSHOP
from rho_wasm.patterns import matches
from rho_wasm.results import ToolResult
from rho_wasm.untrusted import inert

__all__ = ["RunTool", "ToolCallArguments", "tool_capabilities"]

RunTool: TypeAlias = Callable[[ToolCall, ToolContext, int], Awaitable[ToolResult]]
"""``(call, caller, timeout_ms)``: runs a call for the tool whose call ``caller`` is the context of. What
:meth:`rho_wasm.runner.ToolRunner.run_for` does."""

_CAPABILITY: Final = "tool.call"
_NEVER: Final = frozenset({*WORKSHOP, "call_tool"})
"""A tool that could make, switch or name tools would hand on more than it was granted."""
_TOLD: Final = frozenset({"invalid_arguments", "blocked"})
"""Reasons of which the caller reads what the model would. Texts of crashes may be those of a host's exceptions."""
_TEXT_CHARS: Final = 500
_WARNING: Final = 30


class ToolCallArguments(Arguments):
    """Of ``tool.call``."""

    name: Annotated[str, Field(max_length=MAX_NAME_CHARS)]
    arguments: dict[str, Any] = Field(default_factory=dict)


def tool_capabilities(run: RunTool) -> tuple[Capability, ...]:
    """``tool.call``, which has calls run by ``run``.

    Raised as :class:`CapabilityError`. ``denied``: a tool that the grant does not name, and in every case the
    workshop's tools and ``call_tool``; the host's other own tools (``read_artifact``, ``todo``) unless the grant says
    their very name; a tool that waits for this call already (itself, through however many others); calls nested
    deeper than ``Limits.host_call_depth`` of any tool in the chain; a tool that is not offered, is manual, was blocked,
    asks the user or halts. ``invalid_arguments``: they do not fit the tool's schema. ``quota``: more than ``calls`` of
    the grant. ``unavailable``: it crashed, is quarantined, was cancelled, or the host has no room for it.
    """

    async def call(arguments: ToolCallArguments, context: CapabilityContext) -> dict[str, Any]:
        bounds: ToolCallBounds = context.bounds
        name, caller = arguments.name, context.context
        _check_granted(name, bounds)
        _check_chain(name, caller)
        number = context.used.get(_CAPABILITY, 0) + 1
        if number > bounds.calls:
            raise CapabilityError("quota", f"one call may call other tools {bounds.calls} times")
        context.used[_CAPABILITY] = number
        for waiting in (caller, *caller.callers()):
            waiting.meter.called |= {name}
        made = ToolCall(id=f"{caller.call.id}/{number}", name=name, arguments=arguments.arguments)
        return _reply(await run(made, caller, max(1, int(context.remaining_ms))), name, context)

    return (Capability(name=_CAPABILITY, arguments=ToolCallArguments, bounds=ToolCallBounds, later=call),)


def _check_granted(name: str, bounds: ToolCallBounds) -> None:
    if name in _NEVER:
        raise CapabilityError("denied", f"no tool may call {name}")
    granted = name in bounds.tools if name in RESERVED else any(matches(tool, name) for tool in bounds.tools)
    if not granted:
        raise CapabilityError("denied", f"the grant does not name the tool {_shown(name)}")


def _check_chain(name: str, caller: ToolContext) -> None:
    for depth, waiting in enumerate((caller, *caller.callers()), start=1):
        if waiting.call.name == name:
            raise CapabilityError("denied", f"{name} waits for this call already: it cannot be called by what it calls")
        if depth > waiting.meter.call_depth:
            bound = waiting.meter.call_depth
            raise CapabilityError("denied", f"calls of tools by tools are nested too deeply (host_call_depth={bound})")


def _reply(result: ToolResult, name: str, context: CapabilityContext) -> dict[str, Any]:
    if result.status in ("ask_user", "halt"):
        what = "asks the user" if result.status == "ask_user" else "halts the loop"
        raise CapabilityError("denied", f"{name} {what}: a tool that another one calls cannot")
    if result.reason == "not_found":
        context.log(_WARNING, f"{_CAPABILITY}: no tool called {inert(name, limit=100)} is offered here")
    if result.kind not in ("ok", "failed"):
        raise _refusal(result, name)
    if result.images:
        context.log(_WARNING, f"images of {name} left out: {len(result.images)}; tools pass on plain data alone")
    return {"error" if result.kind == "failed" else "value": result.value}


def _refusal(result: ToolResult, name: str) -> CapabilityError:
    told = f"{name} did not answer ({result.reason})"
    if result.reason in _TOLD:
        told = inert(result.text, limit=_TEXT_CHARS)
    if result.reason == "invalid_arguments":
        return CapabilityError("invalid_arguments", told)
    withdrawn = result.reason == "quarantined"
    return CapabilityError("denied" if result.kind == "refused" and not withdrawn else "unavailable", told)


def _shown(name: str) -> str:
    return f"'{inert(name, limit=100)}'"
