"""How things are timed: contenders take turns in short blocks, so that a noisy machine is noisy for all of them."""

from __future__ import annotations

import gc
import os
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

__all__ = [
    "AsyncContender",
    "Block",
    "Contender",
    "Figures",
    "Pace",
    "SyncContender",
    "alternate",
    "descriptors",
    "rss_bytes",
]

Call = Callable[[], object]
AsyncCall = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Block:
    """Seconds of each call of one block, and of the block as a whole by the wall clock."""

    samples: Sequence[float]
    seconds: float


class Contender(Protocol):
    """What is timed: ``callers`` at once."""

    @property
    def callers(self) -> int: ...

    async def block(self, count: int) -> Block:
        """``count`` calls by each caller."""

    def close(self) -> None:
        """Lets go of processes and engines of its own."""


class SyncContender:
    """One caller a function, each in a thread of its own; one alone runs in the thread that asks."""

    def __init__(self, calls: Sequence[Call], *, close: Callable[[], None] | None = None) -> None:
        self._calls = tuple(calls)
        self._close = close

    def close(self) -> None:
        if self._close is not None:
            self._close()

    @property
    def callers(self) -> int:
        return len(self._calls)

    async def block(self, count: int) -> Block:
        taken: list[float] = []
        if self.callers == 1:
            began = time.perf_counter()
            _repeat(self._calls[0], count, taken)
            return Block(taken, time.perf_counter() - began)
        faults: list[BaseException] = []
        ready = threading.Barrier(self.callers + 1)

        def work(call: Call) -> None:
            own: list[float] = []
            ready.wait()
            try:
                _repeat(call, count, own)
            except BaseException as error:
                faults.append(error)
            taken.extend(own)

        threads = [threading.Thread(target=work, args=(call,)) for call in self._calls]
        for thread in threads:
            thread.start()
        ready.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        if faults:
            raise faults[0]
        return Block(taken, seconds)


class AsyncContender:
    """``callers`` tasks on one event loop, all with the same function."""

    def __init__(self, call: AsyncCall, callers: int, *, close: Callable[[], None] | None = None) -> None:
        self._call = call
        self._callers = callers
        self._close = close

    def close(self) -> None:
        if self._close is not None:
            self._close()

    @property
    def callers(self) -> int:
        return self._callers

    async def block(self, count: int) -> Block:
        taken: list[float] = []

        async def caller() -> None:
            for _ in range(count):
                start = time.perf_counter()
                await self._call()
                taken.append(time.perf_counter() - start)

        began = time.perf_counter()
        if self._callers == 1:
            await caller()
        else:
            async with anyio.create_task_group() as group:
                for _ in range(self._callers):
                    group.start_soon(caller)
        return Block(taken, time.perf_counter() - began)


def _repeat(call: Call, count: int, taken: list[float]) -> None:
    for _ in range(count):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is measured: ``rounds`` blocks of each contender, about ``block_s`` seconds, at most ``most`` calls."""

    rounds: int
    block_s: float
    most: int = 5_000
    slow_s: float = 2.0
    """A contender whose one call takes longer has only that call measured."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one contender, in microseconds. The median is the median of the blocks' medians."""

    samples: int
    min_us: float
    median_us: float
    p99_us: float
    calls_per_s: float

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Figures:
        ordered = sorted(sample for block in blocks for sample in block.samples)
        count = len(ordered)
        return cls(
            samples=count,
            min_us=ordered[0] * 1e6,
            median_us=statistics.median(statistics.median(block.samples) for block in blocks) * 1e6,
            p99_us=ordered[min(count - 1, int(count * 0.99))] * 1e6,
            calls_per_s=count / sum(block.seconds for block in blocks),
        )

    def as_json(self) -> dict[str, float]:
        names = ("min_us", "median_us", "p99_us", "calls_per_s")
        return {"samples": self.samples} | {name: round(getattr(self, name), 2) for name in names}


async def alternate(contenders: Mapping[str, Contender], pace: Pace) -> dict[str, Figures]:
    """Times all contenders in turns. Each round starts with another one; garbage is collected before each block."""
    blocks: dict[str, list[Block]] = {name: [] for name in contenders}
    counts: dict[str, int] = {}
    for name, contender in contenders.items():
        first = await contender.block(1)
        if first.seconds > pace.slow_s:
            blocks[name].append(first)
            continue
        # A short first call was cold in some cache or other; what follows says how long one takes.
        tried = first if first.seconds > pace.block_s else await contender.block(10)
        one = tried.seconds / (len(tried.samples) / contender.callers)
        counts[name] = max(1, min(pace.most, int(pace.block_s / one)))
    names = list(counts)
    # What is there now stays: looking at all modules and guests in each collection takes longer than a block.
    gc.collect()
    gc.freeze()
    try:
        for turn in range(pace.rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)] if names else ():
                gc.collect()
                blocks[name].append(await contenders[name].block(counts[name]))
    finally:
        gc.unfreeze()
    return {name: Figures.of(taken) for name, taken in blocks.items()}


def rss_bytes() -> int:
    """Resident memory of this process and its children now; 0 where /proc is absent."""
    return sum(_resident(Path("/proc") / process) for process in ("self", *_children()))


def _children() -> list[str]:
    return [child for listed in Path("/proc/self/task").glob("*/children") for child in _read(listed).split()]


def _resident(process: Path) -> int:
    fields = _read(process / "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def descriptors() -> int:
    """Open file descriptors of this process and its children; 0 where /proc is absent."""
    return sum(_open_files(Path("/proc") / process) for process in ("self", *_children()))


def _open_files(process: Path) -> int:
    try:
        return sum(1 for _ in (process / "fd").iterdir())
    except OSError:
        return 0
