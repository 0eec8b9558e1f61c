"""What tools in Python and in JavaScript cost beside their calls: engines, builds, first calls, memory."""

from __future__ import annotations

import gc
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from rho_wasm import Artifact, BuildError, Host, ToolCall, build
from rho_wasm.sandbox import NativeCache
from rho_wasm.toolchains.engines.shelf import EngineShelf
from rho_wasm.toolchains.engines.spec import engine_for
from rho_wasm.toolchains.image_builder import ImageBuilder
from tests.benchmarks.alone import alone
from tests.benchmarks.guests import unbuilt
from tests.benchmarks.language_jobs import Language, language_job, tool_source
from tests.benchmarks.measure import rss_bytes

__all__ = [
    "engine_is_missing",
    "first_call",
    "first_call_here",
    "install",
    "install_here",
    "many_tools",
    "tool_builds",
    "tools_here",
]

_TOOL = "words_260"
_CACHE_BYTES = 2**30
_BUILDERS = 2
"""Tools that are built at a time: guests run without the interpreter lock."""


def engine_is_missing(language: Language) -> str | None:
    """Why a quick run has no tool in ``language``: its engine would have to be made first. None if it is there."""
    spec = engine_for(language)
    if any(installed.is_of(spec) for installed in EngineShelf.default().list()):
        return None
    return f"left out of a quick run: the engine {spec.name} is not installed (rho-wasm engines install)"


async def tool_builds(language: Language, count: int) -> dict[str, float]:
    """Builds ``count`` tools whose sources differ, with the engine in memory; ``once_ms`` is one that maps it first."""
    source = _source(language, _TOOL)
    taken: list[float] = []
    try:
        async with ImageBuilder() as builder:
            await builder.build(source, language=language)
            for number in range(count):
                start = time.perf_counter()
                await builder.build(_marked(source, language, number), language=language)
                taken.append((time.perf_counter() - start) * 1e3)
        # Now the engine is made and cached, whatever was there before.
        start = time.perf_counter()
        artifact = await build(source, language=language)
        once = (time.perf_counter() - start) * 1e3
    except BuildError as error:
        raise unbuilt(error) from None
    return {
        "builds": count,
        "min_ms": round(min(taken), 2),
        "median_ms": round(sorted(taken)[count // 2], 2),
        "once_ms": round(once, 1),
        "source_bytes": len(source),
        "image_kib": round(len(artifact.wasm) / 1024, 1),
    }


def _source(language: Language, name: str) -> str:
    """The word counter as the tool ``name``."""
    return tool_source(language_job(_TOOL, language).code, language, name)


def _marked(source: str, language: Language, number: int) -> str:
    return f"{source}{'#' if language == 'python' else '//'} {number}\n"


async def first_call(language: Language, repeats: int) -> dict[str, float]:
    """Milliseconds of a new process until a tool answered, everything cached: the process, the host, the call.

    ``process_ms`` is all of it, from starting Python to its end. The medians of ``repeats`` processes.
    """
    with tempfile.TemporaryDirectory(prefix="rho-benchmark-") as folder:
        await _store(Path(folder) / "store", await _built(language, [_TOOL]))
        runs: list[dict[str, float]] = []
        for _ in range(repeats):
            start = time.perf_counter()
            told = alone("first_call", str(Path(folder) / "store"), language)
            runs.append(told | {"process_ms": (time.perf_counter() - start) * 1e3})
    return {name: round(sorted(run[name] for run in runs)[repeats // 2], 2) for name in runs[0]}


async def first_call_here(store: str, language: Language) -> dict[str, float]:
    text = language_job(_TOOL, language).text
    start = time.perf_counter()
    async with Host.open(store) as host:
        opened = time.perf_counter()
        await _answered(host, _TOOL, text)
        first = time.perf_counter()
        await _answered(host, _TOOL, text)
        second = time.perf_counter()
    return {"open_ms": (opened - start) * 1e3, "call_ms": (first - opened) * 1e3, "again_ms": (second - first) * 1e3}


async def many_tools(count: int, language: Language = "python") -> dict[str, float]:
    """Builds ``count`` tools into a store; then a process of its own calls each of them once."""
    names = [f"tool_{number:04}" for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="rho-benchmark-") as folder:
        start = time.perf_counter()
        artifacts = await _built(language, names)
        built = time.perf_counter()
        await _store(Path(folder) / "store", artifacts)
        stored = time.perf_counter()
        told = alone("tools", str(Path(folder) / "store"), language)
    return told | {"build_s": round(built - start, 1), "stage_s": round(stored - built, 1)}


async def _built(language: Language, names: Sequence[str]) -> list[Artifact]:
    artifacts: dict[str, Artifact] = {}
    left = list(reversed(names))

    async def work(builder: ImageBuilder) -> None:
        while left:
            name = left.pop()
            artifacts[name] = await builder.build(_source(language, name), language=language)

    async with ImageBuilder() as builder:
        try:
            await builder.engine(language)
        except BuildError as error:
            raise unbuilt(error) from None
        async with anyio.create_task_group() as group:
            for _ in range(_BUILDERS):
                group.start_soon(work, builder)
    return [artifacts[name] for name in names]


async def tools_here(store: str, language: Language) -> dict[str, float]:
    """Resident MiB with the engine and one tool in use, and with all of them; ``tool_kib`` is what each other took."""
    text = language_job(_TOOL, language).text
    start = time.perf_counter()
    async with Host.open(store, core=[]) as host:
        names = [tool.name for tool in host.registry.list()]
        opened = time.perf_counter()
        await _answered(host, names[0], text)
        gc.collect()
        one = rss_bytes()
        began = time.perf_counter()
        for name in names[1:]:
            await _answered(host, name, text)
        seconds = time.perf_counter() - began
        gc.collect()
        every = rss_bytes()
        held = host.sandbox.statistics().modules
    others = max(1, len(names) - 1)
    return {
        "tools": len(names),
        "held": held,
        "open_ms": round((opened - start) * 1e3, 1),
        "first_calls_ms": round(seconds / others * 1e3, 2),
        "rss_one_mib": round(one / 2**20, 1),
        "rss_all_mib": round(every / 2**20, 1),
        "tool_kib": round((every - one) / others / 1024, 1),
    }


async def install(language: Language) -> dict[str, float]:
    """Makes the engine of ``language`` in an empty folder, and compiles it, as the first tool of a new machine does."""
    return alone("install", language)


async def install_here(language: Language) -> dict[str, float]:
    spec = engine_for(language)
    stages: list[tuple[str, float]] = []

    def progress(stage: str, fraction: float) -> None:
        stages.append((stage, time.perf_counter()))

    with tempfile.TemporaryDirectory(prefix="rho-benchmark-") as folder:
        key = Path(folder) / "host.key"
        cache = NativeCache(Path(folder) / "native", key, _CACHE_BYTES)
        shelf = EngineShelf(Path(folder) / "engines", key, cache=cache)
        start = time.perf_counter()
        try:
            engine = await shelf.install(spec, progress=progress)
        except BuildError as error:
            raise unbuilt(error) from None
        ready = time.perf_counter()
    compiling = next((at for stage, at in stages if stage.startswith("compiling")), ready)
    return {
        "install_s": round(ready - start, 2),
        "make_s": round(compiling - start, 2),
        "compile_s": round(ready - compiling, 2),
        "engine_mib": round(len(engine.wasm) / 2**20, 1),
        "peak_rss_mib": round(_peak() / 2**20, 1),
    }


def _peak() -> int:
    return 1024 * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


async def _store(folder: Path, artifacts: Sequence[Artifact]) -> None:
    async with Host.open(folder) as host:
        candidate = await host.source.stage(add=artifacts, author="benchmark")
        await host.source.activate(candidate)


async def _answered(host: Host, name: str, text: str) -> Any:
    result = await host.runner.run(ToolCall(id="1", name=name, arguments={"text": text}))
    if not result.ok:
        raise AssertionError(f"{name}: {result.reason}: {result.text[:200]}")
    return result.value
