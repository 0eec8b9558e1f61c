"""Python tools as a host runs them: built into images, each call in a fresh sandbox with the real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.errors import ToolError
from rho_wasm.limits import MIB, Limits
from rho_wasm.results import Ok
from rho_wasm.sandbox import GuestModule, Sandbox
from rho_wasm.sandbox.state import Capabilities
from rho_wasm.toolchains import EngineShelf, ImageBuilder
from rho_wasm.toolchains.engines.cpython import SPEC

__all__ = ["LIMITS", "Python", "opened", "tool"]

LIMITS = Limits(fuel=20_000_000_000, deadline_ms=60_000, memory_bytes=128 * MIB)
_CLOCK_MS = 120_000


def tool(body: str, *, head: str = "", parameters: str = "", options: str = "") -> str:
    """The source of a tool ``t`` with that body, after ``head``."""
    decorator = f"@tool({options})" if options else "@tool"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"from rho import *\nfrom rho import Context\n{head}\n{decorator}\ndef t({parameters}) -> object:\n{lines}\n"


class Python:
    """Builds tools and calls them. ``meter`` is the last call's."""

    def __init__(self, builder: ImageBuilder, sandbox: Sandbox) -> None:
        self._builder = builder
        self.sandbox = sandbox
        self.meter = CallMeter(CallClock(_CLOCK_MS))

    async def build(self, source: str) -> Artifact:
        return await self._builder.build(source, language="python")

    async def load(self, source: str) -> GuestModule:
        return await self.sandbox.load((await self.build(source)).wasm)

    async def call(
        self,
        module: GuestModule,
        name: str = "t",
        arguments: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        limits: Limits = LIMITS,
        capabilities: Capabilities | None = None,
    ) -> Any:
        """The value of an Ok, another answer as it is, or the :class:`ToolError`, which is not raised."""
        self.meter = CallMeter(CallClock(_CLOCK_MS))
        try:
            result = await self.sandbox.call(
                module,
                tool=name,
                arguments=arguments or {},
                context=context or {},
                limits=limits,
                meter=self.meter,
                capabilities=capabilities,
            )
        except ToolError as error:
            return error
        if isinstance(result, Ok) and not result.images and result.details is None:
            return result.value
        return result

    async def value(self, source: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """What the tool ``t`` of ``source`` comes to."""
        return await self.call(await self.load(source), "t", arguments, **options)

    def log(self) -> list[tuple[int, str]]:
        """What the last call logged."""
        return [(line.level, line.text) for line in self.meter.log.lines]


@asynccontextmanager
async def opened(shelf: EngineShelf) -> AsyncIterator[Python]:
    """A sandbox with the engines of ``shelf``."""
    async with (
        Sandbox(cache=shelf.cache, engines=shelf.find) as sandbox,
        ImageBuilder(shelf=shelf, sandbox=sandbox, specs=[SPEC]) as builder,
    ):
        yield Python(builder, sandbox)
