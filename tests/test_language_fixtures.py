"""The tools in Python and JavaScript that ship as fixtures: one real job, written twice, says the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from rho_wasm import Host, HostLimits, ToolCall, ToolResult
from rho_wasm.resources import fixture
from rho_wasm.toolchains import EngineShelf, ImageBuilder

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]

LOG = fixture("data/access.log").read_text(encoding="utf-8")
TOOLS = {"access_report": {"log_text": LOG}, "top_words": {"text": LOG}, "new/text_figures": {"text": LOG}}


@pytest.fixture
def shelf(made_engines: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> EngineShelf:
    for name, value in made_engines.items():
        monkeypatch.setenv(name, value)
    return EngineShelf.default()


async def called(
    shelf: EngineShelf, source: Path, language: str, arguments: dict[str, Any], *, limits: HostLimits | None = None
) -> ToolResult:
    """The answer of the one tool of ``source``, which has passed its own examples before."""
    async with (
        Host.open(":memory:", engines=shelf, limits=limits) as host,
        ImageBuilder(shelf=shelf, sandbox=host.sandbox) as builder,
    ):
        artifact = await builder.build(source, language=language)
        await host.source.activate(await host.source.stage(add=[artifact], author="model"))
        return await host.runner.run(ToolCall(id="1", name=artifact.tools[0], arguments=arguments))


@pytest.mark.parametrize("name", TOOLS)
async def test_twins_say_the_same(shelf: EngineShelf, name: str) -> None:
    python = await called(shelf, fixture(f"{name}.py"), "python", TOOLS[name])
    javascript = await called(shelf, fixture(f"{name}.js"), "javascript", TOOLS[name])
    assert python.status == javascript.status == "ok", (python.text, javascript.text)
    assert (python.value, python.details) == (javascript.value, javascript.details)


async def test_the_report_of_the_log_is_right(shelf: EngineShelf) -> None:
    """Held against the log itself, counted in another way."""
    result = await called(shelf, fixture("access_report.py"), "python", {"log_text": LOG, "top": 100})
    assert isinstance(result.details, Mapping)
    routes = {row["route"]: row for row in result.details["routes"]}
    whole = [line for line in LOG.splitlines() if re.search(r' HTTP/1\.1" \d{3} .* [0-9.]+$', line)]
    home = [line.rsplit(" ", 1)[1] for line in whole if '"GET / HTTP' in line]
    failed = [line for line in whole if re.search(r'HTTP/1\.1" [45]', line)]
    assert sum(row["requests"] for row in routes.values()) == len(whole) == 317
    assert sum(row["failed"] for row in routes.values()) == len(failed)
    assert routes["GET /"]["requests"] == len(home)
    assert routes["GET /"]["median_ms"] == median(round(float(seconds) * 1000) for seconds in home)
    for hour, count in result.details["hours"].items():
        assert count == sum(f"2025:{hour}:" in line for line in whole)


async def test_the_second_version_of_the_javascript_tool_never_ends(shelf: EngineShelf) -> None:
    limits = HostLimits(engine_call=HostLimits().engine_call.lowest({"fuel": 10**8}))
    text = "one two three four five"
    result = await called(shelf, fixture("top_words_v2.js"), "javascript", {"text": text}, limits=limits)
    assert result.reason == "out_of_fuel"
