"""What must not grow or be slow twice: memory and descriptors over many calls, first answers, the start of a host."""

from __future__ import annotations

import gc
import tempfile
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from rho_wasm import Artifact, Host, ToolCall
from rho_wasm.resources import fixture
from rho_wasm.sandbox.ways import Way, why_not_native
from tests.benchmarks.guests import Absent, echo_with_tools
from tests.benchmarks.jobs import ECHO
from tests.benchmarks.language_jobs import LANGUAGES, language_job
from tests.benchmarks.measure import descriptors, rss_bytes
from tests.benchmarks.peers.ours import ours, ours_in_a_language

__all__ = ["WATCHED", "first_answer", "many_calls", "warm_start"]

WATCHED = ("native", "public", "process", *LANGUAGES)
"""What :func:`many_calls` watches: ways of calling a guest, and languages."""


async def many_calls(what: str, calls: str) -> dict[str, float]:
    """MiB and file descriptors, its children's too, before and after so many calls.

    ``what`` is a way of calling the echo guest (``native``, ``public``, ``process``), or the language of a tool that is
    called on the way in use. Some calls before do not count: by then caches are full.
    Raises :class:`Absent` for a way that cannot be had, and for a language whose engine is not here.
    """
    count = int(calls)
    async with _host(what) as host:
        language = next((known for known in LANGUAGES if known == what), None)
        if language is None:
            contender = await ours(host, ECHO, 1)
        else:
            contender = await ours_in_a_language(host, language_job("tiny", language), 1)
        await contender.block(min(count, 1_000))
        gc.collect()
        before, files_before = rss_bytes(), descriptors()
        began = time.perf_counter()
        for start in range(0, count, 1_000):
            await contender.block(min(1_000, count - start))
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


def _host(what: str) -> AbstractAsyncContextManager[Host]:
    if what == "native" and (why := why_not_native()) is not None:
        raise Absent(why)
    way: Way | None = "native" if what == "native" else "public" if what == "public" else None
    return Host.open(":memory:", workers=2 if what == "process" else 0, way=way)


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
