"""What was aimed at, and whether this run reached it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.benchmarks.compare import Group
from tests.benchmarks.peers import OURS
from tests.benchmarks.peers.languages import IN_WEBASSEMBLY

__all__ = ["aims"]

_CALL_US, _EXTISM, _FLOOR = 100, 2.5, 2.0
_TINY_US = {"python_tiny": 800, "javascript_tiny": 350}
_BUILD_MS = 100
_TOOLS, _TOOLS_MIB = 1_000, 400

Told = Mapping[str, float]


def aims(groups: Sequence[Group], *, builds: Mapping[str, Told | str], tools: Told | str | None) -> Iterator[str]:
    """A line for each aim that this run has figures of."""
    medians = {group.name: {name: told.median_us for name, told in group.figures.items()} for group in groups}
    yield from _calls(medians.get("echo_1k", {}))
    for name, aim in _TINY_US.items():
        if (tiny := medians.get(name, {}).get(OURS)) is not None:
            yield f"aim: {name} under {aim} us: {tiny:,.1f} us, {_verdict(tiny < aim)}"
    for name in ("python_words_260", "javascript_words_260"):
        yield from _words(name, medians.get(name, {}))
    for language, told in builds.items():
        if not isinstance(told, str):
            took = told["median_ms"]
            yield f"aim: a {language} tool built in {_BUILD_MS} ms: {took:.1f} ms, {_verdict(took < _BUILD_MS)}"
    if tools is not None and not isinstance(tools, str) and tools["tools"] >= _TOOLS:
        size = tools["rss_all_mib"]
        yield f"aim: {_TOOLS:,} Python tools in {_TOOLS_MIB} MiB: {size:,.0f} MiB, {_verdict(size < _TOOLS_MIB)}"


def _calls(echo: Mapping[str, float]) -> Iterator[str]:
    if (ours := echo.get(OURS)) is None:
        return
    yield f"aim: a whole call under {_CALL_US} us: {ours:.1f} us, {_verdict(ours < _CALL_US)}"
    if (extism := echo.get("extism")) is not None:
        ratio = extism / ours
        yield f"aim: {_EXTISM} times as fast as Extism fresh: {ratio:.2f}, {_verdict(ratio >= _EXTISM)}"
    if (floor := echo.get("wasmtime_c_api")) is not None:
        ratio = ours / floor
        yield f"aim: at most {_FLOOR} times the floor of the C API: {ratio:.2f}, {_verdict(ratio <= _FLOOR)}"


def _words(group: str, medians: Mapping[str, float]) -> Iterator[str]:
    ours = medians.get(OURS)
    peers = {name: medians[name] for name in IN_WEBASSEMBLY if name in medians}
    if ours is None or not peers:
        return
    best = min(peers, key=lambda name: peers[name])
    ratio = peers[best] / ours
    yield f"aim: {group} faster than every peer in WebAssembly: {ratio:.2f} times {best}, {_verdict(ratio > 1)}"


def _verdict(reached: bool) -> str:
    return "reached" if reached else "NOT reached"
