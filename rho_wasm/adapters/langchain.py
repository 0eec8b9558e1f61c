"""Tools of LangChain over a runner. Importing this needs the extra ``langchain``.

``model.bind_tools(langchain_tools(host.runner))``, or the tools of an agent. Each is asked for by its name when it is
called, so what answers is what is live then.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from rho_wasm.adapters.shapes import encoded
from rho_wasm.calls import ToolCall
from rho_wasm.portable import object_schema
from rho_wasm.results import ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.tools import Tool

try:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, ToolException
except ImportError as error:
    raise ImportError("this needs langchain-core: pip install 'rho-wasm[langchain]'") from error

__all__ = ["RhoTool", "langchain_tools"]


def langchain_tools(runner: ToolRunner) -> list[BaseTool]:
    """The tools that ``runner`` offers now, each a :class:`RhoTool`, but for those that are manual.

    LangChain has no call that waits for its caller: a manual tool can be bound to a model as a map
    (:func:`rho_wasm.adapters.openai.tools_to_openai`), and its calls answered by whoever reads them.
    """
    tools = runner.registry.snapshot().list()
    return [RhoTool.of(tool, runner) for tool in tools if not tool.manual and tool.handler is not None]


class RhoTool(BaseTool):
    """One tool of a runner. Async only, as the runner is: ``ainvoke``, ``arun``, or an agent that is awaited.

    The content is the tool's text, and its pictures as image blocks. The artifact is the whole result as JSON
    (``status``, ``kind``, ``value``, ``options``, ``details``, ...): by its ``status`` a question (``ask_user``, whose
    content is the question) and a ``halt`` are told from an answer. A failure is a ``ToolException``, which is handled:
    its message becomes one of the status ``error``, that the model reads. Set ``handle_tool_error`` to None to have it.
    """

    runner: Any = None
    """The :class:`ToolRunner`."""
    context: Callable[[RunnableConfig], Any] | None = None
    """What handlers are told as their ``context``, of the configuration of the call. None: the configuration."""

    @classmethod
    def of(cls, tool: Tool, runner: ToolRunner, **fields: Any) -> RhoTool:
        """``tool`` of ``runner`` for LangChain; ``fields`` are those of ``BaseTool`` and ``context``."""
        return cls(
            **{
                "name": tool.name,
                "description": tool.description,
                "args_schema": object_schema(tool.input_schema),
                "response_format": "content_and_artifact",
                "handle_tool_error": True,
                "metadata": {"untrusted": tool.untrusted, "read_only": tool.read_only},
                "runner": runner,
                **fields,
            }
        )

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # By position: an argument of the tool may be called as one of LangChain's own (config, run_manager).
        return (tool_input, tool_call_id), {}

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a runner is async: use ainvoke")

    async def _arun(self, arguments: Any, call_id: str | None, *, config: RunnableConfig) -> tuple[Any, dict[str, Any]]:
        thread = (config.get("configurable") or {}).get("thread_id")
        run_id = config.get("run_id")
        result: ToolResult = await self.runner.run(
            ToolCall(id=call_id or uuid.uuid4().hex, name=self.name, arguments=arguments),
            context=config if self.context is None else self.context(config),
            session_id=thread if isinstance(thread, str) else None,
            request_id=None if run_id is None else str(run_id),
        )
        if result.status == "error":
            raise ToolException(result.text)
        return _content(result), _artifact(result)


def _content(result: ToolResult) -> str | list[dict[str, Any]]:
    if not result.images:
        return result.text
    pictures = [{"type": "image", "base64": encoded(image), "mime_type": image.mime_type} for image in result.images]
    return [{"type": "text", "text": result.text}, *pictures]


def _artifact(result: ToolResult) -> dict[str, Any]:
    whole = result.as_json()
    return {key: value for key, value in whole.items() if key not in ("text", "images")}
