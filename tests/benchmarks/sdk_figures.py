"""``python -m tests.benchmarks.sdk_figures``: what each guest SDK costs here, as the table of guest_sdk/README.md.

Every SDK's vector guest (tests/guest_sdk/guests) has the same tools. Each is built twice and more: *cold*, on a machine
that keeps nothing yet (no engine, no standard library compiled), and *warm*. Then ``word_count`` (of the Gettysburg
address) and ``sha256`` (of 100 KB) are called through a host, each time in a fresh instance. ``--write`` puts the table
into the README. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from rho_wasm import Artifact, Host, HostLimits, Limits, ToolCall, ToolResult, build
from rho_wasm.errors import BuildError
from rho_wasm.resources import fixture
from tests.guest_sdk.vectors_guests import GUESTS, VectorGuest

__all__ = ["BEGIN", "COLUMNS", "END", "README", "Row", "into", "table"]

README = Path(__file__).parents[2] / "guest_sdk" / "README.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
COLUMNS = (
    *("language", "build, cold", "build, warm", "module"),
    *("word count", "its fuel", "SHA-256 of 100 KB", "its fuel"),
)
_TEXT_BYTES = 100_000
_WARM_BUILDS = 3
_FEW, _ENOUGH_S = 3, 10.0
"""Calls that take long are fewer, but no less than so many."""
_PATIENT = HostLimits(
    call=Limits(deadline_ms=60_000), engine_call=Limits.for_engines().model_copy(update={"deadline_ms": 60_000})
)
"""A busy machine takes longer, and is measured all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One language. Seconds, bytes, units of fuel; ``absent`` says why there are none: it could not be built."""

    language: str
    cold_s: float = 0.0
    warm_s: float = 0.0
    module_bytes: int = 0
    calls: tuple[tuple[float, int], ...] = ()
    """Median and fuel of a call of each tool."""
    absent: str = ""

    def cells(self) -> tuple[str, ...]:
        if self.absent:
            return (self.language, self.absent, *[""] * (len(COLUMNS) - 2))
        calls = [text for seconds, fuel in self.calls for text in (f"{seconds * 1000:.2f} ms", f"{fuel:,}")]
        cold = f"{self.cold_s:.1f} s" if self.cold_s else "not measured"
        return self.language, cold, f"{self.warm_s:.2f} s", f"{self.module_bytes / 1000:,.1f} KB", *calls


async def _measured(guest: VectorGuest, *, calls: int, cold: bool) -> Row:
    try:
        cold_s, _ = await _built(guest) if cold else (0.0, None)
        # What is cold was compiled just now, unless it was not asked for.
        built = [await _built(guest) for _ in range(_WARM_BUILDS if cold else 1)]
    except BuildError as error:
        return Row(language=guest.language, absent=error.diagnostics[0].message)
    artifact = built[0][1]
    asked = {"word_count": fixture("data/gettysburg.txt").read_text(encoding="utf-8"), "sha256": "a" * _TEXT_BYTES}
    async with Host.open(":memory:", core=[], limits=_PATIENT) as host:
        await host.source.activate(await host.source.stage([artifact], author="figures"))
        told = [await _called(host, tool, text, calls=calls) for tool, text in asked.items()]
    return Row(
        language=guest.language,
        cold_s=cold_s,
        warm_s=min(seconds for seconds, _ in built),
        module_bytes=len(artifact.wasm),
        calls=tuple(told),
    )


async def _built(guest: VectorGuest) -> tuple[float, Artifact]:
    began = time.perf_counter()
    artifact = await build(guest.source, language=guest.language, trusted=True)
    return time.perf_counter() - began, artifact


async def _called(host: Host, tool: str, text: str, *, calls: int) -> tuple[float, int]:
    async def once() -> ToolResult:
        result = await host.runner.run(ToolCall(id="figures", name=tool, arguments={"text": text}), timeout_ms=60_000)
        if result.status != "ok" or (tool == "sha256" and result.value != hashlib.sha256(text.encode()).hexdigest()):
            raise SystemExit(f"{tool} answered {result.text[:200]}")
        return result

    fuel = (await once()).fuel_used
    taken: list[float] = []
    while len(taken) < calls and (len(taken) < _FEW or sum(taken) < _ENOUGH_S):
        began = time.perf_counter()
        await once()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken), fuel or 0


def table(rows: Sequence[Row]) -> str:
    """The rows as a table, and below it what they were measured on."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(row.cells())} |" for row in rows]
    versions = f"CPython {platform.python_version()}, wasmtime {importlib.metadata.version('wasmtime')}"
    return "\n".join([*lines, "", f"Measured on {platform.system()} {platform.machine()}, {_processor()}, {versions}."])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{os.cpu_count()} processors {next(named, '')}".strip()


def into(text: str, figures: str) -> str:
    """``text`` with ``figures`` between its marks. ValueError where it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{figures}\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sdk_figures", description=(__doc__ or "")[:70])
    names = [guest.language for guest in GUESTS]
    parser.add_argument("--only", metavar="LANGUAGE", action="append", choices=names, help=f"of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="no cold builds, few calls")
    parser.add_argument("--write", action="store_true", help=f"into {README.name} of guest_sdk")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory(prefix="rho-figures-") as folder:
        for guest in GUESTS:
            if options.only is None or guest.language in options.only:
                print(f"{guest.language} ...", file=sys.stderr, flush=True)
                if not options.quick:
                    os.environ["RHO_WASM_CACHE"] = str(Path(folder, guest.language, "native"))
                measure = partial(_measured, guest, calls=3 if options.quick else 51, cold=not options.quick)
                rows.append(anyio.run(measure))
                print(" | ".join(rows[-1].cells()), file=sys.stderr, flush=True)
    figures = table(rows)
    print(figures)
    if options.write:
        README.write_text(into(README.read_text(encoding="utf-8"), figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
