"""A toolset of pydantic-ai over a runner: live tools, its own errors, and deferred calls for what waits for somebody.

Importing this needs the extra ``pydantic-ai``. ``Agent(..., toolsets=[RhoToolset(host.runner)])`` is all; an agent
whose tools may wait has ``DeferredToolRequests`` among its ``output_type``, as pydantic-ai demands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import SchemaValidator, core_schema

from rho_wasm.calls import ToolCall
from rho_wasm.frozen import thaw
from rho_wasm.offered import ToolSnapshot
from rho_wasm.plain import jsonable
from rho_wasm.portable import object_schema
from rho_wasm.results import ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.tools import Tool

try:
    from pydantic_ai import BinaryContent, CallDeferred, ModelRetry, RunContext, ToolReturn
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ImportError as error:
    raise ImportError("this needs pydantic-ai: pip install 'rho-wasm[pydantic-ai]'") from error

__all__ = ["RhoToolset", "tool_to_pydantic_ai"]

_ANY_OBJECT: Final = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
"""The runner checks arguments against the tool's own schema."""


def tool_to_pydantic_ai(tool: Tool) -> ToolDefinition:
    """``tool`` as pydantic-ai describes it. One that is manual, or that nothing here answers, is ``external``."""
    waits = tool.manual or tool.handler is None
    hints = {name: getattr(tool, name) for name in ("read_only", "destructive", "idempotent")}
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=object_schema(tool.input_schema),
        kind="external" if waits else "function",
        return_schema=None if tool.output_schema is None else thaw(tool.output_schema),
        metadata={"rho_wasm": {"untrusted": tool.untrusted, **hints}},
    )


@dataclass(kw_only=True)
class _Offered(ToolsetTool[Any]):
    """A tool as one step of a run was shown it: its calls are answered from that, whatever switches meanwhile."""

    snapshot: ToolSnapshot


class RhoToolset(AbstractToolset[Any]):
    """The tools that ``runner`` offers, listed anew for every step of a run.

    What a tool answers is its text, with its pictures; its details are the metadata of the return. What pydantic-ai
    reads of the others:

    * arguments that are refused: ``ModelRetry``, at most ``max_retries`` times for one tool (a text that is no JSON
      pydantic-ai answers itself, so nothing of that is mended here);
    * every other failure, reported or not: ``ToolFailed``, which costs no retry;
    * a question (``AskUser``): the run ends with a deferred call of the kind ``question``, whose metadata has
      ``question`` and ``options``; what is given for it is the call's result, and the tool is not called again;
    * ``Halt``: the run ends with a deferred call whose metadata has ``halt`` and ``value``;
    * a manual tool: a deferred call, as pydantic-ai has it for ``external`` tools.

    Handlers are told the run's ``deps`` as their ``context``, its conversation as session and its id as request.
    """

    def __init__(self, runner: ToolRunner, *, id: str | None = None, max_retries: int = 3) -> None:
        self._runner = runner
        self._id = id
        self._max_retries = max_retries

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        snapshot = self._runner.registry.snapshot()
        return {
            tool.name: _Offered(
                toolset=self,
                tool_def=tool_to_pydantic_ai(tool),
                max_retries=self._max_retries,
                args_validator=_ANY_OBJECT,
                snapshot=snapshot,
            )
            for tool in snapshot.list()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> ToolReturn[Any]:
        result = await self._runner.run(
            ToolCall(id=ctx.tool_call_id or "", name=name, arguments=tool_args),
            tools=tool.snapshot if isinstance(tool, _Offered) else None,
            context=ctx.deps,
            session_id=ctx.conversation_id,
            request_id=ctx.run_id,
            model=ctx.model,
        )
        return _returned(result)


def _returned(result: ToolResult) -> ToolReturn[Any]:
    if result.status == "ask_user":
        options: Mapping[str, Any] = result.options or {}
        raise CallDeferred({"question": result.text, "options": jsonable(options)}, kind="question")
    if result.status == "halt":
        raise CallDeferred({"halt": result.halt_reason, "value": jsonable(result.value)})
    if result.reason == "invalid_arguments":
        raise ModelRetry(result.text)
    if result.status == "error":
        raise ToolFailed(result.text)
    pictures = [BinaryContent(image.data, media_type=image.mime_type) for image in result.images]
    details = None if result.details is None else jsonable(result.details)
    return ToolReturn([result.text, *pictures] if pictures else result.text, metadata=details)
