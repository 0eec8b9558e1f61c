"""Runs a manifest's examples: each must answer as it says, in the sandbox, with nothing granted."""

from __future__ import annotations

import math
from typing import Any

from rho_wasm import plain
from rho_wasm.calls import CallClock, CallMeter
from rho_wasm.envelope import Raised, answer_of, read_answer
from rho_wasm.errors import CapabilityError, ToolError
from rho_wasm.frozen import thaw
from rho_wasm.limits import Limits
from rho_wasm.manifest import Example
from rho_wasm.results import KINDS
from rho_wasm.sandbox import GuestModule, Sandbox
from rho_wasm.trace_lines import both_ends
from rho_wasm.untrusted import inert

__all__ = ["example_problem", "same"]

_SHOWN_CHARS = 300
_FRAMES, _FRAME_CHARS = 4, 200


async def example_problem(
    sandbox: Sandbox, module: GuestModule, tool: str, example: Example, *, number: int, limits: Limits
) -> str | None:
    """Runs one example. None if it answered as it says, else one line that a model can act on.

    Host calls are answered from the example's own pairs, any other is denied. Raises :class:`ToolError` only where
    the host itself could not run it (``overloaded``).
    """
    expected = _expected(example, limits)
    meter = CallMeter(CallClock(limits.deadline_ms))
    try:
        result = await sandbox.call(
            module,
            tool=tool,
            arguments=thaw(example.arguments),
            context={},
            limits=limits,
            meter=meter,
            capabilities=_Recorded(example),
        )
        got = answer_of(result)
    except ToolError as error:
        if KINDS[error.reason] == "host":
            raise
        if isinstance(expected, Raised) and error.reason == "handler_raised" and expected.message in error.detail:
            return None
        crashed = f"{_which(tool, number, example)}: expected {_shown(example.answer)}, but it crashed: {error}"
        # The innermost frame is the first or, of what was raised in Python, the last.
        frames = " / ".join(inert(frame, limit=_FRAME_CHARS) for frame in both_ends(error.backtrace, _FRAMES))
        return f"{crashed}; it stopped at {frames}" if frames else crashed
    if not isinstance(expected, Raised) and same(got, expected):
        return None
    return f"{_which(tool, number, example)}: expected {_shown(example.answer)}, got {_shown(got)}"


def _expected(example: Example, limits: Limits) -> dict[str, Any] | Raised:
    try:
        # There and back, so that what may be left out is left out on both sides.
        return answer_of(read_answer(thaw(example.answer), limits=limits))
    except Raised as raised:
        return raised


class _Recorded:
    """Answers host calls from an example's pairs, each once."""

    clock_ns = None
    seed = None

    def __init__(self, example: Example) -> None:
        self._pairs = [(thaw(request), thaw(reply)) for request, reply in example.host]

    def answer_now(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        asked = {"capability": capability, "arguments": arguments}
        for place, (request, reply) in enumerate(self._pairs):
            if same(request, asked):
                del self._pairs[place]
                if "ok" in reply:
                    return reply["ok"]
                raise CapabilityError(reply["error"]["kind"], reply["error"]["message"], capability=capability)
        raise CapabilityError("denied", "an example has no grants, and names no such host call", capability=capability)

    async def answer(self, capability: str, arguments: dict[str, Any], *, remaining_ms: float) -> Any:
        return self.answer_now(capability, arguments, remaining_ms=remaining_ms)


def same(one: Any, other: Any) -> bool:
    """Whether two plain values are the same. 1 and 1.0 are: examples are written in JSON, which has one number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and bool(one == other)


def _which(tool: str, number: int, example: Example) -> str:
    return f"{tool}: example {number} with {_shown(example.arguments)}"


def _shown(value: Any) -> str:
    text, _ = plain.json_text(thaw(value))
    return inert(text, limit=_SHOWN_CHARS)
