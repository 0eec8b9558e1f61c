"""The latest calls of each tool: what they burnt, and what the last faults said."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from rho_wasm.events import Event, OnEvent, ToolFinished, emit
from rho_wasm.trace_lines import both_ends
from rho_wasm.untrusted import inert

__all__ = ["RecentCalls"]

_TOOLS, _CALLS, _FAULTS = 256, 32, 4
_TEXT_CHARS, _FRAMES, _ID_CHARS = 500, 12, 128


@dataclass(frozen=True, slots=True)
class _Fault:
    call_id: str
    reason: str
    text: str
    backtrace: tuple[str, ...]
    generation: int | None
    session_id: str | None


class _Calls:
    def __init__(self) -> None:
        self.fuel: deque[tuple[str | None, int]] = deque(maxlen=_CALLS)
        self.faults: deque[_Fault] = deque(maxlen=_FAULTS)
        self.finished = 0


class RecentCalls:
    """Hears of every call that ends, and remembers those of generations. In memory and bounded.

    Written on one event loop; read from any thread.
    """

    def __init__(self) -> None:
        self._by_tool: OrderedDict[str, _Calls] = OrderedDict()

    def hearing(self, on_event: OnEvent | None) -> OnEvent:
        """``on_event``, with this hearing first."""

        def hear(event: Event) -> None:
            if type(event) is ToolFinished and event.result.generation is not None:
                self._finished(event)
            emit(on_event, event)

        return hear

    def knows(self, tool: str) -> bool:
        """Whether calls of it are remembered."""
        return tool in self._by_tool

    def of(self, tool: str, session_id: str | None) -> dict[str, Any]:
        """How many calls there were; fuel and faults of the latest ones as far as they are this session's.

        What a fault said may hold what somebody asked, and how much a call burnt may follow from it.
        """
        calls = self._by_tool.get(tool)
        if calls is None:
            return {"calls": 0}
        told: dict[str, Any] = {"calls": calls.finished}
        # Copies: calls end meanwhile.
        every, ended = tuple(calls.fuel), tuple(calls.faults)
        if fuel := [burnt for whose, burnt in every if whose == session_id]:
            told["fuel"] = {"last": fuel[-1], "most": max(fuel), "of_calls": len(fuel)}
        faults = [each for each in reversed(ended) if each.session_id == session_id]
        if faults:
            told["faults"] = [
                {
                    "reason": each.reason,
                    "call_id": each.call_id,
                    "generation": each.generation,
                    "text": each.text,
                    "backtrace": list(each.backtrace),
                }
                for each in faults
            ]
        return told

    def _finished(self, event: ToolFinished) -> None:
        result = event.result
        calls = self._by_tool.setdefault(event.tool, _Calls())
        self._by_tool.move_to_end(event.tool)
        while len(self._by_tool) > _TOOLS:
            self._by_tool.popitem(last=False)
        if result.kind == "refused":
            return
        calls.finished += 1
        if result.fuel_used is not None:
            calls.fuel.append((event.session_id, result.fuel_used))
        if result.kind == "crashed":
            frames = tuple(inert(frame, limit=200) for frame in both_ends(result.backtrace, _FRAMES))
            text = inert(result.text, limit=_TEXT_CHARS)
            call_id = inert(event.call.id, limit=_ID_CHARS)
            fault = _Fault(call_id, result.reason or "", text, frames, result.generation, event.session_id)
            calls.faults.append(fault)
