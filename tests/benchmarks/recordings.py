"""What recording adds to a call, and how fast recorded calls are replayed."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack

from rho_wasm import Host, Policy
from tests.benchmarks.jobs import ECHO
from tests.benchmarks.measure import Pace, alternate
from tests.benchmarks.peers.ours import ours

__all__ = ["recordings"]


async def recordings(pace: Pace, calls: int) -> dict[str, float]:
    """The echo of 1 KB with and without, on stores on a disk and in turns; then ``calls`` recorded calls, replayed."""
    policy = Policy.parse({"recordings": {"on": True, "per_tool": calls}})
    with ExitStack() as stack:
        off_store, on_store = (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2))
        async with Host.open(off_store) as off, Host.open(on_store, policy=policy) as on:
            contenders = {"off": await ours(off, ECHO, 1), "on": await ours(on, ECHO, 1)}
            figures = await alternate(contenders, pace)
            await contenders["on"].block(calls)
            await on.source.write_recordings()
            rows = on.store.recordings.rows(limit=calls)
            began = time.perf_counter()
            (report,) = await on.source.replay(rows)
            seconds = time.perf_counter() - began
            statistics = on.source.recorder_statistics()
    assert statistics is not None
    assert len(report.replays) == len(rows) == calls
    assert all(each.same for each in report.replays), "a guest without grants answers the same"
    return {
        "off_min_us": round(figures["off"].min_us, 1),
        "on_min_us": round(figures["on"].min_us, 1),
        "off_median_us": round(figures["off"].median_us, 1),
        "on_median_us": round(figures["on"].median_us, 1),
        "ratio": round(figures["on"].median_us / figures["off"].median_us, 3),
        "ratio_of_min": round(figures["on"].min_us / figures["off"].min_us, 3),
        "dropped": statistics.dropped + statistics.failed,
        "replayed": calls,
        "replays_per_s": round(calls / seconds, 1),
    }
