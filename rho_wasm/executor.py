"""Invokes one handler, and tells a failure that it reported from a crash.

The distinction is load-bearing. A handler that answers ``Failed("no such user")`` has *reported* a failure: the model
reads it as it is. One that raises has *crashed*: that is retried, aborted on and counted. The two never merge.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import CoroutineType
from typing import Any, Protocol, cast

from rho_wasm.answers import checked, is_host_made
from rho_wasm.calls import ToolContext
from rho_wasm.cancellation import Watermark, leaves, let_through
from rho_wasm.errors import ToolError
from rho_wasm.host_threads import HostThreads, NoThread
from rho_wasm.results import Failed, HandlerResult, Ok
from rho_wasm.tools import ArgumentsRefused, Tool
from rho_wasm.untrusted import exception_text, exception_trace

__all__ = ["DefaultExecutor", "ToolExecutor", "fault_of"]


class ToolExecutor(Protocol):
    """How a handler is invoked. No retries and no timeouts: the runner bounds a call by cancelling it."""

    async def execute(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> HandlerResult:
        """What the handler answered, unchanged. Raises :class:`ToolError` where it did not answer."""
        ...


class DefaultExecutor:
    """Awaits async handlers in the caller's task; runs sync ones in daemon threads of ``threads``.

    What becomes of a handler: an answer passes through; no handler is ``not_found``; an answer of another shape is
    ``invalid_return``; an exception is ``handler_raised`` (its own TimeoutError too); SystemExit, and a cancellation
    that nobody asked for, is ``handler_exit``; ``overloaded`` if too many sync handlers were abandoned before it. The
    caller's own cancellation and KeyboardInterrupt go through, never inside an exception group. A ``ToolError`` is
    taken at its word only from handlers that the host made itself (they say so with ``trusted_errors``).
    """

    def __init__(self, *, threads: HostThreads | None = None) -> None:
        self.threads = threads or HostThreads()

    async def execute(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> HandlerResult:
        if tool.handler is None:
            raise ToolError("not_found", tool=tool.name, detail="it is declared, but nothing here answers it")
        answer: Any
        if tool.is_async and is_host_made(tool):
            # It raises ToolErrors; what else it may raise the runner judges, as it does with every executor.
            answer = await tool.invoke(arguments, context)
            return answer if type(answer) is Ok and answer.images == () else checked(answer, tool)
        answer = None
        raised: BaseException | None = None
        watermark = Watermark()
        try:
            if tool.is_async:
                answer = await tool.invoke(arguments, context)
            else:
                outcome = await self.threads.run(tool.invoke, arguments, context)
                # Not raised here, where it would pass for this task's own: a StopIteration would end this coroutine.
                answer, raised = outcome.value, outcome.error
                if type(answer) is CoroutineType or (not tool.untrusted and inspect.isawaitable(answer)):
                    answer = await answer
        except NoThread as error:
            bound = self.threads.max_abandoned
            raise ToolError(
                "overloaded", tool=tool.name, limit="max_abandoned_handlers", value=bound, detail=str(error)
            ) from None
        except BaseException as error:
            let_through(error, watermark)
            raised = error
        try:
            if raised is not None:
                if not issubclass(type(raised), Failed):
                    raise fault_of(raised, tool, watermark)
                answer = raised
            return checked(answer, tool)
        finally:
            raised = None  # its traceback holds this frame: together they would wait for a garbage collection


def fault_of(error: BaseException, tool: Tool, watermark: Watermark) -> ToolError:
    """What it means that ``error`` came out of the handler of ``tool``: see :class:`DefaultExecutor`.

    For what :func:`rho_wasm.cancellation.let_through` did not raise; KeyboardInterrupt of a thread is raised here.
    """
    let_through(error, None)
    kind = type(error)  # asked of the type alone: isinstance would run a __class__ of the error's own
    if issubclass(kind, ArgumentsRefused) or (issubclass(kind, ToolError) and is_host_made(tool)):
        return cast(ToolError, error)
    leaving = (SystemExit, GeneratorExit, watermark.cancelled_class)
    exited = any(issubclass(type(leaf), leaving) for leaf in leaves(error))
    return ToolError(
        "handler_exit" if exited else "handler_raised",
        tool=tool.name,
        detail=exception_text(error, trusted=not tool.untrusted),
        backtrace=exception_trace(error),
        cause=None if tool.untrusted else error,
    )
