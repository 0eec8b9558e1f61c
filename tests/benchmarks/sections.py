"""The sections of a run: each measures one thing and puts it into the report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from rho_wasm import Host, HostLimits, Limits
from tests.benchmarks import engines, growth, steady, stops
from tests.benchmarks.alone import alone
from tests.benchmarks.compare import compare, resident
from tests.benchmarks.guests import Absent
from tests.benchmarks.host_calls import host_calls
from tests.benchmarks.jobs import ECHO, JOBS
from tests.benchmarks.language_jobs import LANGUAGE_JOBS, LANGUAGES, Language, language_job
from tests.benchmarks.mcp import added_latency, many_clients, protocol_versions
from tests.benchmarks.peers import OURS, PEERS
from tests.benchmarks.peers.languages import language_peers
from tests.benchmarks.peers.ours import with_workers
from tests.benchmarks.recordings import recordings
from tests.benchmarks.report import Report, Told
from tests.benchmarks.sizes import Size
from tests.benchmarks.workshop import WRITTEN, first_answers

__all__ = ["ALL_OF", "SECTIONS", "Section"]

Section = Callable[[Report, Size], Awaitable[None]]


def _host(workers: int = 0) -> AbstractAsyncContextManager[Host]:
    """The limits are far away, so that all contenders do the whole job."""
    engine_call = Limits.for_engines().model_copy(update={"deadline_ms": 30_000})
    limits = HostLimits(call=Limits(fuel=10**12, deadline_ms=30_000), engine_call=engine_call)
    return Host.open(":memory:", limits=limits, workers=workers)


def _job(number: int) -> Section:
    async def section(report: Report, size: Size) -> None:
        job = JOBS[number]
        async with _host() as host:
            skips = size.skips.get(job.group)
            group = await compare(host, job, callers=1, pace=size.pace, peers=PEERS, without=skips)
            report.sandbox = host.sandbox.statistics()
        if job is ECHO:
            group = replace(group, rss_mib=resident([name for name in size.resident if name in group.figures]))
        report.groups.append(group)

    return section


def _language_job(tool: str, language: Language) -> Section:
    async def section(report: Report, size: Size) -> None:
        job = language_job(tool, language)
        peers = language_peers(language)
        missing = engines.engine_is_missing(language) if size.quick else None
        names = {peer.name for peer in peers}
        without = {name: why for name, why in size.skips.get(tool, {}).items() if name in names}
        if missing:
            without[OURS] = missing
        async with _host() as host:
            group = await compare(host, job, callers=1, pace=size.language_pace, peers=peers, without=without)
            report.sandbox = host.sandbox.statistics()
        report.groups.append(group)

    return section


async def _callers(report: Report, size: Size) -> None:
    async with _host() as host, _host(workers=2) as other:
        peers = (*PEERS[:1], with_workers(other), *PEERS[1:])
        skips = size.skips.get("callers")
        for callers in size.callers:
            report.groups.append(await compare(host, ECHO, callers=callers, pace=size.pace, peers=peers, without=skips))
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


async def _start(report: Report, size: Size) -> None:
    report.start = await steady.warm_start(size.cached)


async def _host_calls(report: Report, size: Size) -> None:
    report.host_calls = await host_calls(size.pace)


async def _recordings(report: Report, size: Size) -> None:
    report.recordings = await recordings(size.pace, size.recorded)


async def _steady(report: Report, size: Size) -> None:
    for what in size.watched:
        calls = max(1_000, size.calls // 10) if what in LANGUAGES else size.calls
        try:
            report.steady[what] = alone("steady", what, str(calls))
        except Absent as absent:
            report.steady[what] = f"absent: {absent}"


async def _builds(report: Report, size: Size) -> None:
    for language in LANGUAGES:
        report.builds[language] = await _of_engine(language, size, lambda one: engines.tool_builds(one, size.builds))


async def _first_call(report: Report, size: Size) -> None:
    repeats = 1 if size.quick else 5
    for language in LANGUAGES:
        report.first_call[language] = await _of_engine(language, size, lambda one: engines.first_call(one, repeats))


async def _many_tools(report: Report, size: Size) -> None:
    report.many_tools["python"] = await _of_engine(
        "python", size, lambda one: engines.many_tools(size.language_tools, one)
    )


async def _install(report: Report, size: Size) -> None:
    for language in LANGUAGES:
        report.installs[language] = await _of_engine(language, size, engines.install)


async def _workshop(report: Report, size: Size) -> None:
    for language in WRITTEN:
        if size.quick and language in LANGUAGES and (missing := engines.engine_is_missing(language)):
            report.workshop[language] = missing
            continue
        try:
            report.workshop[language] = await first_answers(language, 2 if size.quick else 20)
        except Absent as absent:
            report.workshop[language] = f"absent: {absent}"


async def _mcp(report: Report, size: Size) -> None:
    try:
        versions = protocol_versions()
    except Absent as absent:
        report.mcp["every way"] = f"absent: {absent}"
        return
    report.mcp |= await added_latency(size.pace, versions)
    report.mcp_clients |= await many_clients(size.clients, versions)


async def _of_engine(language: Language, size: Size, measure: Callable[[Language], Awaitable[Told]]) -> Told | str:
    if size.quick and (missing := engines.engine_is_missing(language)):
        return missing
    try:
        return await measure(language)
    except Absent as absent:
        return f"absent: {absent}"


_LANGUAGES: dict[str, Section] = {
    **{f"{language}_{tool}": _language_job(tool, language) for tool in LANGUAGE_JOBS for language in LANGUAGES},
    "languages_build": _builds,
}
_LANGUAGES_ONCE: dict[str, Section] = {
    "languages_first_call": _first_call,
    "languages_tools": _many_tools,
    "languages_install": _install,
}

SECTIONS: dict[str, Section] = {
    **{job.group: _job(number) for number, job in enumerate(JOBS)},
    "callers": _callers,
    **_LANGUAGES,
    "stops": _stops,
    "blocking": _blocking,
    "first_answer": _first,
    "growth_calls": _growth_calls,
    "growth_size": _growth_size,
    "growth_tools": _growth_tools,
    "start": _start,
    "host_calls": _host_calls,
    "recordings": _recordings,
    "workshop": _workshop,
    "mcp": _mcp,
    "steady": _steady,
    **_LANGUAGES_ONCE,
}
"""In the order of a run: what a quick one has no time for comes last."""

ALL_OF = {"languages": (*_LANGUAGES, *_LANGUAGES_ONCE)}
"""Names that stand for several sections."""
