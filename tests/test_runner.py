"""The runner, held to ``seeds/rho-tool-runner.txt`` and to the design, "Runner" and "Every result has a kind".

* Runs one tool call in its own task, not linked to the loop
  -> test_a_crash_is_a_result_and_never_an_exception, tests/test_runner_limits.py
* The before_tool_call gate runs first, so a gate that waits never blocks the loop
  -> test_the_gate_runs_before_the_clock_and_blocks_nothing_else
* once the gate allows, the task tells the loop ({:tool_running, pid}), which starts the tool's timeout clock from
  then
  -> test_running_is_told_once_the_gate_allowed_and_the_clock_starts_then
* The task's result is {:ok, text} or {:error, text}
  -> test_the_text_and_status_of_each_answer
* A raise, exit or throw in the task (the gate's or the tool's) is formatted there
  -> test_a_crash_is_a_result_and_never_an_exception, test_a_gate_that_fails_is_gate_failed
* the loop turns it into an error result without running anything of the reason
  -> test_nothing_of_an_untrusted_exception_runs
* or any other abnormal end (a kill, a linked process's exit)
  -> tests/test_runner_limits.py::test_cancelling_a_running_call_is_cancelled,
     test_a_crash_is_a_result_and_never_an_exception
* Before a tool runs, the registry's sources are told its task
  -> test_a_source_hears_how_each_call_ended
* so a source can count a crash or timeout
  -> test_a_source_hears_how_each_call_ended
* A Dyn tool's answer is made plain data in the task before it leaves it
  -> test_the_answer_of_an_untrusted_tool_reaches_nobody_unless_plain
* so neither the loop nor its subscribers ever hold a value whose protocols run Dyn code
  -> test_the_answer_of_an_untrusted_tool_reaches_nobody_unless_plain
* A tool may answer with pictures for the model as well as text
  -> test_images_go_to_the_model_beside_the_text
* And with data for the host's screens (details)
  -> test_details_go_to_subscribers_and_not_into_the_text
* or {:error, {:details, reason, details}} for a failure
  -> test_details_go_to_subscribers_and_not_into_the_text
* and into the session only as far as the host's :keep_details keeps it
  -> tests/test_loop.py
* gate: :allow or {:block, String.t()}
  -> test_a_blocked_call_reads_as_blocked, test_a_gate_that_fails_is_gate_failed
* allow_all: the default gate: everything is allowed
  -> tests/test_gates.py
* crash_text: the error text for a tool task that ended abnormally; nothing of the reason runs
  -> test_nothing_of_an_untrusted_exception_runs
* start: gate first, then the tool, with ctx as the context
  -> test_the_handler_is_told_what_the_caller_gave
* timeout_text: the error text for a call killed at its timeout
  -> tests/test_runner_limits.py
* to_result: a tool's return as the loop takes it
  -> test_the_text_and_status_of_each_answer
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.calls import RunningCall, ToolCall, ToolContext
from rho_wasm.errors import ToolError
from rho_wasm.events import SourceFailed, ToolFinished, ToolRunning
from rho_wasm.frozen import freeze
from rho_wasm.gates import Allow, Block
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import AskUser, CallLog, Failed, Halt, Image, LogLine, Ok, ToolResult
from rho_wasm.runner import ToolRunner
from rho_wasm.testing import FakeSource
from rho_wasm.tools import Tool
from tests.helpers import PNG, Events, Waiting, answering, call, echo, make, raising, runner_of

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


async def run(tool: Tool, arguments: Any = None, **options: Any) -> ToolResult:
    return await runner_of(tool).run(call(tool.name, arguments), **options)


@pytest.mark.parametrize(
    ("answer", "status", "kind", "reason", "text"),
    [
        (Ok("as it is"), "ok", "ok", None, "as it is"),
        (Ok({"n": 1}), "ok", "ok", None, '{"n":1}'),
        (Failed("no such user"), "error", "failed", "failed", "no such user"),
        (AskUser("Which?", {"a": 1}), "ask_user", "ok", None, "Which?"),
        (Halt("budget", [1]), "halt", "ok", None, "[1]"),
    ],
)
async def test_the_text_and_status_of_each_answer(
    answer: Any, status: str, kind: str, reason: str | None, text: str
) -> None:
    result = await run(answering(answer))
    assert (result.status, result.kind, result.reason, result.text) == (status, kind, reason, text)
    assert (result.call_id, result.tool, result.generation, result.fuel_used) == ("1", "t", None, None)
    assert result.ok == (status != "error")


async def test_what_a_handler_answered_is_in_the_result_unchanged() -> None:
    value, options = object_with_json(), {"a": datetime.date(2026, 1, 2)}
    assert (await run(answering(Ok(value)))).value is value
    assert (await run(answering(Failed(value)))).value is value
    asked = await run(answering(AskUser("Which?", options)))
    assert (asked.value, asked.options) == ("Which?", options)
    halted = await run(answering(Halt("budget", value)))
    assert (halted.halt_reason, halted.value) == ("budget", value)


def object_with_json() -> dict[str, Any]:
    return {"when": datetime.date(2026, 1, 2)}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ValueError("boom"), "handler_raised"), (TimeoutError(), "handler_raised"), (SystemExit(3), "handler_exit")],
)
async def test_a_crash_is_a_result_and_never_an_exception(error: BaseException, reason: str) -> None:
    result = await run(raising(error))
    assert (result.status, result.kind, result.reason) == ("error", "crashed", reason)
    assert result.text.startswith(f"t crashed ({reason}): {type(error).__name__}")
    assert "\n" not in result.text
    assert result.backtrace


async def test_nothing_of_an_untrusted_exception_runs() -> None:
    class Loud(Exception):
        def __str__(self) -> str:
            raise SystemExit("ran")

        __repr__ = __str__

    result = await run(raising(Loud("a\x1b[31m" + "b" * 5_000), untrusted=True))
    assert (result.reason, "\x1b" in result.text, len(result.text) < 2_300) == ("handler_raised", False, True)


async def test_the_answer_of_an_untrusted_tool_reaches_nobody_unless_plain() -> None:
    class Value:
        def __str__(self) -> str:
            raise SystemExit("ran")

        __repr__ = __str__

    events = Events()
    answer = Ok({"v": Value()}, details=[Value()])
    result = await runner_of(answering(answer, untrusted=True), events=events).run(call())
    (finished,) = events.of(ToolFinished)
    assert type(result.value["v"]) is str
    assert finished.result is result
    assert type(finished.details[0]) is str


async def test_nan_becomes_null_with_a_note_in_the_log() -> None:
    result = await run(answering(Ok({"x": math.nan})))
    assert result.text == '{"x":null}'
    assert [(line.level, "NaN" in line.text) for line in result.log] == [(30, True)]


async def test_a_value_that_no_text_can_be_made_of_is_invalid_return() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    result = await run(answering(Ok(cycle)))
    assert (result.kind, result.reason) == ("crashed", "invalid_return")


async def test_images_go_to_the_model_beside_the_text() -> None:
    image = Image("image/png", PNG)
    result = await run(answering(Ok("a screenshot", (image,))))
    assert (result.text, result.images) == ("a screenshot", (image,))
    wrong = await run(answering(Ok("a screenshot", (Image("image/gif", PNG),))))
    assert wrong.reason == "invalid_return"


@pytest.mark.parametrize("answer", [Ok("text", details={"table": 1}), Failed("text", details={"table": 1})])
async def test_details_go_to_subscribers_and_not_into_the_text(answer: Any) -> None:
    events = Events()
    result = await runner_of(answering(answer), events=events).run(call())
    (finished,) = events.of(ToolFinished)
    assert (finished.details, result.text) == ({"table": 1}, "text")


async def test_a_name_that_nobody_has_is_not_found() -> None:
    for name in ("unknown", "x\x1b[31m" * 100, None, ["a"]):
        result = await runner_of().run(ToolCall(id="1", name=name))  # type: ignore[arg-type]
        assert (result.kind, result.reason, result.status) == ("refused", "not_found", "error")
        assert "\x1b" not in result.text
        assert len(result.text) < 300


async def test_a_tool_without_a_handler_is_not_found_and_no_gate_is_asked() -> None:
    async def gate(call: Any, context: Any) -> Any:
        raise AssertionError("asked")

    result = await runner_of(make(None), gate=gate).run(call())
    assert (result.kind, result.reason) == ("refused", "not_found")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"text": 5},
        {"text": "a", "more": 1},
        [],
        "text",
        7,
        {1: "a"},
        {"text": object()},
        {"text": "a" * (1024 * 1024 + 1)},
        {"text": "a\ud800"},
    ],
)
async def test_arguments_that_do_not_fit_are_refused_with_a_text_that_a_model_can_act_on(arguments: Any) -> None:
    events = Events()
    runner = runner_of(echo("t", input_schema=SCHEMA), events=events)
    result = await runner.run(ToolCall(id="1", name="t", arguments=arguments))
    assert (result.kind, result.reason) == ("refused", "invalid_arguments")
    assert result.text.startswith(("t was not run (invalid_arguments): ", "t was not run (invalid_arguments, "))
    assert "correct the arguments" in result.text
    assert (len(events.of(ToolRunning)), len(events.of(ToolFinished))) == (0, 1)


async def test_arguments_nested_too_deeply_or_in_circles_are_refused() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    for arguments in ({"a": deep}, cycle, {"a": list(range(100_001))}):
        assert (await run(echo("t"), arguments)).reason == "invalid_arguments"


async def test_a_handler_gets_a_copy_of_the_arguments_of_its_own() -> None:
    async def handler(arguments: Any) -> Ok:
        arguments["list"].append(2)
        arguments["more"] = True
        return Ok(arguments)

    made = call(arguments={"list": [1], "z": 1, "a": 2})
    result = await runner_of(make(handler)).run(made)
    assert result.value == {"list": [1, 2], "z": 1, "a": 2, "more": True}
    assert list(result.value) == ["list", "z", "a", "more"]
    assert made.arguments == {"list": [1], "z": 1, "a": 2}


async def test_read_only_arguments_are_arguments_too() -> None:
    assert (await run(echo("t"), freeze({"a": [1, {"b": 2}]}))).value == {"a": [1, {"b": 2}]}


async def test_a_blocked_call_reads_as_blocked() -> None:
    async def gate(call: ToolCall, context: ToolContext) -> Block:
        return Block("payments are closed")

    events = Events()
    result = await runner_of(echo("t"), gate=gate, events=events).run(call())
    assert (result.kind, result.reason, result.text) == ("refused", "blocked", "Blocked: payments are closed")
    assert [type(event) for event in events] == [ToolFinished]


async def test_a_gate_that_fails_is_gate_failed() -> None:
    async def gate(call: ToolCall, context: ToolContext) -> Any:
        raise RuntimeError("internal")

    result = await runner_of(echo("t"), gate=gate).run(call())
    assert (result.kind, result.reason) == ("refused", "gate_failed")
    assert "internal" not in result.text


async def test_the_gate_sees_the_exact_call_and_the_context() -> None:
    seen: list[Any] = []

    async def gate(call: ToolCall, context: ToolContext) -> Allow:
        seen.extend((call, context.call, context.session_id))
        return Allow()

    made = call(arguments={"a": 1})
    await runner_of(echo("t"), gate=gate).run(made, session_id="s")
    assert seen[0] is made
    assert seen[1:] == [made, "s"]


async def test_what_the_gate_allowed_is_what_runs() -> None:
    made = call(arguments={"amount": 1})

    async def gate(call: ToolCall, context: ToolContext) -> Allow:
        made.arguments["amount"] = 1_000_000  # type: ignore[index]
        return Allow()

    result = await runner_of(echo("t"), gate=gate).run(made)
    assert (result.kind, result.reason) == ("refused", "invalid_arguments")


async def test_the_gate_runs_before_the_clock_and_blocks_nothing_else() -> None:
    answered, asked = anyio.Event(), anyio.Event()
    told: list[ToolContext] = []

    async def gate(call: ToolCall, context: ToolContext) -> Allow:
        if call.name == "asks":
            told.append(context)
            asked.set()
            await answered.wait()
        return Allow()

    # One slot: a call that waits for its gate must not hold it.
    runner = runner_of(echo("asks", timeout_ms=7_000), echo("other"), gate=gate, max_concurrent=1)
    results: list[ToolResult] = []

    async def ask() -> None:
        results.append(await runner.run(call("asks")))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await asked.wait()
        assert (await runner.run(call("other"))).ok
        assert told[0].meter.clock.remaining_ms() == 7_000  # exactly: it has not started
        answered.set()
    assert results[0].ok


async def test_running_is_told_once_the_gate_allowed_and_the_clock_starts_then() -> None:
    order: list[str] = []
    source = FakeSource()

    async def gate(call: ToolCall, context: ToolContext) -> Allow:
        order.append("gate")
        assert context.meter.clock.remaining_ms() == 30_000
        return Allow()

    async def handler(arguments: Any, context: ToolContext) -> Ok:
        order.append("handler")
        assert context.meter.clock.remaining_ms() < 30_000
        assert len(source.watched) == 1
        return Ok(None)

    registry = ToolRegistry([make(handler)], sources=[source])
    runner = ToolRunner(registry, gate=gate, on_event=lambda event: order.append(type(event).__name__))
    assert (await runner.run(call(), session_id="s")).ok
    assert order == ["gate", "ToolRunning", "handler", "ToolFinished"]


async def test_events_name_the_call_the_tool_and_the_session() -> None:
    events, made = Events(), call()
    result = await runner_of(echo("t"), events=events).run(made, session_id="s")
    assert events == [
        ToolRunning(call=made, tool="t", session_id="s"),
        ToolFinished(call=made, tool="t", result=result, session_id="s"),
    ]


async def test_a_source_hears_how_each_call_ended() -> None:
    ended: list[ToolResult] = []
    source = FakeSource()
    runner = runner_of(echo("good"), raising(ValueError(), name="bad"), sources=[source])
    for name in ("good", "bad"):
        await runner.run(call(name))
        source.watched[-1].add_done_callback(ended.append)
    assert [result.reason for result in ended] == [None, "handler_raised"]
    assert [running.tool.name for running in source.watched] == ["good", "bad"]


async def test_a_source_that_raises_when_told_costs_nothing_but_a_report() -> None:
    def broken(result: ToolResult) -> None:
        raise RuntimeError("cannot count")

    class Watcher(FakeSource):
        def watch(self, call: RunningCall) -> None:
            call.add_done_callback(broken)
            raise RuntimeError("cannot watch")

    events = Events()
    result = await runner_of(echo("t"), sources=[Watcher()], events=events).run(call())
    assert result.ok
    assert [event.operation for event in events.of(SourceFailed)] == ["watch", "done"]


async def test_the_handler_is_told_what_the_caller_gave() -> None:
    told: list[ToolContext] = []

    async def handler(arguments: Any, context: ToolContext) -> Ok:
        told.append(context)
        return Ok(None)

    runner, made, host, model = runner_of(make(handler)), call(), object(), object()
    await runner.run(made, context=host, session_id="s", request_id="r", model=model, values={"tz": "UTC"})
    await runner.run(made)
    assert told[0].call is made
    assert told[0].context is host
    assert told[0].registry is runner.registry
    assert (told[0].session_id, told[0].request_id, told[0].model, told[0].values) == ("s", "r", model, {"tz": "UTC"})
    assert (told[1].context, told[1].session_id, told[1].request_id, told[1].model) == (None,) * 4
    assert told[1].values == {}


async def test_a_call_is_answered_from_what_the_model_was_offered() -> None:
    source = FakeSource(answering(Ok("old")))
    runner = runner_of(sources=[source])
    offered = runner.registry.snapshot()
    source.set(answering(Ok("new")), answering(Ok("later"), name="later"))
    assert (await runner.run(call(), tools=offered)).text == "old"
    assert (await runner.run(call("later"), tools=offered)).reason == "not_found"
    assert (await runner.run(call())).text == "new"


async def test_unregistering_holds_at_once_in_what_the_model_was_offered() -> None:
    runner = runner_of()
    runner.registry.register(echo("t"))
    offered = runner.registry.snapshot()
    runner.registry.unregister("t")
    assert (await runner.run(call(), tools=offered)).reason == "not_found"


class Guest:
    """A handler as the dynamic source makes them."""

    trusted_errors = True

    def __init__(self, *, refused: tuple[str, str] | None = None, error: ToolError | None = None) -> None:
        self.generation = 7
        self.refused = refused
        self.error = error

    def refusal(self) -> tuple[str, str] | None:
        return self.refused

    async def __call__(self, arguments: Any, context: ToolContext) -> Ok:
        meter = context.meter
        meter.fuel_used, meter.artifact, meter.backtrace = 123, "ab", ("inner", "outer")
        meter.log = CallLog((LogLine(20, "asked"),), 5)
        with meter.clock.paused():
            await anyio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        return Ok("answered")


async def test_what_a_guest_used_and_left_behind_is_in_the_result() -> None:
    events = Events()
    result = await runner_of(make(Guest(), untrusted=True), events=events).run(call())
    assert (result.generation, result.fuel_used, result.text) == (7, 123, "answered")
    assert (result.log.lines, result.log.dropped_bytes) == ((LogLine(20, "asked"),), 5)
    assert events.of(ToolRunning)[0].generation == 7


async def test_a_guest_keeps_its_own_time_so_its_clock_stands_still_and_its_answer_came_in_time() -> None:
    left: list[float] = []

    class Slow(Guest):
        async def __call__(self, arguments: Any, context: ToolContext) -> Ok:
            clock = context.meter.clock
            left.append(clock.remaining_ms())
            await anyio.sleep(0.002)
            left.append(clock.remaining_ms())
            clock.spend(1_000)
            return Ok("just in time")

    result = await run(make(Slow(), untrusted=True, timeout_ms=1))
    assert (left, result.text) == ([1, 1], "just in time")


async def test_a_guests_fault_keeps_its_reason_its_limit_and_its_backtrace() -> None:
    error = ToolError("out_of_fuel", tool="t", limit="fuel", value=1_000)
    result = await run(make(Guest(error=error), untrusted=True))
    assert (result.kind, result.reason, result.fuel_used) == ("crashed", "out_of_fuel", 123)
    assert result.backtrace == ("inner", "outer")
    assert result.text.startswith("t crashed (out_of_fuel, fuel=1000): ")
    overloaded = await run(make(Guest(error=ToolError("overloaded", tool="t")), untrusted=True))
    assert (overloaded.kind, overloaded.text.startswith("t did not finish (overloaded)")) == ("host", True)
    unknown = await run(make(Guest(error=ToolError("my own word", tool="t")), untrusted=True))
    assert (unknown.kind, unknown.reason) == ("crashed", "handler_raised")


async def test_quarantine_holds_at_once_and_before_the_gate() -> None:
    async def gate(call: ToolCall, context: ToolContext) -> Allow:
        raise AssertionError("asked")

    guest = Guest()
    runner = runner_of(make(guest, untrusted=True), gate=gate)
    offered = runner.registry.snapshot()
    guest.refused = "quarantined", "3 strikes"
    result = await runner.run(call(), tools=offered)
    assert (result.kind, result.reason, result.generation) == ("refused", "quarantined", 7)
    assert "3 strikes" in result.text


async def test_what_is_withdrawn_while_a_gate_waits_does_not_run() -> None:
    guest, waiting = Guest(), Waiting("registered")

    async def gate(call: ToolCall, context: ToolContext) -> Allow:
        guest.refused = "quarantined", "3 strikes"
        runner.registry.unregister("registered")
        return Allow()

    runner = runner_of(make(guest, untrusted=True), gate=gate)
    runner.registry.register(waiting.tool)
    offered = runner.registry.snapshot()
    assert (await runner.run(call())).reason == "quarantined"
    runner.registry.register(waiting.tool)
    offered = runner.registry.snapshot()
    assert (await runner.run(call("registered"), tools=offered)).reason == "not_found"
    assert waiting.runs == 0


async def test_a_handler_that_cannot_say_whether_it_may_run_does_not() -> None:
    class Broken(Guest):
        def refusal(self) -> tuple[str, str] | None:
            raise OSError("store gone")

    assert (await run(make(Broken(), untrusted=True))).reason == "quarantined"


async def test_a_long_text_is_cut_at_a_line_kept_whole_and_ends_with_how_to_page_it() -> None:
    runner = runner_of(answering(Ok("line\n" * 1_000)), max_result_chars=100)
    result = await runner.run(call(), session_id="s")
    assert result.output_id is not None
    assert result.text.startswith("line\n" * 20 + "\n\n[cut: ")
    assert runner.registry.outputs.read(result.output_id, session_id="s") == "line\n" * 1_000
    assert runner.registry.outputs.read(result.output_id, session_id="another") is None
    assert result.value == "line\n" * 1_000


async def test_a_long_failure_is_cut_too_and_what_is_shown_of_an_untrusted_text_is_inert() -> None:
    runner = runner_of(answering(Failed("\x1b" * 300), untrusted=True), max_result_chars=100)
    result = await runner.run(call())
    kept = runner.registry.outputs.read(result.output_id or "", session_id=None)
    assert kept == "\x1b" * 300
    assert "\x1b" not in result.text
    assert result.text.startswith("\\u001b")
    assert "\x1b" not in result.text


async def test_output_stores_that_break_cost_the_rest_of_a_text_and_no_call() -> None:
    class Broken:
        def keep(self, text: str, *, session_id: str | None) -> str:
            raise OSError("disk full")

        def read(self, output_id: str, *, session_id: str | None) -> str | None:
            return None

    runner = ToolRunner(ToolRegistry([answering(Ok("x" * 200))], outputs=Broken()), max_result_chars=100)
    result = await runner.run(call())
    assert (result.status, result.output_id) == ("ok", None)
    assert "could not be kept" in result.text


async def test_an_executor_of_ones_own_is_held_to_the_same_rules() -> None:
    class Mine:
        def __init__(self, does: Any) -> None:
            self.does = does

        async def execute(self, tool: Any, arguments: Any, context: Any) -> Any:
            if isinstance(self.does, BaseException):
                raise self.does
            return self.does

    async def through(does: Any) -> ToolResult:
        return await ToolRunner(ToolRegistry([echo("t")]), executor=Mine(does)).run(call())

    assert (await through(Ok("mine"))).text == "mine"
    assert (await through(ToolError("capability_fault", tool="t"))).kind == "host"
    assert (await through(ValueError())).reason == "handler_raised"
    assert (await through(SystemExit())).reason == "handler_exit"
    assert (await through("no answer")).reason == "invalid_return"


async def test_a_subscriber_that_raises_fails_no_call() -> None:
    def subscriber(event: object) -> None:
        raise RuntimeError("a screen broke")

    assert (await ToolRunner(ToolRegistry([echo("t")]), on_event=subscriber).run(call())).ok


@pytest.mark.parametrize("options", [{"default_timeout_ms": 0}, {"max_concurrent": -1}])
def test_bounds_are_above_zero(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ToolRunner(ToolRegistry([]), **options)


async def test_arguments_that_take_long_to_check_are_checked_all_the_same() -> None:
    row = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    schema = {"properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}}, "$defs": {"row": row}}
    runner = runner_of(make(lambda arguments: Ok(len(arguments["rows"])), input_schema={"type": "object", **schema}))
    rows = [{"id": number} for number in range(5_000)]
    assert (await runner.run(call(arguments={"rows": rows}))).value == 5_000
    assert (await runner.run(call(arguments={"rows": [*rows, {}]}))).reason == "invalid_arguments"
