"""The part of the demo that needs engines: tools in Python and JavaScript, from source to strikes."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rho_wasm.calls import ToolCall
from rho_wasm.cli.demo_screen import Screen
from rho_wasm.cli.extras import extra_for
from rho_wasm.cli.progress import engine_progress
from rho_wasm.cli.results import summary
from rho_wasm.dynamic.artifact import Artifact
from rho_wasm.host import Host
from rho_wasm.limits import MAX_DEADLINE_MS, HostLimits, Limits
from rho_wasm.resources import fixture
from rho_wasm.results import ToolResult
from rho_wasm.toolchains import EngineShelf, ImageBuilder
from rho_wasm.toolchains.engines.spec import engine_for
from rho_wasm.untrusted import inert

__all__ = ["engines_as_told", "play_engines"]

_FUEL = 1_000_000_000
"""Of a call. Engines get 20 times as much by default, and nobody wants to see three calls that never end spend it."""
_CHARS = 65_536
"""Of the text that tools are called with: more words than that can cost more fuel."""
_TOP = 5
_LOG = "access.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    name: str
    title: str
    engine: str
    suffix: str
    tool: str
    fault: str
    """What the second version does wrong."""
    reason: str
    """How its calls end."""
    place: str
    """What the trace of such a call names; empty where there is none."""


_LANGUAGES = (
    _Language(
        name="python",
        title="Python",
        engine="CPython",
        suffix=".py",
        tool="top_words",
        fault="but has only three",
        reason="handler_raised",
        place="top_words_v2.py:",
    ),
    _Language(
        name="javascript",
        title="JavaScript",
        engine="QuickJS",
        suffix=".js",
        tool="top_words_js",
        fault="and stands still where none is left",
        reason="out_of_fuel",
        place="",
    ),
)


async def play_engines(screen: Screen, store: Path, text: str, file_name: str) -> None:
    """The steps for each language whose extra is there, on ``text``; for the others, how to get them.

    An engine that is not there is made first, with a bar. Raises as ``build`` does.
    """
    if len(set(re.findall(r"\w+", text.lower()))) < _TOP:
        file_name, text = "gettysburg.txt", fixture("data/gettysburg.txt").read_text(encoding="utf-8")
    text = text[:_CHARS]
    there = [language for language in _LANGUAGES if _is_there(screen, language)]
    if not there:
        return
    # Calls that never end are to end by their fuel, also on a machine that is busy.
    bounds = Limits.for_engines().model_copy(update={"fuel": _FUEL, "deadline_ms": MAX_DEADLINE_MS})
    limits = HostLimits(engine_call=bounds)
    async with Host.open(store, limits=limits, on_event=screen.on_event) as host:
        reports: dict[str, ToolResult] = {}
        for language in there:
            screen.title(
                f"A model writes {language.title}. Its source is loaded inside the sandbox, by {language.engine}."
            )
            await _make_engine(screen, language)
            async with ImageBuilder(sandbox=host.sandbox) as builder:
                screen.facts[language.name] = await _play(screen, host, builder, language, text, file_name)
                reports[language.title] = await _report(screen, host, builder, language)
        screen.facts["reports"] = {name: result.as_json() for name, result in reports.items()}
        if len(reports) > 1:
            first, *others = reports.values()
            same = all((each.text, each.details) == (first.text, first.details) for each in others)
            screen.say(f"{' and '.join(reports)} say {'the same' if same else 'different things'} of {_LOG}")
            screen.facts["same_report"] = same


def engines_as_told(facts: Mapping[str, Any]) -> bool:
    """Whether each step was what its title says. What was not played was not told."""
    for language in _LANGUAGES:
        played = facts[language.name]
        if "missing" in played:
            continue
        as_told = (
            played["result"]["status"] == "ok"
            and played["ends"] == [language.reason] * 3
            and language.place in played["trace"]
            and played["again"]["value"] == played["result"]["value"]
        )
        if not as_told or facts["reports"][language.title]["status"] != "ok":
            return False
    return bool(facts.get("same_report", True))


def _is_there(screen: Screen, language: _Language) -> bool:
    extra = extra_for(language.name)
    assert extra is not None, "each has one"
    if extra.problem is None:
        return True
    screen.title(f"Tools in {language.title} need an extra, and then no toolchain either.")
    screen.say(extra.problem, style="yellow")
    screen.say(extra.hint, style="yellow")
    screen.facts[language.name] = {"missing": extra.hint}
    return False


async def _make_engine(screen: Screen, language: _Language) -> None:
    spec, shelf = engine_for(language.name), EngineShelf.default()
    if shelf.find_made(spec) is None:
        screen.say(f"{language.engine} is made of its package, once: that takes up to a minute", style="yellow")
        with engine_progress(screen.output, f"making {language.engine}") as tell:
            await shelf.install(spec, progress=tell)


async def _play(
    screen: Screen, host: Host, builder: ImageBuilder, language: _Language, text: str, file_name: str
) -> dict[str, Any]:
    tool, first, second = language.tool, _source(language, "top_words"), _source(language, "top_words_v2")
    screen.output.lines(first.read_text(encoding="utf-8"), prefix="     | ", style="dim")
    built_ms = await _switch(screen, host, builder, first, language)
    result = await _call(host, tool, text, number=0)
    screen.say(f"{tool}({file_name}) = ", inert(result.text, limit=300))
    screen.say(summary(result))

    screen.title(f"Its next version gives medals, {language.fault}.")
    for line in _changes(first, second):
        screen.say("  ", line, style="dim")
    await _switch(screen, host, builder, second, language)
    ends: list[str | None] = []
    trace: tuple[str, ...] = ()
    for number in range(1, 4):
        ended = await _call(host, tool, text, number=number)
        screen.say(summary(ended))
        ends.append(ended.reason)
        trace = ended.backtrace
    again = await _call(host, tool, text, number=4)
    screen.say(f"{tool}({file_name}) = ", inert(again.text, limit=300))
    return {
        "built_ms": built_ms,
        "result": result.as_json(),
        "ends": ends,
        "trace": "\n".join(trace),
        "again": again.as_json(),
    }


async def _report(screen: Screen, host: Host, builder: ImageBuilder, language: _Language) -> ToolResult:
    screen.title(f"{language.title} reads the log of a web server: parsed, grouped, measured, shown.")
    await _switch(screen, host, builder, _source(language, "access_report"), language)
    log = fixture(f"data/{_LOG}").read_text(encoding="utf-8")
    result = await host.runner.run(ToolCall(id="log", name="access_report", arguments={"log_text": log, "top": 5}))
    screen.output.lines(result.text, prefix="     ")
    screen.say(summary(result))
    return result


async def _switch(screen: Screen, host: Host, builder: ImageBuilder, source: Path, language: _Language) -> int:
    """Builds, stages and switches on; answers how long the build took (ms)."""
    began = time.monotonic()
    artifact: Artifact = await builder.build(source, language=language.name)
    took_ms = round((time.monotonic() - began) * 1000)
    size = len(artifact.wasm)
    screen.say(f"{source.name}: {size:,} bytes over {language.engine}, built in {took_ms} ms")
    candidate = await host.source.stage(
        add=[artifact], author=f"{language.name}-model", note=f"written in {language.title}"
    )
    await host.source.activate(candidate)
    return took_ms


async def _call(host: Host, tool: str, text: str, *, number: int) -> ToolResult:
    call = ToolCall(id=f"{tool}-{number}", name=tool, arguments={"text": text, "top": _TOP})
    return await host.runner.run(call, tools=host.registry.snapshot())


def _source(language: _Language, name: str) -> Path:
    return fixture(f"{name}{language.suffix}")


def _changes(first: Path, second: Path) -> Iterator[str]:
    """The lines that differ, each with a sign before it."""
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (first, second))
    for line in difflib.unified_diff(before, after, lineterm="", n=0):
        if not line.startswith(("---", "+++", "@@")) and line[1:].strip():
            yield line
