"""The call gate: host code that allows or blocks one call before its clock starts.

A gate is closed unless it says otherwise: the call runs only if the gate answers exactly ``Allow()``. ``Block(reason)``
is read by the model as ``Blocked: <reason>``; raising or answering anything else is ``gate_failed``.

Write gates ``async``: they run in the caller's task and may wait for a person as long as they like. A sync gate runs in
a daemon thread of the host's own, so one that blocks holds nothing up but its own call.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from rho_wasm.calls import ToolCall, ToolContext
from rho_wasm.cancellation import Watermark, let_through
from rho_wasm.errors import ToolError
from rho_wasm.host_threads import HostThreads, NoThread
from rho_wasm.signatures import is_async
from rho_wasm.untrusted import exception_text, inert, type_name

__all__ = ["Allow", "Block", "Gate", "GateAnswer", "Gatekeeper", "allow_all"]

_log = logging.getLogger("rho_wasm")


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run."""


@dataclass(frozen=True, slots=True)
class Block:
    """The call may not run. The model reads ``Blocked: <reason>``, in one line."""

    reason: str


GateAnswer: TypeAlias = Allow | Block
Gate: TypeAlias = Callable[[ToolCall, ToolContext], GateAnswer | Awaitable[GateAnswer]]


async def allow_all(call: ToolCall, context: ToolContext) -> Allow:
    """The default gate: everything is allowed."""
    return Allow()


class Gatekeeper:
    """Asks one gate, and turns whatever it does into a yes or a typed no.

    A sync gate whose caller was cancelled is abandoned in its thread and counted; at ``threads.max_abandoned`` of them
    calls are ``overloaded``.
    """

    def __init__(self, gate: Gate, *, threads: HostThreads) -> None:
        self._gate = gate
        self._threads = threads
        self._is_async = is_async(gate)

    @property
    def allows_all(self) -> bool:
        """True if the gate is :func:`allow_all`, which needs no asking."""
        return self._gate is allow_all

    async def ask(self, call: ToolCall, context: ToolContext) -> None:
        """Returns if the gate allows ``call``. Raises ToolError ``blocked``, ``gate_failed`` or ``overloaded``.

        The caller's own cancellation and KeyboardInterrupt go through.
        """
        answer: Any = None
        raised: BaseException | None = None
        watermark = Watermark()
        try:
            if self._is_async:
                answer = await self._gate(call, context)  # type: ignore[misc]
            else:
                outcome = await self._threads.run(self._gate, call, context)
                answer, raised = outcome.value, outcome.error
                if inspect.isawaitable(answer):
                    answer = await answer
        except NoThread as error:
            bound = self._threads.max_abandoned
            raise ToolError(
                "overloaded", tool=call.name, limit="max_abandoned_gates", value=bound, detail=str(error)
            ) from None
        except BaseException as error:
            let_through(error, watermark)
            raised = error
        if raised is not None:
            let_through(raised, None)
            # What went wrong inside the host is for its log; the model learns only that something did.
            name = inert(call.name, limit=100)
            _log.error("the call gate raised for %s: %s", name, exception_text(raised, trusted=True))
            raise ToolError("gate_failed", tool=call.name, detail=f"the gate raised {type_name(raised)}", cause=raised)
        if type(answer) is Block and type(answer.reason) is str:
            raise ToolError("blocked", tool=call.name, detail=inert(answer.reason))
        if type(answer) is not Allow:
            raise ToolError("gate_failed", tool=call.name, detail=f"the gate answered a {type_name(answer)}")
