"""A tool's question: an input-required result and its retry, an elicitation of older clients, or the call's text."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp_types import (
    INVALID_PARAMS,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
)

from rho_wasm.results import AskUser, Ok
from rho_wasm.server import McpServer
from rho_wasm.tools import Tool
from tests.helpers import OBJECT, make
from tests.server.serving import NEWEST, OLDER, client_of, server_of, text_of

pytestmark = pytest.mark.anyio

VERSIONS = pytest.mark.parametrize("version", [NEWEST, OLDER])
WHICH = AskUser("Which one?", {"a": "the first", "b": "both", "c": 3})


class Asking:
    """A tool that asks, and counts its calls."""

    def __init__(self, question: AskUser = WHICH, **fields: Any) -> None:
        self.calls = 0
        self._question = question
        self.tool: Tool = make(self._handle, name="ask", **fields)

    async def _handle(self, arguments: Any) -> AskUser:
        self.calls += 1
        return self._question


class Person:
    """Answers what a client asks."""

    def __init__(self, action: Literal["accept", "decline", "cancel"] = "accept", answer: Any = "b") -> None:
        self.asked: list[ElicitRequestFormParams] = []
        self._result = ElicitResult(action=action, content={"answer": answer} if action == "accept" else None)

    async def __call__(self, context: ClientRequestContext, params: Any) -> ElicitResult | ErrorData:
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params)
        return self._result


@VERSIONS
async def test_a_person_is_asked_and_their_answer_is_the_calls_result_without_another_call(version: str) -> None:
    asking, person = Asking(), Person()
    async with client_of(server_of(asking.tool), version, elicitation_callback=person) as client:
        result = await client.call_tool("ask", {"x": 1})
    assert (text_of(result), result.is_error, asking.calls) == ("b", False, 1)
    (asked,) = person.asked
    assert asked.message == "Which one?\n- a: the first\n- b: both\n- c"
    assert asked.requested_schema == {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": ["a", "b", "c"]}},
        "required": ["answer"],
    }


@VERSIONS
@pytest.mark.parametrize(
    ("question", "field"),
    [
        (AskUser("Name?"), {"type": "string"}),
        (AskUser("?", {f"o{n}": None for n in range(51)}), {"type": "string"}),
        (AskUser("?", {"x" * 201: None}), {"type": "string"}),
    ],
)
async def test_without_options_or_with_too_many_for_a_form_any_text_is_an_answer(
    version: str, question: AskUser, field: dict[str, Any]
) -> None:
    person = Person(answer="anything")
    async with client_of(server_of(Asking(question).tool), version, elicitation_callback=person) as client:
        assert text_of(await client.call_tool("ask")) == "anything"
    assert person.asked[0].requested_schema["properties"] == {"answer": field}


@VERSIONS
@pytest.mark.parametrize(("action", "said"), [("decline", "declined to answer"), ("cancel", "closed the question")])
async def test_who_does_not_answer_is_told_to_the_model_as_an_error(
    version: str, action: Literal["decline", "cancel"], said: str
) -> None:
    asking = Asking()
    async with client_of(server_of(asking.tool), version, elicitation_callback=Person(action)) as client:
        result = await client.call_tool("ask")
    assert (result.is_error, asking.calls) == (True, 1)
    assert said in text_of(result)


@VERSIONS
async def test_where_nobody_can_be_asked_the_question_is_the_text(version: str) -> None:
    asking = Asking()
    async with client_of(server_of(asking.tool), version) as client:
        result = await client.call_tool("ask")
    assert (text_of(result), result.is_error) == ("Which one?\n- a: the first\n- b: both\n- c", False)
    assert result.meta is not None
    assert result.meta["rho-wasm/result"]["status"] == "ask_user"


async def test_an_older_client_that_cannot_after_all_or_answers_nonsense_reads_the_question() -> None:
    async def refuse(context: ClientRequestContext, params: Any) -> ElicitResult | ErrorData:
        return ErrorData(code=INVALID_PARAMS, message="no")

    for callback in (refuse, Person(answer="d"), Person(answer=5)):
        async with client_of(server_of(Asking().tool), OLDER, elicitation_callback=callback) as client:
            assert text_of(await client.call_tool("ask")).startswith("Which one?")


@VERSIONS
async def test_a_persons_answer_where_the_tool_declares_others_is_an_error_for_clients_that_would_refuse_it(
    version: str,
) -> None:
    asking = Asking(output_schema=OBJECT)
    async with client_of(server_of(asking.tool), version, elicitation_callback=Person()) as client:
        await client.list_tools()
        result = await client.call_tool("ask")
    assert (text_of(result), result.is_error) == ("b", True)


class Question:
    """A question that waits for its retry, asked by hand."""

    def __init__(self, client: Client, first: InputRequiredResult) -> None:
        self.client = client
        assert first.request_state is not None
        self.state = first.request_state
        assert first.input_requests is not None
        ((self.key, self.request),) = first.input_requests.items()
        assert isinstance(self.request, ElicitRequest)

    async def retry(
        self, state: str | None = None, *, name: str = "ask", arguments: Any = None, answer: Any = "b", key: str = ""
    ) -> Any:
        return await self.client.session.call_tool(
            name,
            arguments,
            input_responses={key or self.key: ElicitResult(action="accept", content={"answer": answer})},
            request_state=self.state if state is None else state,
            allow_input_required=True,
        )


async def asked(client: Client, arguments: Any = None, *, name: str = "ask") -> Question:
    first = await client.session.call_tool(name, arguments, allow_input_required=True)
    assert isinstance(first, InputRequiredResult)
    return Question(client, first)


async def nobody(context: ClientRequestContext, params: Any) -> ElicitResult | ErrorData:
    raise AssertionError("these tests answer by hand")


async def test_a_retry_is_answered_from_its_state_alone_however_often() -> None:
    asking = Asking()
    async with client_of(server_of(asking.tool), NEWEST, elicitation_callback=nobody) as client:
        question = await asked(client, {"x": 1})
        for answer in ("b", "a"):
            assert text_of(await question.retry(arguments={"x": 1}, answer=answer)) == answer
    assert asking.calls == 1


async def test_a_state_holds_for_its_own_call_and_session_and_nothing_else() -> None:
    asking = Asking()
    server = server_of(asking.tool, make(asking._handle, name="other"), eager=True)
    async with (
        client_of(server, NEWEST, elicitation_callback=nobody) as client,
        client_of(server, NEWEST, elicitation_callback=nobody) as stranger,
        client_of(server_of(asking.tool), NEWEST, elicitation_callback=nobody) as elsewhere,
    ):
        question = await asked(client, {"x": 1})
        tampered = question.state[:-2] + ("AA" if question.state[-2:] != "AA" else "BB")
        refused: list[Any] = [
            lambda: question.retry(tampered, arguments={"x": 1}),
            lambda: question.retry("", arguments={"x": 1}),
            lambda: question.retry('{"choices": [], "declares": false}', arguments={"x": 1}),
            lambda: question.retry(arguments={"x": 2}),
            lambda: question.retry(name="other", arguments={"x": 1}),
            lambda: question.retry(name="call_tool", arguments={"name": "ask", "arguments": {"x": 1}}),
        ]
        for client_of_another in (stranger, elsewhere):
            question_there = Question.__new__(Question)
            question_there.__dict__.update(question.__dict__ | {"client": client_of_another})
            refused.append(lambda there=question_there: there.retry(arguments={"x": 1}))
        for retry in refused:
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await retry()
        assert asking.calls == 1
        assert text_of(await question.retry(arguments={"x": 1})) == "b"


async def test_a_retry_answers_what_was_asked() -> None:
    async with client_of(server_of(Asking().tool), NEWEST, elicitation_callback=nobody) as client:
        question = await asked(client)
        with pytest.raises(MCPError, match="brings no elicitation result"):
            await question.retry(key="another")
        for wrong in ("d", 5, None):
            with pytest.raises(MCPError, match="one of the choices"):
                await question.retry(answer=wrong)


async def test_a_question_through_call_tool_is_answered_there() -> None:
    asking = Asking()
    async with client_of(server_of(asking.tool, eager=True), NEWEST, elicitation_callback=nobody) as client:
        inner = {"name": "ask", "arguments": {"x": 1}}
        question = await asked(client, inner, name="call_tool")
        assert text_of(await question.retry(name="call_tool", arguments=inner)) == "b"
    assert asking.calls == 1


async def test_a_retry_without_a_state_is_a_new_call() -> None:
    calls = 0

    async def count(arguments: Any) -> Ok:
        nonlocal calls
        calls += 1
        return Ok(calls)

    server: McpServer = server_of(make(count, name="ask"))
    async with client_of(server, NEWEST) as client:
        result = await client.session.call_tool(
            "ask", input_responses={"answer": ElicitResult(action="accept", content={"answer": "b"})}
        )
    assert text_of(result) == "1"
