"""The tools of LangChain, invoked as its agents and people do."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from rho_wasm import Ok, Tool, ToolContext, ToolRegistry, ToolRunner, tool
from tests.adapters.wire import ALL, PNG, broken

pytestmark = pytest.mark.slow


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # LangChain has no other.


def tools_of(*tools: Tool) -> dict[str, Any]:
    from rho_wasm.adapters.langchain import langchain_tools

    return {each.name: each for each in langchain_tools(ToolRunner(ToolRegistry(tools)))}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call", "id": "c1", "name": name, "args": arguments}


async def test_a_call_becomes_a_tool_message_with_the_result_as_artifact() -> None:
    message = await tools_of(*ALL)["forecast"].ainvoke(call("forecast", {"city": "Oslo", "days": "2"}))
    assert (message.type, message.tool_call_id, message.status) == ("tool", "c1", "success")
    assert message.content.startswith("Oslo: rain for 2\n\n[arguments repaired")
    assert message.artifact["details"] == {"station": 7}
    assert message.artifact["status"] == "ok"


async def test_arguments_alone_answer_the_content_alone() -> None:
    assert await tools_of(*ALL)["forecast"].ainvoke({"city": "Oslo"}) == "Oslo: rain for 1"


async def test_pictures_are_image_blocks() -> None:
    message = await tools_of(*ALL)["picture"].ainvoke(call("picture", {}))
    text, image = message.content
    assert text == {"type": "text", "text": "here it is"}
    assert image == {"type": "image", "base64": base64.b64encode(PNG).decode(), "mime_type": "image/png"}
    assert [block["type"] for block in message.content_blocks] == ["text", "image"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("broken", {"city": "Atlantis"}, "no such city: Atlantis"),
        ("crash", {}, "crash crashed (handler_raised)"),
        ("forecast", {}, "city: missing, wanted a string"),
    ],
)
async def test_a_failure_is_a_message_with_the_status_error(name: str, arguments: dict[str, Any], said: str) -> None:
    message = await tools_of(*ALL)[name].ainvoke(call(name, arguments))
    assert message.status == "error"
    assert said in message.content


async def test_a_failure_can_be_had_as_the_exception() -> None:
    from langchain_core.tools import ToolException

    from rho_wasm.adapters.langchain import RhoTool

    raising = RhoTool.of(broken, ToolRunner(ToolRegistry(ALL)), handle_tool_error=None)
    with pytest.raises(ToolException, match="no such city"):
        await raising.ainvoke({"city": "Atlantis"})


async def test_a_question_and_a_halt_are_told_by_their_artifact() -> None:
    tools = tools_of(*ALL)
    asked = await tools["book"].ainvoke(call("book", {"city": "Oslo"}))
    assert asked.content == "Book Oslo?"
    assert asked.artifact["status"] == "ask_user"
    assert asked.artifact["options"] == {"yes": "book it", "no": "leave it"}
    ended = await tools["finish"].ainvoke(call("finish", {"summary": "all"}))
    assert (ended.artifact["status"], ended.artifact["halt_reason"]) == ("halt", "done")
    assert ended.artifact["value"] == {"summary": "all"}


def test_manual_tools_are_not_among_them() -> None:
    assert set(tools_of(*ALL)) == {each.name for each in ALL} - {"pay"}


def test_its_schema_and_its_shape_for_a_model_are_the_tools_own() -> None:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    forecast = tools_of(*ALL)["forecast"]
    assert list(forecast.args) == ["city", "days"]
    shown = convert_to_openai_tool(forecast)["function"]
    assert (shown["name"], shown["description"]) == ("forecast", "The weather of a city.")
    assert shown["parameters"]["required"] == ["city"]


async def test_arguments_may_be_called_as_langchains_own_are() -> None:
    def echo(arguments: Any) -> Ok:
        return Ok(dict(arguments))

    names = ("config", "run_manager", "callbacks", "self", "arguments", "call_id")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    odd = Tool(name="odd", description="", input_schema=schema, handler=echo)
    given = dict.fromkeys(names, "x")
    message = await tools_of(odd)["odd"].ainvoke(call("odd", given))
    assert message.artifact["value"] == given


async def test_what_answers_is_what_is_live_when_it_is_called() -> None:
    from rho_wasm.adapters.langchain import langchain_tools

    def made(text: str) -> Tool:
        return Tool(name="now", description="", input_schema={}, handler=lambda arguments: Ok(text))

    registry = ToolRegistry([])
    registry.register(made("one"))
    (now,) = langchain_tools(ToolRunner(registry))
    registry.register(made("two"))
    assert await now.ainvoke({}) == "two"
    registry.unregister("now")
    message = await now.ainvoke(call("now", {}))
    assert (message.status, "not_found" in message.content) == ("error", True)


async def test_handlers_are_told_the_configuration_of_the_call() -> None:
    told: list[ToolContext] = []

    @tool
    def ask(context: ToolContext) -> str:
        """Asks."""
        told.append(context)
        return "ok"

    await tools_of(ask)["ask"].ainvoke(call("ask", {}), {"configurable": {"thread_id": "t1", "user": 7}})
    assert told[0].context["configurable"]["user"] == 7
    assert (told[0].call.id, told[0].session_id) == ("c1", "t1")


def test_a_call_that_cannot_wait_says_what_to_use() -> None:
    with pytest.raises(NotImplementedError, match="use ainvoke"):
        tools_of(*ALL)["forecast"].invoke({"city": "Oslo"})
