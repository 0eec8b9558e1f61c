"""pydantic-monty: a subset of Python, in a process of a pool, a fresh session for each call."""

from __future__ import annotations

import importlib
from typing import Any

from rho_wasm import Host
from tests.benchmarks.guests import Absent
from tests.benchmarks.language_jobs import LanguageJob
from tests.benchmarks.measure import SyncContender
from tests.benchmarks.peers.wire import MEMORY_BYTES

__all__ = ["monty"]


def _library() -> Any:
    try:
        return importlib.import_module("pydantic_monty")
    except ImportError:
        raise Absent("pydantic-monty is not installed: pip install 'rho-wasm[bench]'") from None


async def monty(host: Host | None, job: LanguageJob, callers: int) -> SyncContender:
    """The source is fed each time: restoring a session that holds it already was no faster."""
    library = _library()
    pool = library.Monty(min_processes=callers).__enter__()
    source = f"{job.code}\nrun(text)"
    limits = {"max_feed_duration_secs": 60.0, "max_memory": MEMORY_BYTES}
    inputs = {"text": job.text}

    def once() -> object:
        with pool.checkout(limits=limits) as session:
            return session.feed_run(source, inputs=inputs)

    def close() -> None:
        pool.__exit__(None, None, None)

    try:
        job.check(once())
    except library.MontyError as error:
        close()
        raise Absent(f"its subset of Python cannot do it: {str(error)[:80]!r}") from None
    return SyncContender([once] * callers, close=close)
