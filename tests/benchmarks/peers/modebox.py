"""modebox: JavaScript in a WebAssembly sandbox, a fresh one for each run of a source.

A source has no arguments. A short text is written into it as a literal; a long one is fetched by a host function, which
is the faster of the two from a few kilobytes on.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

from rho_wasm import Host
from tests.benchmarks.guests import Absent
from tests.benchmarks.language_jobs import LanguageJob
from tests.benchmarks.measure import AsyncContender
from tests.benchmarks.peers.wire import MEMORY_BYTES

__all__ = ["modebox", "settle"]

_LITERAL = 4_000
"""Characters of a text that is written into the source."""


def _library() -> Any:
    try:
        return importlib.import_module("modebox")
    except ImportError:
        raise Absent("modebox is not installed: pip install 'rho-wasm[bench]'") from None


def settle() -> None:
    """Makes it take over the signals that its engine takes over. Raises :class:`Absent`."""
    _library().Runner().close()


async def modebox(host: Host | None, job: LanguageJob, callers: int) -> AsyncContender:
    library = _library()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise Absent("modebox runs on asyncio alone") from None
    runner = library.Runner(limits=library.Limits(timeout_ms=60_000, memory_limit_bytes=MEMORY_BYTES))
    short = len(job.text) <= _LITERAL
    source = f"{job.code}\nrun({json.dumps(job.text) if short else 'await input()'})"
    functions = {} if short else {"input": lambda: job.text}

    async def once() -> object:
        return (await runner.run(source, host_functions=functions)).value

    job.check(await once())
    return AsyncContender(once, callers, close=runner.close)
