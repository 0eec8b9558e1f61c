"""A call's result, for a person."""

from __future__ import annotations

import json
import logging
from typing import Any

from rich.text import Text

from rho_wasm.cli.output import FAILED, WORKED, Output
from rho_wasm.plain import jsonable
from rho_wasm.results import ToolResult
from rho_wasm.untrusted import inert

__all__ = ["show_result", "summary"]

_BESIDE_CHARS = 2_000
"""Of options, of details and of a halt's reason. ``--json`` has them whole."""

_STYLES = {"ok": "green", "ask_user": "cyan", "halt": "cyan", "error": "red"}


def summary(result: ToolResult) -> Text:
    """One line: how it ended, its fuel and its time."""
    word = result.status if result.reason is None else result.reason
    line = Text(word, style=_STYLES[result.status])
    facts = []
    if result.fuel_used is not None:
        facts.append(f"{result.fuel_used:,} fuel")
    facts.append(f"{result.duration_ms:.1f} ms")
    if result.generation is not None:
        facts.append(f"generation {result.generation}")
    return line.append("  " + ", ".join(facts), style="dim")


def show_result(output: Output, result: ToolResult) -> int:
    """Prints a result (its text on standard output, all else on standard error) and answers the exit code."""
    output.object(result.as_json())
    output.lines(result.text)
    output.aside(summary(result), style=None)
    if result.halt_reason is not None:
        output.aside("    reason: ", inert(result.halt_reason, limit=_BESIDE_CHARS))
    for name, value in (("options", result.options), ("details", result.details)):
        if value is not None:
            output.aside(f"    {name}: ", _one_line(value))
    for image in result.images:
        output.aside(f"    image: {image.mime_type}, {len(image.data):,} bytes")
    for line in result.backtrace:
        output.aside("    at ", line)
    for entry in result.log:
        output.aside(f"    {logging.getLevelName(entry.level).lower()}: ", entry.text)
    if result.log.dropped_bytes:
        output.aside(f"    {result.log.dropped_bytes} more bytes of log were dropped")
    return WORKED if result.ok else FAILED


def _one_line(value: Any) -> str:
    """``value`` as JSON for a terminal: inert, and bounded."""
    return inert(json.dumps(jsonable(value), ensure_ascii=False), limit=_BESIDE_CHARS)
