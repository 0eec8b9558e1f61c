"""From ``write_tool`` to the first answered call, as a model goes: write, switch, call."""

from __future__ import annotations

import statistics
import time
from typing import Any

from rho_wasm import Host, Policy, ToolCall, ToolResult, Workshop, WorkshopLimits
from rho_wasm.workshop.idioms import IDIOMS
from tests.benchmarks.guests import Absent

__all__ = ["WRITTEN", "first_answers"]

WRITTEN = tuple(IDIOMS)
"""The languages whose builds are sandboxed themselves."""

_COMMENTS = {"python": "#", "javascript": "//", "typescript": "//", "c": "//", "wat": ";;"}


async def first_answers(language: str, count: int) -> dict[str, float]:
    """Writes ``count`` tools whose bytes differ and calls each, through every gate; ``first_ms`` is the first of all.

    The host is open and the engine is made, but nothing of it is loaded before the first. Raises :class:`Absent`.
    """
    plenty = WorkshopLimits(builds_per_hour=10_000, builds_per_hour_of_all=10_000, stages_per_hour=10_000,
                            stages_per_hour_of_all=10_000, switches_per_hour=10_000, switches_per_hour_of_all=10_000,
                            cases_per_hour=10_000, cases_per_hour_of_all=10_000)  # fmt: skip
    try:
        workshop = Workshop(languages=[language], limits=plenty)
        workshop.usable()
    except ValueError as error:
        raise Absent(str(error)) from None
    taken: list[dict[str, float]] = []
    async with Host.open(":memory:", core=[], policy=Policy(), workshop=workshop) as host:
        for number in range(count + 1):
            taken.append(await _once(host, language, number))
    first, *others = taken
    found = {"tools": count, "first_ms": sum(first.values()), "min_ms": min(sum(each.values()) for each in others)}
    for part in ("write", "switch", "call"):
        found[f"{part}_ms"] = statistics.median(each[part] for each in others)
    return {name: round(value, 2) for name, value in found.items()}


async def _once(host: Host, language: str, number: int) -> dict[str, float]:
    name = f"tool_{number}"
    source = IDIOMS[language].replace("NAME", name)
    if language == "wat":
        # Its tool's name is not in its bytes, so what answers must differ.
        source = source.replace("(module", f"(module (global i32 (i32.const {number}))", 1)
    arguments: dict[str, Any] = {"language": language, "source": f"{_COMMENTS[language]} {number}\n{source}"}
    arguments |= {"name": name, "description": "A benchmark."}
    taken: dict[str, float] = {}

    async def timed(part: str, tool: str, **given: Any) -> ToolResult:
        call = ToolCall(id=f"{part}-{number}", name=tool, arguments=given)
        start = time.perf_counter()
        result = await host.runner.run(call, session_id="benchmark")
        taken[part] = (time.perf_counter() - start) * 1e3
        if not result.ok:
            raise Absent(result.text)
        return result

    written = await timed("write", "write_tool", **arguments)
    await timed("switch", "switch_tools", candidate=written.value["candidate"])
    await timed("call", name, text="a b")
    return taken
