"""Calls of what somebody tries while he writes it: nothing of them is counted, in no store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import anyio

from rho_wasm.calls import ToolCall
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.dynamic.store import Store
from rho_wasm.host import Host
from rho_wasm.host_capabilities import with_kv_of
from rho_wasm.offered import ToolSnapshot
from rho_wasm.policy import RecordingPolicy
from rho_wasm.results import ToolResult

__all__ = ["Call", "uncounted_calls"]

Call: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[ToolResult]]


@asynccontextmanager
async def uncounted_calls(host: Host, artifact: Artifact) -> AsyncIterator[Call]:
    """Calls tools of ``artifact`` in the sandbox, with the runner and under the limits and grants of ``host``.

    They neither strike nor count as calls that went well, which would excuse the strikes of others: a store in memory
    that ends with this one offers the tools, and has what they keep; no call is recorded. So a result has no
    generation, and no gate is asked: whether the artifact may be called here is for the caller to know.
    """
    strikes = host.policy.strikes.model_copy(update={"kinds": ()})
    changed = {"strikes": strikes, "recordings": RecordingPolicy()}
    rules = host.policy.without_gates().model_copy(update=changed)
    with Store.open(":memory:") as store:
        granted = with_kv_of(store, host.capabilities)
        async with DynamicSource(store, host.sandbox, policy=rules, limits=host.limits, capabilities=granted) as source:
            await source.activate(await source.stage([artifact], author="dev"))
            tools = ToolSnapshot([tool for name in artifact.tools if (tool := source.lookup(name)) is not None])

            async def call(name: str, arguments: dict[str, Any]) -> ToolResult:
                request = ToolCall(id=f"dev-{anyio.current_time()}", name=name, arguments=arguments)
                return replace(await host.runner.run(request, tools=tools), generation=None)

            yield call
