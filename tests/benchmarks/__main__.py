"""``python -m tests.benchmarks``: what a guest call costs here, side by side with others, in one run.

Every contender does the same job in the same process in turns of short blocks; the median of the blocks' medians is
told. Peers get what is in their favour (Extism no CBOR, the plain ones no schema, no gate and nobody who watches
deadlines). Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from rho_wasm import Host, HostLimits, Limits
from tests.benchmarks import growth, steady, stops
from tests.benchmarks.compare import compare, resident
from tests.benchmarks.guests import Absent
from tests.benchmarks.jobs import ECHO, JOBS, LOOP, SHA256
from tests.benchmarks.measure import Pace
from tests.benchmarks.peers import OURS, PEERS
from tests.benchmarks.peers.extism import settle_signals
from tests.benchmarks.peers.ours import with_workers
from tests.benchmarks.report import Report, picture, pyplot, table

_QUICK_S = 36.0
"""A quick run begins nothing after this long: what still runs then ends within 50 seconds."""
_SLOW = "left out of a quick run: one call takes many seconds"
_SAME = "left out of a quick run: beside so long a job an instance costs nothing"
_ALONE = "left out of a quick run: one caller has shown it"
_PYTHON = tuple(peer.name for peer in PEERS if peer.name.startswith("python_"))
_REUSED = tuple(peer.name for peer in PEERS if peer.name.endswith("_reused"))


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    pace: Pace
    callers: tuple[int, ...]
    resident: tuple[str, ...]
    tools: tuple[int, ...]
    in_flight: int
    repeats: int
    spin_s: float
    calls: int
    cached: int
    begin_s: float
    skips: dict[str, dict[str, str]]
    """By section, the peers that are left out, and why."""


_FULL = Size(
    pace=Pace(rounds=9, block_s=0.3),
    callers=(2, 3, 4),
    resident=tuple(peer.name for peer in PEERS),
    tools=(1, 100, 10_000),
    in_flight=5_000,
    repeats=20,
    spin_s=3.0,
    calls=100_000,
    cached=1_000,
    begin_s=float("inf"),
    skips={},
)
_QUICK = Size(
    pace=Pace(rounds=3, block_s=0.04),
    callers=(2, 4),
    resident=(OURS, "extism"),
    tools=(1, 100, 1_000),
    in_flight=500,
    repeats=3,
    spin_s=0.5,
    calls=1_000,
    cached=20,
    begin_s=_QUICK_S,
    skips={
        SHA256.group: dict.fromkeys(_REUSED, _SAME),
        LOOP.group: dict.fromkeys(_REUSED, _SAME) | dict.fromkeys(_PYTHON, _SLOW),
        "callers": dict.fromkeys(_REUSED, _ALONE),
    },
)

Section = Callable[[Report, Size], Awaitable[None]]


def _job_section(number: int) -> Section:
    async def section(report: Report, size: Size) -> None:
        job = JOBS[number]
        async with _host() as host:
            group = await compare(host, job, callers=1, pace=size.pace, without=size.skips.get(job.group))
            report.sandbox = host.sandbox.statistics()
        if job is ECHO:
            group = replace(group, rss_mib=resident([name for name in size.resident if name in group.figures]))
        report.groups.append(group)

    return section


async def _callers(report: Report, size: Size) -> None:
    async with _host() as host, _host(workers=2) as other:
        peers = (*PEERS[:1], with_workers(other), *PEERS[1:])
        for callers in size.callers:
            report.groups.append(
                await compare(
                    host, ECHO, callers=callers, pace=size.pace, peers=peers, without=size.skips.get("callers")
                )
            )
        report.sandbox = host.sandbox.statistics()


async def _growth_calls(report: Report, size: Size) -> None:
    report.growth.append(await growth.with_calls((1, 10, 100, 1_000), size.in_flight))


async def _growth_size(report: Report, size: Size) -> None:
    report.growth.append(await growth.with_size((100, 1_000, 10_000, 100_000, 1_000_000), size.pace))


async def _growth_tools(report: Report, size: Size) -> None:
    report.growth.append(await growth.with_tools(size.tools, size.pace))


async def _stops(report: Report, size: Size) -> None:
    report.stops.append(await stops.stop_times(size.repeats, busy=0))
    report.stops.append(await stops.stop_times(size.repeats, busy=4, guests=("spin",)))


async def _blocking(report: Report, size: Size) -> None:
    report.blocking = await stops.loop_blocking(size.spin_s)


async def _first(report: Report, size: Size) -> None:
    report.first_answer = await steady.first_answer(size.repeats)


async def _memory(report: Report, size: Size) -> None:
    report.memory = await steady.many_calls(size.calls)


async def _start(report: Report, size: Size) -> None:
    report.start = await steady.warm_start(size.cached)


SECTIONS: dict[str, Section] = {
    **{job.group: _job_section(number) for number, job in enumerate(JOBS)},
    "callers": _callers,
    "stops": _stops,
    "blocking": _blocking,
    "first_answer": _first,
    "growth_calls": _growth_calls,
    "growth_size": _growth_size,
    "memory": _memory,
    "growth_tools": _growth_tools,
    "start": _start,
}


def _host(workers: int = 0) -> AbstractAsyncContextManager[Host]:
    """The limits are far away, so that all contenders do the whole job."""
    limits = HostLimits(call=Limits(fuel=10**12, deadline_ms=30_000))
    return Host.open(":memory:", limits=limits, workers=workers)


async def run(sections: Sequence[str], size: Size) -> Report:
    """Measures ``sections`` in their order; one for which the time is up is named, not begun."""
    report = Report()
    settle_signals()
    began = time.monotonic()
    for name in sections:
        if time.monotonic() - began > size.begin_s:
            report.left_out[name] = "the time of a quick run is up (--only measures it alone)"
            continue
        print(f"{time.monotonic() - began:6.1f} s {name}", file=sys.stderr, flush=True)
        await SECTIONS[name](report, size)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").partition(":")[2])
    parser.add_argument("--quick", action="store_true", help="fewer samples: ends within 50 seconds")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there")
    parser.add_argument("--picture", metavar="FILE", type=Path, help="draw them there (needs the extra bench)")
    parser.add_argument("--only", metavar="GROUP", action="append", choices=SECTIONS, help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--calls", metavar="N", type=int, help="calls over which memory is watched (default 100,000)")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio", help="the event loop")
    options = parser.parse_args(arguments)
    size = _QUICK if options.quick else _FULL
    if options.calls is not None:
        size = replace(size, calls=options.calls)
    try:
        if options.picture is not None:
            pyplot()
        report = anyio.run(run, options.only or list(SECTIONS), size, backend=options.backend)
        for line in table(report):
            print(line)
        if options.json is not None:
            options.json.write_text(json.dumps(report.as_json(), indent=2) + "\n")
        if options.picture is not None:
            picture(report, options.picture)
    except Absent as absent:
        print(absent, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
