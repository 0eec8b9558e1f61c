"""``python -m tests.benchmarks.touched python``: the pages of an engine's memory that any call of a tool looks at.

What it prints belongs into ``touched.txt`` of the engine: its hash without that list, and the pages. They are found
anew whenever the bytes of the engine change, and its revision raised once more: with a list that is out of date it
is made without one, which costs each call some 100 µs. It takes Linux, and ``perf`` with the right to use it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio

from rho_wasm import plain
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.sandbox import Sandbox
from rho_wasm.sandbox.images import EngineBinary, Image
from rho_wasm.toolchains.engines.shelf import EngineShelf
from rho_wasm.toolchains.engines.spec import engine_for
from rho_wasm.toolchains.image import touched_pages, write_image
from rho_wasm.toolchains.load_reply import manifest_of
from rho_wasm.wasm import sections
from tests.benchmarks.language_jobs import Language, language_job, tool_source

_CALLS = 40
_ROUNDS = 6
_PAGE = 4_096
_AROUND = 16
"""Pages that the system maps with the one that was looked at: so many that stand together are one fault."""
_CHEAPER_AROUND = 3
"""So many of those are better left to it."""
_TOOL = "tiny"
_UNTIL_IT_RECORDS_S = 2


async def touched(language: Language) -> list[str]:
    shelf = EngineShelf.default()
    engine = await shelf.get(engine_for(language))
    async with Sandbox(cache=shelf.cache, engines=shelf.find) as sandbox:
        found: set[int] = set()
        for _ in range(_ROUNDS):
            more = await _faults(sandbox, engine, language, found) - found
            if not more:
                break
            found |= more
    crowds = Counter(page // _AROUND for page in found)
    pages = sorted(page for page in found if crowds[page // _AROUND] < _CHEAPER_AROUND)
    return [hashlib.sha256(_bare(engine.wasm)).hexdigest(), *map(str, pages)]


def _bare(engine: bytes) -> bytes:
    """The engine without its list, which is the last of it."""
    *_, last = sections(engine)
    return engine[: last.start] if touched_pages(engine) else engine


async def _faults(sandbox: Sandbox, engine: EngineBinary, language: Language, known: Iterable[int]) -> set[int]:
    """The pages at which calls fault though those of ``known`` are in the image."""
    job = language_job(_TOOL, language)
    limits = sandbox.limits
    source = tool_source(job.code, language, _TOOL)
    loaded = await sandbox.load_source(
        engine, plain.encode({"source": source, "file": "tool"}, max_bytes=limits.manifest_bytes)
    )
    manifest = manifest_of(
        loaded.reply, language=language, file="tool", engine=engine.sha256, extensions={}, limits=limits
    )
    wasm = write_image(
        engine=engine.wasm,
        pages=loaded.pages,
        changes=loaded.changes,
        manifest=manifest,
        limits=limits,
        touched=known,
    )
    memories: Counter[tuple[int, int]] = Counter()
    changed = {
        page for offset, data in loaded.changes for page in range(offset // _PAGE, (offset + len(data)) // _PAGE + 1)
    }
    prepare = Image.prepare

    def watched(self: Image, instance: Any, of: Any) -> None:
        memories[instance.span()] += 1
        prepare(self, instance, of)

    with await sandbox.load(wasm) as module, tempfile.TemporaryDirectory() as folder:

        async def call() -> None:
            meter = CallMeter(CallClock(60_000))
            await sandbox.call(
                module, tool=_TOOL, arguments={"text": job.text}, context={}, limits=limits.engine_call, meter=meter
            )

        await call()
        Image.prepare = watched  # type: ignore[method-assign, assignment]
        data = Path(folder) / "perf.data"
        record = ["perf", "record", "-q", "-e", "page-faults", "-c", "1", "-d", "-p", str(os.getpid()), "-o", str(data)]
        try:
            async with await anyio.open_process(record) as perf:
                await anyio.sleep(_UNTIL_IT_RECORDS_S)
                for _ in range(_CALLS):
                    await call()
                perf.send_signal(signal.SIGINT)
        finally:
            Image.prepare = prepare  # type: ignore[method-assign]
        told = (await anyio.run_process(["perf", "script", "-i", str(data), "-F", "addr"])).stdout.decode()
    (base, size), _ = memories.most_common(1)[0]
    pages = Counter((int(line, 16) - base) // _PAGE for line in told.split() if base <= int(line, 16) < base + size)
    return {page for page, count in pages.items() if count > _CALLS // 2} - changed


def main() -> None:
    language: Any = sys.argv[1]
    print(*anyio.run(touched, language))


if __name__ == "__main__":
    main()
