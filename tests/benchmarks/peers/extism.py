"""Extism: a CompiledPlugin, and of it a fresh Plugin a call or one for all.

Its guest gets raw text, which is less than CBOR: where that matters it is in Extism's favour.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from rho_wasm import Host
from tests.benchmarks.guests import Absent, extism_guest
from tests.benchmarks.jobs import Job
from tests.benchmarks.measure import SyncContender
from tests.benchmarks.peers.peer import Enter
from tests.benchmarks.peers.wire import MEMORY_BYTES

__all__ = ["extism", "settle"]


def _library() -> Any:
    try:
        # The package's front door does not name CompiledPlugin; its documentation does.
        return importlib.import_module("extism.extism")
    except ImportError:
        raise Absent("extism is not installed: pip install 'rho-wasm[bench]'") from None


def settle() -> None:
    """Makes it take over the signals that its engine takes over. Raises :class:`Absent`."""
    library = _library()
    library.Plugin(library.CompiledPlugin(b"\0asm\x01\0\0\0"))


def _caller(library: Any, compiled: Any, job: Job, *, fresh: bool) -> Callable[[], object]:
    text = job.text
    kept: Any = None if fresh else library.Plugin(compiled)

    def again() -> object:
        return kept.call("run", text.encode()).decode()

    def anew() -> object:
        with library.Plugin(compiled) as plugin:
            return plugin.call("run", text.encode()).decode()

    return anew if fresh else again


def extism(*, fresh: bool) -> Enter[Job]:
    async def enter(host: Host | None, job: Job, callers: int) -> SyncContender:
        library = _library()
        wasm = await extism_guest(job)
        limits = {"timeout_ms": 60_000, "memory": {"max_pages": MEMORY_BYTES // 65_536}}
        compiled = library.CompiledPlugin({"wasm": [{"data": wasm}], **limits})
        calls = [_caller(library, compiled, job, fresh=fresh) for _ in range(callers)]
        for call in calls:
            job.check(call())
        return SyncContender(calls)

    return enter
