"""What was measured, for a person, for a program, and as a picture."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rho_wasm.sandbox import SandboxStatistics
from tests.benchmarks.compare import Group
from tests.benchmarks.growth import Growth
from tests.benchmarks.guests import Absent
from tests.benchmarks.peers import OURS, PEERS
from tests.benchmarks.stops import DEADLINE_MS, Blocking, Stops

__all__ = ["Report", "picture", "pyplot", "table"]

_LIBRARIES = ("rho-wasm", "wasmtime", "extism", "extism-sys", "cbor2", "anyio", "jsonschema-rs", "ziglang")
_AIM_US, _AIM_EXTISM, _AIM_FLOOR = 100, 2.5, 2.0


@dataclass(slots=True)
class Report:
    """All figures of one run. What was left out says why in ``left_out``."""

    groups: list[Group] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    stops: list[Stops] = field(default_factory=list)
    blocking: Blocking | None = None
    memory: dict[str, float] | None = None
    first_answer: dict[str, float] | None = None
    start: dict[str, float] | None = None
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
                "memory": self.memory,
                "first_answer": self.first_answer,
                "start": self.start,
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
        yield ""
        yield from _group(group)
    yield from _aims(report.groups)
    for growth in report.growth:
        yield ""
        yield from _growth(growth)
    for stops in report.stops:
        yield ""
        yield f"past a {DEADLINE_MS} ms deadline, {stops.busy} busy Python threads beside"
        for guest, late in stops.late.items():
            yield f"  {guest:28} median {late['median_ms']:8.1f} ms   most {late['max_ms']:8.1f} ms"
    yield ""
    if (gaps := report.blocking) is not None:
        yield (
            f"longest gap of a 1 ms ticker on the event loop: {gaps.spinning_ms:.1f} ms while 4 guests spin "
            f"(median {gaps.median_ms:.2f} ms), {gaps.idle_ms:.1f} ms without"
        )
    if (first := report.first_answer) is not None:
        yield "activate to first answer: first {first_ms:.1f} ms, median {median_ms:.1f} ms".format(**first)
    if (memory := report.memory) is not None:
        yield (
            "over {calls:,} calls: RSS {rss_before_mib} -> {rss_after_mib} MiB, "
            "descriptors {descriptors_before} -> {descriptors_after}".format(**memory)
        )
    if (start := report.start) is not None:
        yield (
            "start of a host with {tools:,} cached tools: {start_ms:.0f} ms (open {open_ms:.0f}, snapshot "
            "{snapshot_ms:.1f}, first answer {first_answer_ms:.1f}); compiled again: {compiled}".format(**start)
        )
    yield from (f"{section}: left out, {why}" for section, why in report.left_out.items())


def _group(group: Group) -> Iterator[str]:
    yield f"{group.title:36} {'min':>11} {'median':>11} {'p99':>11} {'calls/s':>11} {'RSS':>7} {'median/ours':>12}"
    ours = group.figures.get(OURS)
    names = dict.fromkeys((*group.figures, *(peer.name for peer in PEERS)))
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


def _aims(groups: Sequence[Group]) -> Iterator[str]:
    echo = next((group for group in groups if group.name == "echo_1k"), None)
    ours = echo.figures.get(OURS) if echo is not None else None
    if echo is None or ours is None:
        return
    median = ours.median_us
    yield ""
    yield f"aim: a whole call under {_AIM_US} us: {median:.1f} us, {_verdict(median < _AIM_US)}"
    if (extism := echo.figures.get("extism")) is not None:
        ratio = extism.median_us / median
        yield f"aim: {_AIM_EXTISM} times as fast as Extism fresh: {ratio:.2f}, {_verdict(ratio >= _AIM_EXTISM)}"
    if (floor := echo.figures.get("wasmtime_c_api")) is not None:
        ratio = median / floor.median_us
        yield f"aim: at most {_AIM_FLOOR} times the floor of the C API: {ratio:.2f}, {_verdict(ratio <= _AIM_FLOOR)}"


def _verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"


def _growth(growth: Growth) -> Iterator[str]:
    yield f"{growth.name:36} {'min':>11} {'median':>11} {'p99':>11} {'calls/s':>11}"
    for at, point in growth.points.items():
        times = " ".join(f"{point[name]:9,.1f}us" for name in ("min_us", "median_us", "p99_us"))
        more = "".join(f"   {name} {point[name]:,}" for name in ("snapshot_us", "switch_ms") if name in point)
        yield f"  {f'{at:,} {growth.unit}':34} {times} {point['calls_per_s']:11,.1f}{more}"


def pyplot() -> Any:
    """matplotlib without a display. Raises :class:`Absent` where it is not installed."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise Absent("matplotlib is not installed: pip install 'rho-wasm[bench]'") from None


def picture(report: Report, path: Path) -> None:
    """Medians of every group, and how the cost grows, on logarithmic scales. The suffix says the format."""
    plot = pyplot()
    panels = len(report.groups) + len(report.growth)
    if panels == 0:
        raise Absent("this run has nothing that a picture could show")
    columns = min(panels, 4)
    rows = -(-panels // columns)
    drawn, axes = plot.subplots(rows, columns, figsize=(4.5 * columns, 3.6 * rows), squeeze=False)
    places = iter(axes.flat)
    for group in report.groups:
        names = list(reversed(group.figures))
        colours = ["tab:red" if name == OURS else "tab:gray" for name in names]
        place = next(places)
        medians = [group.figures[name].median_us for name in names]
        place.bar_label(place.barh(names, medians, color=colours), fmt="{:,.1f}", padding=2, fontsize=7)
        # A bar has no true start on such a scale; far from the shortest it exaggerates no difference.
        place.set(title=group.title, xlabel="median, us", xscale="log", xlim=(min(medians) / 10, max(medians) * 10))
    for growth in report.growth:
        place = next(places)
        medians = [point["median_us"] for point in growth.points.values()]
        place.plot(list(growth.points), medians, "o-", color="tab:red")
        place.set(title=growth.name, xlabel=growth.unit, ylabel="median, us", xscale="log", yscale="log")
        place.set_ylim(min(medians) / 10, max(medians) * 10)
    for place in places:
        place.axis("off")
    drawn.suptitle(", ".join(f"{name}: {value}" for name, value in report.machine().items()), fontsize=8)
    drawn.tight_layout()
    drawn.savefig(path)
    plot.close(drawn)
