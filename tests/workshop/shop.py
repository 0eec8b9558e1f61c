"""Hosts with a workshop for these tests, and sessions that call its tools as a model does."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rho_wasm import Artifact, Generation, Host, Policy, ToolCall, ToolResult, Workshop
from rho_wasm.policy import GatePolicy

__all__ = ["NO_GATES", "SPEAKING", "Session", "opened", "switched", "wat"]

NO_GATES = Policy(gates=GatePolicy(on=()))
"""Examples are what most tests have none of, and approval what most need not wait for."""

SPEAKING = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

_numbers = itertools.count(1)


class Session:
    """One model's session on a host."""

    def __init__(self, host: Host, session_id: str | None = "one") -> None:
        self.host = host
        self.id = session_id

    async def __call__(self, tool: str, /, **arguments: Any) -> ToolResult:
        call = ToolCall(id=f"call-{next(_numbers)}", name=tool, arguments=arguments)
        return await self.host.runner.run(call, session_id=self.id)

    async def done(self, tool: str, /, **arguments: Any) -> Any:
        """The value of a call that must work."""
        result = await self(tool, **arguments)
        assert result.ok, result.text
        return result.value

    async def refused(self, tool: str, /, **arguments: Any) -> ToolResult:
        """The result of a call that must be told a failure of: never a crash of ours."""
        result = await self(tool, **arguments)
        assert (result.status, result.kind) == ("error", "failed"), result.text
        return result


@asynccontextmanager
async def opened(store: Any = ":memory:", *, workshop: Workshop | None = None, **options: Any) -> AsyncIterator[Host]:
    made = workshop or Workshop(languages=["wat", "c"])
    options.setdefault("policy", NO_GATES)
    async with Host.open(store, workshop=made, **options) as host:
        yield host


async def switched(
    host: Host, *artifacts: Artifact, author: str = "operator", remove: Sequence[str] = ()
) -> Generation:
    """What ``author`` made live."""
    return await host.source.activate(await host.source.stage(artifacts, remove, author=author))


def wat(answer: str = "done", *, salt: int = 0) -> str:
    """The text of a guest that answers this short text."""
    size = len(answer)
    return (
        f'(module (memory (export "memory") 2) (global i32 (i32.const {salt}))\n'
        f'  (data (i32.const 16) "\\a1\\62ok\\{0x60 + size:02x}{answer}")\n'
        '  (func (export "rho_alloc") (param i32) (result i32) (i32.const 65536))\n'
        '  (func (export "rho_call") (param i32 i32) (result i64)\n'
        f"    (i64.or (i64.shl (i64.const 16) (i64.const 32)) (i64.const {5 + size}))))\n"
    )
