"""What is remembered of calls is told while others end."""

from __future__ import annotations

from rho_wasm import Event, ToolCall, ToolResult
from rho_wasm.events import ToolFinished
from rho_wasm.workshop.recent import RecentCalls


def crashed(number: int) -> Event:
    call = ToolCall(id=f"call-{number}", name="tool", arguments={})
    result = ToolResult(
        call_id=call.id, tool="tool", status="error", kind="crashed", reason="trapped", fuel_used=1, generation=1
    )
    return ToolFinished(call=call, tool="tool", result=result, session_id="one")


def test_calls_that_end_while_it_is_read_take_nothing_of_what_is_told() -> None:
    recent = RecentCalls()
    hear = recent.hearing(None)

    class Slow(str):
        """A session's id, while which is compared another call ends."""

        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            hear(crashed(9))
            return str.__eq__(self, other)

    for number in range(2):
        hear(crashed(number))
    told = recent.of("tool", Slow("one"))
    assert [each["call_id"] for each in told["faults"]] == ["call-1", "call-0"]
    assert told["fuel"] == {"last": 1, "most": 1, "of_calls": 2}
