"""A last line of the host after a call that crashed or was refused: where a model that writes tools learns more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rho_wasm.calls import ToolContext
from rho_wasm.dynamic.source import DynamicSource
from rho_wasm.dynamic.strikes import Quarantine
from rho_wasm.plain import json_text
from rho_wasm.results import ToolResult
from rho_wasm.trace_lines import both_ends
from rho_wasm.untrusted import inert
from rho_wasm.workshop.hints import call_hint

__all__ = ["Advice"]

_FRAMES, _FRAME_CHARS = 4, 200
_NAME_CHARS = 64


class Advice:
    """What a runner's ``advise`` is. Answered from memory, for one event loop; tools of the host get no line."""

    def __init__(self, source: DynamicSource) -> None:
        self._source = source

    def __call__(self, result: ToolResult, context: ToolContext) -> ToolResult:
        """``result`` with the line, outside the tool's own text."""
        line = None
        if result.kind == "crashed" and context.meter.artifact is not None:
            line = self._crashed(result, context.call.name, context.meter.artifact)
        elif result.kind == "refused" and result.reason in ("not_found", "quarantined"):
            line = self.absent(context.call.name)
        return result if line is None else replace(result, text=f"{result.text}\n[{line}]")

    def absent(self, name: str) -> str | None:
        """Why a tool that there was is not there now; None for a name that is not quarantined."""
        held = self._source.held(name)
        return None if not held else self._held(name, held[-1])

    def _crashed(self, result: ToolResult, name: str, artifact: str) -> str:
        held = [each for each in self._source.held(name) if each.version.artifact == artifact]
        if held:
            return self._held(name, held[-1])
        parts: list[str] = []
        if frames := [inert(frame, limit=_FRAME_CHARS) for frame in both_ends(result.backtrace, _FRAMES)]:
            parts.append(f"it stopped at {' / '.join(frames)}")
        if (hint := call_hint(result.reason or "", result.text, None)) is not None:
            parts.append(hint)
        parts.append(f"tool_status {_named(name)} tells its faults, test_tool calls it with nothing counted")
        return "; ".join(parts)

    def _held(self, name: str, held: Quarantine) -> str:
        now = self._source.lookup(name)
        if held.mode == "suspend":
            then = "it is tried again later"
        elif now is None:
            then = "nothing answers to its name now"
        else:
            then = "the version before it answers"
        because = ", ".join(_reasons(held.reasons)) or "its faults"
        return (
            f"quarantined: this version of '{inert(name, limit=_NAME_CHARS)}' was stopped after {because}, and {then}; "
            f"tool_status {_named(name)} tells its faults, read_tool has its source, and write_tool takes a mended one"
        )


def _reasons(reasons: Sequence[str]) -> list[str]:
    return [f"{reasons.count(each)} x {each}" for each in dict.fromkeys(reasons)]


def _named(name: str) -> str:
    return json_text({"name": inert(name, limit=_NAME_CHARS)})[0]
