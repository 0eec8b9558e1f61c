"""quickjs-rs: QuickJS in WebAssembly through its own host API, a fresh runtime and context for each call."""

from __future__ import annotations

import importlib
from typing import Any

from rho_wasm import Host
from tests.benchmarks.guests import Absent
from tests.benchmarks.language_jobs import LanguageJob
from tests.benchmarks.measure import SyncContender
from tests.benchmarks.peers.wire import MEMORY_BYTES

__all__ = ["quickjs_rs"]


def _library() -> Any:
    try:
        return importlib.import_module("quickjs_rs")
    except ImportError:
        raise Absent("quickjs-rs is not installed: pip install 'rho-wasm[javascript]'") from None


async def quickjs_rs(host: Host | None, job: LanguageJob, callers: int) -> SyncContender:
    library = _library()
    if callers > 1:
        raise Absent("its runtimes belong to one thread")

    def once() -> object:
        with library.Runtime(memory_limit=MEMORY_BYTES) as runtime, runtime.new_context(timeout=60.0) as context:
            context.eval(job.code)
            return context.globals.get_handle("run").call(job.text).to_python()

    job.check(once())
    return SyncContender([once])
