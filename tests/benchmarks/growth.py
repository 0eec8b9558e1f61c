"""How the cost of a call grows: with the tools on offer, the calls in flight, and the size of the request."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from rho_wasm import Host, HostLimits, ToolCall
from tests.benchmarks.guests import echo_with_tools
from tests.benchmarks.jobs import echo_of
from tests.benchmarks.measure import AsyncContender, Figures, Pace, alternate
from tests.benchmarks.peers.ours import ours

__all__ = ["Growth", "with_calls", "with_size", "with_tools"]

_TOOLS_A_MODULE = 500
"""So many declarations fit into one manifest."""
_QUEUE_MS = 60_000
"""A thousand calls wait for 64 slots longer than a host for people would let them."""


@dataclass(frozen=True, slots=True)
class Growth:
    """``points`` maps how many to what it cost."""

    name: str
    unit: str
    points: dict[int, dict[str, float]]

    def as_json(self) -> dict[str, Any]:
        return {"unit": self.unit, "points": {str(at): point for at, point in self.points.items()}}


async def with_tools(counts: tuple[int, ...], pace: Pace) -> Growth:
    """All tools are agent-written ones of the live generation; ``snapshot_us``: showing them to a model."""
    points: dict[int, dict[str, float]] = {}
    for count in counts:
        names = [f"tool_{number:05}" for number in range(count)]
        modules = [
            echo_with_tools(names[start : start + _TOOLS_A_MODULE]) for start in range(0, count, _TOOLS_A_MODULE)
        ]
        async with Host.open(":memory:", core=[]) as host:
            began = time.perf_counter()
            candidate = await host.source.stage(add=modules, author="benchmark")
            await host.source.activate(candidate)
            switched = time.perf_counter() - began
            snapshots: list[float] = []
            for _ in range(5):
                start = time.perf_counter()
                offered = host.registry.snapshot()
                snapshots.append(time.perf_counter() - start)
            call = ToolCall(id="1", name=names[count // 2], arguments={"text": "x" * 1000})

            async def once(host: Host = host, call: ToolCall = call, offered: Any = offered) -> object:
                result = await host.runner.run(call, tools=offered)
                assert result.ok, result
                return result.value

            await once()
            figures = await _timed(AsyncContender(once, 1), pace)
        points[count] = figures | {
            "snapshot_us": round(sorted(snapshots)[2] * 1e6, 1),
            "switch_ms": round(switched * 1e3, 1),
        }
    return Growth("tools", "tools", points)


async def with_calls(counts: tuple[int, ...], total: int) -> Growth:
    """``total`` calls, so many of them at once; a call's time is from its asking to its answer, waiting too."""
    points: dict[int, dict[str, float]] = {}
    async with Host.open(":memory:", limits=HostLimits(queue_ms=_QUEUE_MS)) as host:
        for count in counts:
            contender = await ours(host, echo_of("x" * 1000), count)
            block = await contender.block(max(1, total // count))
            points[count] = Figures.of([block]).as_json()
    return Growth("calls in flight", "calls", points)


async def with_size(sizes: tuple[int, ...], pace: Pace) -> Growth:
    """The echo guest: the text goes in and comes back. Under a result's bound of text, so nothing is kept aside."""
    points: dict[int, dict[str, float]] = {}
    async with Host.open(":memory:") as host:
        for size in sizes:
            points[size] = await _timed(await ours(host, echo_of("x" * size), 1), pace)
    return Growth("request size", "bytes", points)


async def _timed(contender: AsyncContender, pace: Pace) -> dict[str, float]:
    return (await alternate({"rho_wasm": contender}, pace))["rho_wasm"].as_json()
