"""The toolset of pydantic-ai in real runs of its agent, with a model that follows a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rho_wasm import Ok, Tool, ToolContext, ToolRegistry, ToolRunner, tool
from tests.adapters.wire import ALL, PNG

pytestmark = pytest.mark.slow


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # pydantic-ai has no other.


def agent_of(registry: ToolRegistry, *turns: Any, seen: list[Any] | None = None, **options: Any) -> Any:
    """An agent whose model says each of ``turns``: a text, or calls as ``(id, tool, arguments)``."""
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from rho_wasm.adapters.pydantic_ai import RhoToolset

    script = list(turns)

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        if seen is not None:
            seen.append((messages, info))
        turn = script.pop(0)
        if callable(turn):
            turn = turn()
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id=id) for id, name, arguments in turn])

    return Agent(
        FunctionModel(answer),
        toolsets=[RhoToolset(ToolRunner(registry), id="rho", **options)],
        output_type=[str, DeferredToolRequests],
    )


def returned(run: Any) -> dict[str, Any]:
    """The parts that answered each call."""
    parts = [part for message in run.all_messages() for part in message.parts]
    return {part.tool_call_id: part for part in parts if part.part_kind in ("tool-return", "retry-prompt")}


async def test_tools_are_offered_as_they_are() -> None:
    seen: list[Any] = []
    await agent_of(ToolRegistry(ALL), "done", seen=seen).run("go")
    tools = {each.name: each for each in seen[0][1].function_tools}
    assert set(tools) == {each.name for each in ALL}
    assert tools["forecast"].description == "The weather of a city."
    assert tools["forecast"].parameters_json_schema["required"] == ["city"]
    assert (tools["pay"].kind, tools["forecast"].kind) == ("external", "function")
    assert tools["forecast"].metadata["rho_wasm"]["read_only"] is True


async def test_answers_failures_and_repairs_are_read_by_the_model() -> None:
    calls = [
        ("c1", "forecast", {"city": "Oslo", "days": "2"}),
        ("c2", "broken", '{"city": "Atlantis"}'),
        ("c3", "crash", ""),
        ("c4", "picture", {}),
    ]
    run = await agent_of(ToolRegistry(ALL), calls, "done").run("go")
    assert run.output == "done"
    parts = returned(run)
    assert parts["c1"].content.startswith('Oslo: rain for 2\n\n[arguments repaired: days: the text "2"')
    assert parts["c1"].metadata == {"station": 7}
    assert (parts["c2"].outcome, parts["c2"].content) == ("failed", "no such city: Atlantis")
    assert parts["c3"].outcome == "failed"
    assert "crash crashed (handler_raised)" in parts["c3"].content
    text, image = parts["c4"].content
    assert text == "here it is"
    assert image.data == PNG


async def test_refused_arguments_are_a_retry_and_too_many_end_the_run() -> None:
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    wrong, right = [("c1", "forecast", {"town": "Oslo"})], [("c2", "forecast", {"city": "Oslo"})]
    run = await agent_of(ToolRegistry(ALL), wrong, right, "done").run("go")
    assert "city: missing, wanted a string" in str(returned(run)["c1"].content)
    assert run.output == "done"
    with pytest.raises(UnexpectedModelBehavior):
        await agent_of(ToolRegistry(ALL), wrong, wrong, "done", max_retries=1).run("go")


async def test_a_question_is_deferred_and_its_answer_is_the_result() -> None:
    from pydantic_ai import DeferredToolRequests, DeferredToolResults

    agent = agent_of(ToolRegistry(ALL), [("c1", "book", {"city": "Oslo"})], "booked")
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    assert first.output.kind("c1") == "question"
    assert first.output.metadata["c1"] == {
        "question": "Book Oslo?",
        "options": {"yes": "book it", "no": "leave it"},
    }
    answers = DeferredToolResults(calls={"c1": "yes"})
    second = await agent.run(message_history=first.all_messages(), deferred_tool_results=answers)
    assert second.output == "booked"
    assert returned(second)["c1"].content == "yes"


async def test_a_manual_call_is_deferred_beside_one_that_ran() -> None:
    from pydantic_ai import DeferredToolResults

    calls = [("c1", "pay", {"amount": 5}), ("c2", "forecast", {"city": "Oslo"})]
    agent = agent_of(ToolRegistry(ALL), calls, "paid")
    first = await agent.run("go")
    assert [call.tool_call_id for call in first.output.calls] == ["c1"]
    assert first.output.kind("c1") == "external"
    answers = DeferredToolResults(calls={"c1": "transfer 77"})
    second = await agent.run(message_history=first.all_messages(), deferred_tool_results=answers)
    assert second.output == "paid"
    assert returned(second)["c2"].content == "Oslo: rain for 1"


async def test_a_halt_ends_the_run_with_its_value() -> None:
    agent = agent_of(ToolRegistry(ALL), [("c1", "finish", {"summary": "all"})])
    run = await agent.run("go")
    assert run.output.metadata["c1"] == {"halt": "done", "value": {"summary": "all"}}


async def test_each_step_is_offered_what_is_live_and_answered_from_what_it_was_shown() -> None:
    def made(text: str) -> Tool:
        def handler(arguments: Any) -> Ok:
            return Ok(text)

        return Tool(name="now", description=text, input_schema={}, handler=handler)

    registry = ToolRegistry([])
    registry.register(made("one"))
    seen: list[Any] = []

    def switch(then: Callable[[], None]) -> Callable[[], Any]:
        def turn() -> Any:
            then()
            return [(f"c{len(seen)}", "now", {})]

        return turn

    first = switch(lambda: registry.register(made("two")))
    agent = agent_of(registry, first, switch(lambda: registry.unregister("now")), "done", seen=seen)
    run = await agent.run("go")
    assert [[each.description for each in info.function_tools] for _, info in seen] == [["one"], ["two"], []]
    parts = returned(run)
    assert parts["c1"].content == "one"
    assert "now was not run (not_found)" in parts["c2"].content


async def test_handlers_are_told_the_runs_deps() -> None:
    told: list[ToolContext] = []

    @tool
    def ask(context: ToolContext) -> str:
        """Asks."""
        told.append(context)
        return "ok"

    await agent_of(ToolRegistry([ask]), [("c1", "ask", {})], "done").run("go", deps={"user": 7})
    assert told[0].context == {"user": 7}
    assert told[0].call.id == "c1"
    assert told[0].session_id
    assert told[0].request_id
