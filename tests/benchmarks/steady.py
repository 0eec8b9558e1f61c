"""What must not grow or be slow twice: memory and descriptors over many calls, first answers, the start of a host."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path

from rho_wasm import Artifact, Host, ToolCall
from rho_wasm.resources import fixture
from tests.benchmarks.guests import echo_with_tools
from tests.benchmarks.jobs import ECHO
from tests.benchmarks.measure import descriptors, rss_bytes
from tests.benchmarks.peers.ours import ours

__all__ = ["first_answer", "many_calls", "warm_start"]


async def many_calls(count: int) -> dict[str, float]:
    """MiB and file descriptors before and after ``count`` calls; after 1,000 that do not count, caches are full."""
    async with Host.open(":memory:") as host:
        contender = await ours(host, ECHO, 1)
        await contender.block(min(count, 1_000))
        gc.collect()
        before, files_before = rss_bytes(), descriptors()
        began = time.perf_counter()
        for _ in range(0, count, 1_000):
            await contender.block(1_000)
        seconds = time.perf_counter() - began
        gc.collect()
        return {
            "calls": count,
            "seconds": round(seconds, 1),
            "rss_before_mib": round(before / 2**20, 1),
            "rss_after_mib": round(rss_bytes() / 2**20, 1),
            "descriptors_before": files_before,
            "descriptors_after": descriptors(),
        }


async def first_answer(repeats: int) -> dict[str, float]:
    """Milliseconds from ``activate`` to the first answer: on the first host of this process, and of the later ones."""
    taken: list[float] = []
    for _ in range(repeats):
        async with Host.open(":memory:") as host:
            guest = Artifact.from_wasm(fixture("echo.wasm").read_bytes())
            candidate = await host.source.stage(add=[guest], author="benchmark")
            start = time.perf_counter()
            await host.source.activate(candidate)
            await _answered(host, "echo")
            taken.append((time.perf_counter() - start) * 1e3)
    return {"first_ms": round(taken[0], 2), "median_ms": round(sorted(taken)[len(taken) // 2], 2)}


async def warm_start(count: int) -> dict[str, float]:
    """Opens a host on a store of ``count`` tools, each a module of its own that was compiled before.

    ``compiled`` counts what had to be compiled again, which must be nothing. Importing Python modules is not in it.
    """
    names = [f"tool_{number:04}" for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="rho-benchmark-") as folder:
        store = Path(folder) / "store"
        async with Host.open(store) as host:
            began = time.perf_counter()
            candidate = await host.source.stage(add=[echo_with_tools([name]) for name in names], author="benchmark")
            await host.source.activate(candidate)
            await _answered(host, names[0])
            prepared = time.perf_counter() - began
        began = time.perf_counter()
        async with Host.open(store) as host:
            opened = time.perf_counter()
            offered = host.registry.snapshot()
            shown = time.perf_counter()
            if offered.lookup(names[-1]) is None:
                raise AssertionError("the host came back without its tools")
            await _answered(host, names[-1])
            answered = time.perf_counter()
            compiled = host.sandbox.statistics().compiled
    return {
        "tools": count,
        "prepared_ms": round(prepared * 1e3, 1),
        "open_ms": round((opened - began) * 1e3, 1),
        "snapshot_ms": round((shown - opened) * 1e3, 1),
        "first_answer_ms": round((answered - shown) * 1e3, 1),
        "start_ms": round((answered - began) * 1e3, 1),
        "compiled": compiled,
    }


async def _answered(host: Host, name: str) -> None:
    result = await host.runner.run(ToolCall(id="1", name=name, arguments={"text": "x"}))
    if not result.ok:
        raise AssertionError(f"{name}: {result.reason}: {result.text[:200]}")
