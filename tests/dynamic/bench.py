"""A dynamic source with all that stands round it, and short words for what is done to it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio

from rho_wasm.calls import ToolCall
from rho_wasm.capabilities.capability import Capability
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.dynamic.gates import Approve, Rebuild
from rho_wasm.dynamic.generation import Generation
from rho_wasm.dynamic.recorder import Redact
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.dynamic.store import Store
from rho_wasm.events import Event
from rho_wasm.limits import Limits
from rho_wasm.offered import ToolSnapshot
from rho_wasm.policy import Policy
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.sandbox import NativeCache, Sandbox
from rho_wasm.testing import FixedClock
from tests.dynamic.processes import WAIT_S

__all__ = ["Bench", "open_bench"]

EventType = TypeVar("EventType", bound=Event)


class Bench:
    """What :func:`open_bench` opens. ``events`` are those that were told so far."""

    source: DynamicSource

    def __init__(self, store: Store, sandbox: Sandbox) -> None:
        self.store = store
        self.sandbox = sandbox
        self.events: list[Event] = []
        self.threads: set[int] = set()
        """In which threads they were told."""
        self._told = anyio.Event()
        self._calls = 0

    def attach(self, source: DynamicSource) -> None:
        self.source = source
        self.registry = ToolRegistry([], sources=[source])
        self.runner = ToolRunner(self.registry)

    def hear(self, event: Event) -> None:
        """The subscriber."""
        self.threads.add(threading.get_ident())
        self.events.append(event)
        self._told.set()

    async def until_told(self, kind: type[EventType], *, times: int = 1) -> EventType:
        """The first event of one kind, once ``times`` of them were told: waited for if need be."""
        with anyio.fail_after(WAIT_S):
            while len(found := self.told(kind)) < times:
                self._told = anyio.Event()
                await self._told.wait()
        return found[0]

    async def written(self) -> Store:
        """The store, once all is in it: the end of a call waits for a busy disk for a moment only. Ends the source."""
        await self.source.aclose()
        return self.store

    async def go(self, *artifacts: Artifact, remove: tuple[str, ...] = (), floor: bool = False) -> Generation:
        """Stages and activates."""
        candidate = await self.source.stage(artifacts, remove, author="model")
        return await self.source.activate(candidate, floor=floor)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        call_id: str | None = None,
        tools: ToolSnapshot | None = None,
        **more: Any,
    ) -> ToolResult:
        self._calls += 1
        call = ToolCall(call_id or f"call {self._calls}", name, {} if arguments is None else arguments)
        return await self.runner.run(call, tools=tools, **more)

    async def crash(
        self, name: str, *, times: int = 1, arguments: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        for _ in range(times):
            result = await self.call(name, arguments, **more)
            assert result.kind == "crashed", result

    def told(self, kind: type[EventType]) -> list[EventType]:
        """The events of one kind, so far."""
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def open_bench(
    cache: NativeCache,
    *,
    store: Store | None = None,
    clock: FixedClock | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    approve: Approve | None = None,
    rebuild: Rebuild | None = None,
    capabilities: Iterable[Capability] = (),
    redact: Redact | None = None,
) -> AsyncIterator[Bench]:
    """A bench on a store of its own in memory, or on ``store``, which stays the caller's to close."""
    used = store or (Store.open(":memory:", clock=clock) if clock is not None else Store.open(":memory:"))
    try:
        async with Sandbox(cache=cache) as sandbox:
            bench = Bench(used, sandbox)
            async with DynamicSource(
                used,
                sandbox,
                policy=policy,
                limits=limits,
                approve=approve,
                rebuild=rebuild,
                capabilities=capabilities,
                redact=redact,
                on_event=bench.hear,
            ) as source:
                bench.attach(source)
                yield bench
    finally:
        if store is None:
            used.close()
