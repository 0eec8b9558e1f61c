"""Timing helpers: samples in microseconds, and what is said of them."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figures:
    """Of many samples: microseconds, and calls per second by the wall clock of the whole block."""

    samples: int
    min_us: float
    median_us: float
    p99_us: float
    calls_per_s: float

    @classmethod
    def of(cls, samples: Sequence[float], seconds: float) -> Figures:
        ordered = sorted(samples)
        count = len(ordered)
        return cls(
            samples=count,
            min_us=ordered[0] * 1e6,
            median_us=ordered[count // 2] * 1e6,
            p99_us=ordered[min(count - 1, int(count * 0.99))] * 1e6,
            calls_per_s=count / seconds,
        )

    def as_json(self) -> dict[str, float]:
        return {name: round(getattr(self, name), 2) for name in ("min_us", "median_us", "p99_us", "calls_per_s")}


async def sample(call: Callable[[], Awaitable[object]], count: int, *, warm: int = 20) -> Figures:
    """``count`` calls, one after the other, after ``warm`` that are not counted."""
    for _ in range(warm):
        await call()
    gc.collect()
    taken: list[float] = []
    began = time.perf_counter()
    for _ in range(count):
        start = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - start)
    return Figures.of(taken, time.perf_counter() - began)


def sample_sync(call: Callable[[], object], count: int, *, warm: int = 20) -> Figures:
    """The same for a plain function."""
    for _ in range(warm):
        call()
    gc.collect()
    taken: list[float] = []
    began = time.perf_counter()
    for _ in range(count):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return Figures.of(taken, time.perf_counter() - began)


def rss_bytes() -> int:
    """Resident memory of this process now; 0 where /proc is absent."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
