"""A call's arguments as models send them, through the runner: what runs, what the gate sees, what the model reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rho_wasm import Allow, AskUser, Ok, Tool, ToolCall, ToolContext, ToolLoop, ToolRegistry, ToolRunner, tool
from rho_wasm.events import Event, ToolFinished, ToolRunning

SEEN = "arguments repaired"


@tool
def forecast(city: str, days: int = 1) -> dict[str, Any]:
    """The weather."""
    return {"city": city, "days": days}


@tool
def noon() -> str:
    """Noon."""
    return "12:00"


def runner(*tools: Tool, **options: Any) -> ToolRunner:
    return ToolRunner(ToolRegistry(tools or [forecast, noon]), **options)


def called(arguments: Any, name: str = "forecast") -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


async def test_valid_arguments_are_told_nothing() -> None:
    result = await runner().run(called({"city": "Oslo", "days": 3}))
    assert result.text == '{"city":"Oslo","days":3}'
    assert not result.log


async def test_json_as_text_is_read_without_a_note() -> None:
    result = await runner().run(called('{"city": "Oslo"}'))
    assert result.value == {"city": "Oslo", "days": 1}
    assert SEEN not in result.text


async def test_what_was_mended_runs_and_the_model_reads_of_it_on_a_line_of_the_hosts() -> None:
    result = await runner().run(called('{"city": "Oslo", "days": "3",}'))
    assert result.status == "ok"
    assert result.value == {"city": "Oslo", "days": 3}
    first, last = result.text.split("\n\n")
    assert first == '{"city":"Oslo","days":3}'
    assert last.startswith("[arguments repaired: they had a comma before a closing bracket")
    assert 'days: the text "3" was taken as the number' in last
    assert [line.level for line in result.log] == [30, 30]


@pytest.mark.parametrize("nothing", [None, "", "null", " "])
async def test_missing_arguments_are_none(nothing: Any) -> None:
    result = await runner().run(called(nothing, "noon"))
    assert result.value == "12:00"
    assert "taken as {}" in result.text
    result = await runner().run(called(nothing))
    assert result.reason == "invalid_arguments"
    assert "city: missing, wanted a string" in result.text


async def test_what_cannot_be_read_says_what_was_given_and_what_is_wanted() -> None:
    result = await runner().run(called('{"city": "Os'))
    assert (result.kind, result.reason) == ("refused", "invalid_arguments")
    assert 'arguments: got text "{"city": "Os", which ends before it is complete (line 1, column 10)' in result.text
    assert "wanted a JSON object" in result.text


@tool(read_only=True)
def listing(path: str, top: int = 10) -> dict[str, Any]:
    """A part of a list."""
    return {"path": path, "top": top}


async def test_a_misspelt_argument_is_refused_with_what_was_meant_and_not_run_without() -> None:
    result = await runner(listing).run(called({"path": "/", "tpo": "5"}, "listing"))
    assert (result.kind, result.reason) == ("refused", "invalid_arguments")
    assert "tpo: unknown key, did you mean 'top'? allowed: path, top" in result.text
    assert (await runner(listing).run(called({"path": "/", "colour": 5}, "listing"))).value == {"path": "/", "top": 10}


@pytest.mark.parametrize(
    ("given", "bound", "words"),
    [
        ("x" * 2**20, "request_bytes=1048576", "more than 1,048,576 bytes (Limits.request_bytes): give less at once"),
        ([0] * 100_000, "items=100000", "more than 100,000 items (Limits.items): give less at once"),
        (json.loads("[" * 64 + "]" * 64), "depth=64", "a depth of more than 64"),
    ],
)
async def test_arguments_over_a_bound_say_which_and_what_to_do(given: Any, bound: str, words: str) -> None:
    result = await runner().run(called({"city": given}))
    assert result.text.startswith(f"forecast was not run (invalid_arguments, {bound}): the arguments have {words}")


async def test_a_long_text_is_read_too() -> None:
    result = await runner().run(called('{"city": "' + "x" * 100_000 + '",}'))
    assert result.value["city"] == "x" * 100_000
    assert result.output_id is not None
    assert result.text.endswith("leave it out]")


async def test_what_stays_wrong_is_told_as_it_was_given() -> None:
    result = await runner().run(called({"city": 5, "days": "3"}))
    assert result.reason == "invalid_arguments"
    assert "city: got the integer 5, wanted a string" in result.text
    assert 'days: got text "3", wanted an integer' in result.text


@pytest.mark.parametrize("odd", [7, ["city"], {"city": object()}, {1: 2}, b"{}"])
async def test_what_is_neither_map_nor_text_is_refused(odd: Any) -> None:
    assert (await runner().run(called(odd))).reason == "invalid_arguments"


async def test_the_gate_and_the_events_see_what_runs() -> None:
    seen: list[Any] = []
    events: list[Event] = []

    def gate(call: ToolCall, context: ToolContext) -> Allow:
        seen.append((call.arguments, context.call.arguments))
        return Allow()

    await runner(gate=gate, on_event=events.append).run(called('{"city": "Oslo", "days": "2"}'))
    wanted = {"city": "Oslo", "days": 2}
    assert seen == [(wanted, wanted)]
    assert [event.call.arguments for event in events if isinstance(event, (ToolRunning, ToolFinished))] == [wanted] * 2


async def test_a_gate_cannot_change_mended_arguments() -> None:
    def gate(call: ToolCall, context: ToolContext) -> Allow:
        call.arguments["days"] = 99  # type: ignore[index]
        return Allow()

    result = await runner(gate=gate).run(called('{"city": "Oslo", "days": "2"}'))
    assert result.reason == "invalid_arguments"
    assert "changed while the gate was asked" in result.text


async def test_a_question_is_read_by_a_person_so_the_note_stays_in_the_log() -> None:
    @tool
    def book(seats: int) -> AskUser:
        """Books."""
        return AskUser(f"{seats} seats?", {"yes": "", "no": ""})

    result = await runner(book).run(called({"seats": "2"}, "book"))
    assert result.text == "2 seats?"
    assert "the number" in next(iter(result.log)).text


async def test_a_failure_carries_the_note_too() -> None:
    def fails(arguments: Any) -> Ok:
        raise RuntimeError("broken")

    broken = Tool(
        name="broken",
        description="",
        input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
        handler=fails,
    )
    result = await runner(broken).run(called({"n": "1"}, "broken"))
    assert result.reason == "handler_raised"
    assert SEEN in result.text


async def test_a_tool_that_only_reads_forgives_unknown_keys_and_another_does_not() -> None:
    reads = forecast.replace(read_only=True)
    assert (await runner(reads).run(called({"city": "Oslo", "unit": "C"}))).ok
    refused = await runner().run(called({"city": "Oslo", "unit": "C"}))
    assert "unit: unknown key, allowed: city, days" in refused.text


async def test_what_a_tool_calls_itself_is_taken_as_it_is() -> None:
    calls = runner()
    context = ToolContext(call=ToolCall(id="0", name="outer"))
    result = await calls.run_for(called({"city": "Oslo", "days": "3"}), context, 1_000)
    assert result.reason == "invalid_arguments"


async def test_a_manual_call_is_surfaced_with_a_map_where_its_text_has_one_reading() -> None:
    async def model(messages: Any, tools: Any) -> Any:
        calls = [called('{"city": "Oslo",}'), called('{"city": "Os'), called({"city": "Rome"})]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    outcome = await ToolLoop(model, runner(forecast.replace(manual=True))).run([{"role": "user", "content": "go"}])
    assert outcome.status == "manual_tool_calls"
    assert [call.arguments for call in outcome.manual_tool_calls] == [
        {"city": "Oslo"},
        '{"city": "Os',
        {"city": "Rome"},
    ]
    assert outcome.messages[-1]["tool_calls"][0].arguments == {"city": "Oslo"}


async def test_many_values_are_mended_too_where_nobody_waits_for_them() -> None:
    @tool
    def total(numbers: list[int]) -> int:
        """Adds."""
        return sum(numbers)

    given = {"numbers": ["1"] * 1_500}
    result = await runner(total).run(called(given, "total"))
    assert (result.value, SEEN in result.text) == (1_500, True)
    assert given == {"numbers": ["1"] * 1_500}
    refused = await runner(total).run(called({"numbers": ["1"] * 3_000}, "total"))
    assert refused.reason == "invalid_arguments"
