"""How soon a guest is stopped that will not stop, and how long the event loop ever waits for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import wasmtime

from rho_wasm import Artifact, Host, HostLimits, Limits, Manifest, Policy, ToolCall, plain
from rho_wasm.manifest import embed
from rho_wasm.resources import fixture
from tests.benchmarks.guests import text_guest

__all__ = ["Blocking", "Stops", "loop_blocking", "stop_times"]

DEADLINE_MS = 200
_TICK_S = 0.001
_ASKED = "progress.report"
_GUESTS = {
    "spin": "a loop",
    "fill": "memory.fill of 32 MiB",
    "deep": "5,000 calls deep",
    "log": "a loop of log",
    "host_calls": "a loop of host_call",
}


@dataclass(frozen=True, slots=True)
class Stops:
    """Milliseconds past the deadline until the result of each guest was there."""

    busy: int
    late: dict[str, dict[str, float]]


def _guest(name: str) -> Artifact:
    if name in ("spin", "host_calls"):
        return Artifact.from_wasm(fixture(f"{name}.wasm").read_bytes())
    return text_guest(name)


def _never_ending(deadline_ms: int) -> tuple[HostLimits, Policy]:
    """Only the deadline ends a guest, and no strike takes it away."""
    limits = HostLimits(call=Limits(deadline_ms=deadline_ms, fuel=10**15, host_calls=10**12))
    return limits, Policy.parse({"strikes": {"limit": 1_000_000}, "tools": {"asking": {"grants": {_ASKED: {}}}}})


async def stop_times(repeats: int, *, busy: int, guests: tuple[str, ...] = tuple(_GUESTS)) -> Stops:
    """With ``busy`` Python threads beside, that never wait."""
    limits, policy = _never_ending(DEADLINE_MS)
    late: dict[str, dict[str, float]] = {}
    async with Host.open(":memory:", limits=limits, policy=policy) as host:
        candidate = await host.source.stage(add=[_guest(name) for name in guests], author="benchmark")
        await host.source.activate(candidate)
        with _busy_threads(busy):
            for name in guests:
                taken: list[float] = []
                for number in range(repeats):
                    start = time.perf_counter()
                    result = await host.runner.run(ToolCall(id=str(number), name=name, arguments={}))
                    taken.append((time.perf_counter() - start) * 1e3 - DEADLINE_MS)
                    if result.reason != "deadline":
                        raise AssertionError(f"{name}: ended by {result.reason}: {result.text[:200]}")
                taken.sort()
                late[_GUESTS[name]] = {"median_ms": round(taken[repeats // 2], 2), "max_ms": round(taken[-1], 2)}
    return Stops(busy, late)


@contextmanager
def _busy_threads(count: int) -> Iterator[None]:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=spin, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@dataclass(frozen=True, slots=True)
class Blocking:
    """The longest time between two wakings of a task that sleeps 1 ms, in milliseconds."""

    idle_ms: float
    spinning_ms: float
    median_ms: float
    """Between two wakings while guests spin."""
    asking_ms: float
    """While twice as many guests ask the host again and again, each time with 50,000 arguments."""


async def loop_blocking(seconds: float, *, guests: int = 4) -> Blocking:
    """While ``guests`` spin for ``seconds``, and as long without any."""
    limits, policy = _never_ending(max(1, int(seconds * 1e3)))
    async with Host.open(":memory:", limits=limits, policy=policy) as host:
        candidate = await host.source.stage(add=[_guest("spin"), _asking()], author="benchmark")
        await host.source.activate(candidate)
        idle: list[float] = []
        with anyio.move_on_after(seconds):
            await _tick(idle)
        spinning = await _gaps(host, "spin", guests)
        asking = await _gaps(host, "asking", 2 * guests)
    median = spinning[len(spinning) // 2]
    return Blocking(round(max(idle), 2), round(spinning[-1], 2), round(median, 2), round(asking[-1], 2))


async def _gaps(host: Host, tool: str, count: int) -> list[float]:
    """Between two wakings while so many calls of ``tool`` run to their deadline, the shortest first."""
    gaps: list[float] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_tick, gaps)
        calls = [ToolCall(id=str(number), name=tool, arguments={}) for number in range(count)]
        for result in await host.runner.run_many(calls):
            if result.reason != "deadline":
                raise AssertionError(f"{tool}: ended by {result.reason}: {result.text[:200]}")
        group.cancel_scope.cancel()
    return sorted(gaps)


def _asking() -> Artifact:
    """It never stops to ask for progress with what that does not take."""
    request = plain.encode({"capability": _ASKED, "arguments": {f"k{number}": number for number in range(49_990)}})
    data = "".join(f"\\{byte:02x}" for byte in request)
    code = wasmtime.wat2wasm(
        f"""(module (import "rho" "host_call" (func $host_call (param i32 i32) (result i32)))
          (memory (export "memory") 64)
          (data (i32.const 1048576) "{data}")
          (func (export "rho_alloc") (param i32) (result i32) i32.const 1024)
          (func (export "rho_call") (param i32 i32) (result i64)
            (loop $l (drop (call $host_call (i32.const 1048576) (i32.const {len(request)}))) (br $l)) unreachable))"""
    )
    tool = {"name": "asking", "description": "A benchmark.", "input_schema": {"type": "object"}}
    return Artifact.from_wasm(embed(bytes(code), Manifest.from_json({"tools": [tool], "capabilities": [_ASKED]})))


async def _tick(gaps: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await anyio.sleep(_TICK_S)
        now = time.perf_counter()
        gaps.append((now - last) * 1e3)
        last = now
