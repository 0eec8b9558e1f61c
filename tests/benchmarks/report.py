"""What was measured, for a person and for a program."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from rho_wasm.sandbox import SandboxStatistics
from tests.benchmarks.aims import aims
from tests.benchmarks.compare import Group
from tests.benchmarks.growth import Growth
from tests.benchmarks.peers import OURS
from tests.benchmarks.stops import DEADLINE_MS, Blocking, Stops

__all__ = ["Report", "Told", "table"]

_LIBRARIES = (
    "rho-wasm",
    "wasmtime",
    "cbor2",
    "anyio",
    "jsonschema-rs",
    "mcp",
    "ziglang",
    "extism",
    "extism-sys",
    "modebox",
    "pydantic-monty",
    "pyeryx",
    "quickjs-rs",
)
_STEADY = (
    "over {calls:,} calls in {seconds:,.0f} s: RSS {rss_before_mib} -> {rss_after_mib} MiB, "
    "descriptors {descriptors_before} -> {descriptors_after}"
)
_BUILD = (
    "{source_bytes:,} B in {median_ms} ms (min {min_ms}, of {builds:,}), with mapping the engine {once_ms} ms; "
    "image {image_kib:,} KiB"
)
_FIRST_CALL = (
    "{process_ms:,.0f} ms with starting Python and ending it; open {open_ms:.0f}, call {call_ms:.1f}, "
    "again {again_ms:.2f}"
)
_TOOLS = (
    "{tools:,} ({held:,} in memory), {tool_kib:,} KiB each: RSS {rss_one_mib} MiB with one of them, "
    "{rss_all_mib} with all; first call of each {first_calls_ms} ms, built in {build_s:,} s, staged in {stage_s:,} s"
)
_WORKSHOP = (
    "{write_ms:,.1f} + {switch_ms:,.1f} + {call_ms:,.1f} ms to write, switch and call (at least {min_ms:,.1f}, "
    "of {tools:,}); the first of a host {first_ms:,.0f} ms"
)
_INSTALL = (
    "{install_s} s (made and snapshotted {make_s}, compiled and tried {compile_s}); {engine_mib} MiB, "
    "at most {peak_rss_mib:,.0f} MiB resident"
)
_RECORDINGS = (
    "recording the echo: {off_median_us:.1f} -> {on_median_us:.1f} us, x{ratio:.3f} (min {off_min_us:.1f} -> "
    "{on_min_us:.1f} us, x{ratio_of_min:.3f}); {replayed:,} recorded calls replayed, {replays_per_s:,.0f} a second"
)

_MCP = (
    "{rho_wasm_us:,.0f} us (min {rho_wasm_min_us:,.0f}), of which a direct call is {direct_us:,.0f}; the bare SDK "
    "{mcpserver_us:,.0f} (min {mcpserver_min_us:,.0f}), x{to_mcpserver:.3f} (of min x{to_mcpserver_min:.3f}); its low "
    "level {lowlevel_us:,.0f} (min {lowlevel_min_us:,.0f}), x{to_lowlevel:.3f} (of min x{to_lowlevel_min:.3f})"
)
_CLIENTS = "{asked:,} calls of {clients:,} clients: {answered:,} answered, {lost:,} lost; {calls_per_s:,.0f} a second"


Told: TypeAlias = dict[str, float]


@dataclass(slots=True)
class Report:
    """All figures of one run. What was left out says why in ``left_out``."""

    groups: list[Group] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    stops: list[Stops] = field(default_factory=list)
    blocking: Blocking | None = None
    steady: dict[str, Told | str] = field(default_factory=dict)
    """By way of calling, and by language, as the four after it; a text says why there are no figures."""
    builds: dict[str, Told | str] = field(default_factory=dict)
    first_call: dict[str, Told | str] = field(default_factory=dict)
    many_tools: dict[str, Told | str] = field(default_factory=dict)
    installs: dict[str, Told | str] = field(default_factory=dict)
    first_answer: dict[str, float] | None = None
    start: dict[str, float] | None = None
    host_calls: Told | None = None
    recordings: Told | None = None
    workshop: dict[str, Told | str] = field(default_factory=dict)
    """By language."""
    mcp: dict[str, Told | str] = field(default_factory=dict)
    """By transport and version of the protocol."""
    mcp_clients: dict[str, Told | str] = field(default_factory=dict)
    """By version and server."""
    left_out: dict[str, str] = field(default_factory=dict)
    sandbox: SandboxStatistics | None = None

    def as_json(self) -> dict[str, Any]:
        """``groups`` and ``versions`` are what other programs read; the other keys may grow."""
        return {
            "groups": {group.name: group.as_json() for group in self.groups},
            "versions": versions(),
            "machine": self.machine(),
            "figures": {
                "growth": {growth.name: growth.as_json() for growth in self.growth},
                "stops": [{"busy_threads": stops.busy, "late": stops.late} for stops in self.stops],
                "loop_blocking": asdict(self.blocking) if self.blocking else None,
                "steady": self.steady,
                "languages": {
                    "build": self.builds,
                    "first_call": self.first_call,
                    "tools": self.many_tools,
                    "install": self.installs,
                },
                "first_answer": self.first_answer,
                "start": self.start,
                "host_calls": self.host_calls,
                "recordings": self.recordings,
                "workshop": self.workshop,
                "mcp": {"latency": self.mcp, "many_clients": self.mcp_clients},
            },
            "absent": {group.name: group.absent for group in self.groups if group.absent},
            "left_out": self.left_out,
        }

    def machine(self) -> dict[str, Any]:
        """Where it ran and how: figures of two machines, or of two ways, are not compared."""
        told: dict[str, Any] = {
            "system": f"{platform.system()} {platform.release()}",
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load": [round(load, 2) for load in os.getloadavg()],
        }
        if self.sandbox is not None:
            signals = self.sandbox.signals_based_traps
            told |= {"way": self.sandbox.way, "ticker": self.sandbox.ticker, "signals_based_traps": signals}
        return told


def versions() -> dict[str, str]:
    """Of Python and of each library that is measured; one that is not installed is ``absent``."""
    return {"python": platform.python_version()} | {name: _version(name) for name in _LIBRARIES}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(report: Report) -> Iterator[str]:
    """The lines of the table."""
    yield from (f"{name}: {value}" for name, value in report.machine().items())
    yield "versions: " + ", ".join(f"{name} {number}" for name, number in versions().items())
    for group in report.groups:
        yield from _apart(_group(group))
    yield from _apart(aims(report.groups, builds=report.builds, tools=report.many_tools.get("python")))
    yield from _apart(_languages(report))
    for growth in report.growth:
        yield from _apart(_growth(growth))
    for stops in report.stops:
        yield from _apart(_stops(stops))
    yield from _apart(_once(report))
    yield from _apart(f"{section}: left out, {why}" for section, why in report.left_out.items())


def _apart(lines: Iterator[str]) -> Iterator[str]:
    """``lines`` after an empty one; nothing for none."""
    for number, line in enumerate(lines):
        if number == 0:
            yield ""
        yield line


def _languages(report: Report) -> Iterator[str]:
    yield from _lines("tool built", report.builds, _BUILD)
    yield from _lines("first call of a new process", report.first_call, _FIRST_CALL)
    yield from _lines("many tools", report.many_tools, _TOOLS)
    yield from _lines("engine made in an empty folder", report.installs, _INSTALL)


def _stops(stops: Stops) -> Iterator[str]:
    yield f"past a {DEADLINE_MS} ms deadline, {stops.busy} busy Python threads beside"
    for guest, late in stops.late.items():
        yield f"  {guest:28} median {late['median_ms']:8.1f} ms   most {late['max_ms']:8.1f} ms"


def _once(report: Report) -> Iterator[str]:
    if (gaps := report.blocking) is not None:
        yield (
            f"longest gap of a 1 ms ticker on the event loop: {gaps.spinning_ms:.1f} ms while 4 guests spin "
            f"(median {gaps.median_ms:.2f} ms), {gaps.asking_ms:.1f} ms while 8 ask with 50,000 arguments, "
            f"{gaps.idle_ms:.1f} ms without"
        )
    if (first := report.first_answer) is not None:
        yield "activate to first answer: first {first_ms:.1f} ms, median {median_ms:.1f} ms".format(**first)
    yield from _lines("steady", report.steady, _STEADY)
    if report.host_calls is not None:
        costs = (f"{name.removesuffix('_us')} {cost:.3g}" for name, cost in report.host_calls.items())
        yield f"a host call that does nothing, in us: {', '.join(costs)}"
    yield from _lines("write_tool to first answer", report.workshop, _WORKSHOP)
    yield from _lines("echo through MCP", report.mcp, _MCP)
    yield from _lines("many clients of MCP", report.mcp_clients, _CLIENTS)
    if report.recordings is not None:
        yield _RECORDINGS.format(**report.recordings)
    if (start := report.start) is not None:
        yield (
            "start of a host with {tools:,} cached tools: {start_ms:.0f} ms (open {open_ms:.0f}, snapshot "
            "{snapshot_ms:.1f}, first answer {first_answer_ms:.1f}); compiled again: {compiled}".format(**start)
        )


def _group(group: Group) -> Iterator[str]:
    yield f"{group.title:36} {'min':>11} {'median':>11} {'p99':>11} {'calls/s':>11} {'RSS':>7} {'median/ours':>12}"
    ours = group.figures.get(OURS)
    names = dict.fromkeys((*group.figures, *group.absent))
    for name in names:
        if (why := group.absent.get(name)) is not None:
            yield f"  {name:34} {why}"
        if (figures := group.figures.get(name)) is None:
            continue
        rss = f"{group.rss_mib[name]:.0f}M" if name in group.rss_mib else ""
        ratio = f"{figures.median_us / ours.median_us:.3f}" if ours is not None else ""
        times = " ".join(f"{time:9,.1f}us" for time in (figures.min_us, figures.median_us, figures.p99_us))
        once = " (one call)" if figures.samples == 1 else ""
        yield f"  {name + once:34} {times} {figures.calls_per_s:11,.1f} {rss:>7} {ratio:>12}"


def _lines(title: str, figures: Mapping[str, Told | str], text: str) -> Iterator[str]:
    for name, told in figures.items():
        yield f"{title}, {name}: {told if isinstance(told, str) else text.format(**told)}"


def _growth(growth: Growth) -> Iterator[str]:
    yield f"{growth.name:36} {'min':>11} {'median':>11} {'p99':>11} {'calls/s':>11}"
    for at, point in growth.points.items():
        times = " ".join(f"{point[name]:9,.1f}us" for name in ("min_us", "median_us", "p99_us"))
        more = "".join(f"   {name} {point[name]:,}" for name in ("snapshot_us", "switch_ms") if name in point)
        yield f"  {f'{at:,} {growth.unit}':34} {times} {point['calls_per_s']:11,.1f}{more}"
