"""What many of the middle floor's tests need: tools made in a line, a waiting handler, a collector of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anyio

from rho_wasm.calls import CallClock, CallMeter, ToolCall, ToolContext
from rho_wasm.events import Event
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import Ok
from rho_wasm.runner import ToolRunner
from rho_wasm.tools import Handler, Tool

OBJECT: dict[str, Any] = {"type": "object"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def make(handler: Handler | None = None, *, name: str = "t", **fields: Any) -> Tool:
    """A tool of one handler, taking any map."""
    return Tool(**{"name": name, "description": "", "input_schema": OBJECT, "handler": handler, **fields})


def answering(answer: Any, *, name: str = "t", **fields: Any) -> Tool:
    """A tool whose async handler answers ``answer``."""

    async def handler(arguments: Any) -> Any:
        return answer

    return make(handler, name=name, **fields)


def raising(error: BaseException, *, name: str = "t", **fields: Any) -> Tool:
    """A tool whose async handler raises ``error``."""

    async def handler(arguments: Any) -> Any:
        raise error

    return make(handler, name=name, **fields)


def echo(name: str = "echo", **fields: Any) -> Tool:
    """A tool that answers its arguments."""

    async def handler(arguments: Any) -> Any:
        return Ok(arguments)

    return make(handler, name=name, **fields)


def call(name: str = "t", arguments: Any = None, *, id: str = "1") -> ToolCall:
    return ToolCall(id=id, name=name, arguments={} if arguments is None else arguments)


def context(name: str = "t", **fields: Any) -> ToolContext:
    return ToolContext(call=call(name), meter=CallMeter(CallClock(60_000)), **fields)


def runner_of(*tools: Tool, sources: Iterable[Any] = (), events: Events | None = None, **options: Any) -> ToolRunner:
    """A runner on a registry of these core tools alone."""
    on_event = None if events is None else events.append
    return ToolRunner(ToolRegistry(tools, sources=sources, on_event=on_event), on_event=on_event, **options)


async def until(condition: Callable[[], bool]) -> None:
    """Waits, bounded, for what a thread does: no event of this loop tells of it."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.001)


class Events(list[Event]):
    """Everything that was told, and what of it is of one type."""

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self if isinstance(event, kinds)]


class Waiting:
    """A tool whose handler begins, says so, and waits until it is let go. Bounded: a test never hangs on it."""

    def __init__(self, name: str = "waiting", **fields: Any) -> None:
        self.began = anyio.Event()
        self.let_go = anyio.Event()
        self.runs = 0
        self.tool = make(self._handle, name=name, **fields)

    async def _handle(self, arguments: Any) -> Ok:
        self.runs += 1
        self.began.set()
        await self.let_go.wait()
        return Ok("done")
