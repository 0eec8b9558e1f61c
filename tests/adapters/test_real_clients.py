"""``ToolLoop`` with the clients of OpenAI and Anthropic, against a server that speaks their HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rho_wasm import ToolLoop, ToolRegistry, ToolRunner
from rho_wasm.adapters.anthropic import anthropic_model
from rho_wasm.adapters.openai import openai_model
from rho_wasm.adapters.openai_responses import responses_model
from rho_wasm.loop import LoopOutcome, Model
from tests.adapters.stub_api import Say, StubApi, stub_api
from tests.adapters.wire import ALL

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent / "examples"
ASKED = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "go"}]


@asynccontextmanager
async def chat(api: StubApi) -> AsyncIterator[Model]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key="none", max_retries=0) as client:
        yield openai_model(client, model="stub", strict=True, temperature=0)


@asynccontextmanager
async def responses(api: StubApi) -> AsyncIterator[Model]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key="none", max_retries=0) as client:
        yield responses_model(client, model="stub", strict=True, store=False)


@asynccontextmanager
async def messages(api: StubApi) -> AsyncIterator[Model]:
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=api.url, api_key="none", max_retries=0) as client:
        yield anthropic_model(client, model="stub", system="you are a test", metadata={"user_id": "7"})


Open = Callable[[StubApi], Any]
EACH = pytest.mark.parametrize("opened", [chat, responses, messages])


def results_in(api: StubApi) -> dict[str, Any]:
    """What the model read of each call, in the request that came last."""
    found: dict[str, Any] = {}
    body = api.asked[-1]
    for item in body.get("input") or body["messages"]:
        if item.get("type") == "function_call_output":
            found[item["call_id"]] = item["output"]
        elif item.get("role") == "tool":
            found[item["tool_call_id"]] = item["content"]
        for block in item["content"] if isinstance(item.get("content"), list) else ():
            if block.get("type") == "tool_result":
                found[block["tool_use_id"]] = block.get("content")
    return found


def text_of(read: Any) -> str:
    return read if isinstance(read, str) else "".join(part.get("text", "") for part in read)


def loop_with(model: Model) -> ToolLoop:
    return ToolLoop(model, ToolRunner(ToolRegistry(ALL)))


@EACH
async def test_calls_run_and_their_results_go_back(opened: Open) -> None:
    calls = [
        ("c1", "forecast", '{"city": "Oslo", "days": "2"}'),
        ("c2", "broken", '{"city": "Atlantis"}'),
        ("c3", "crash", "{}"),
        ("c4", "picture", "{}"),
        ("c5", "nothing", "{}"),
    ]
    with stub_api(Say("I look.", calls), Say("", [("c6", "forecast", '{"city": "Rome"}')]), Say("It rains.")) as api:
        async with opened(api) as model:
            outcome = await loop_with(model).run(ASKED)
    assert api.refused == []
    assert (outcome.status, outcome.text) == ("completed", "It rains.")
    read = {id: text_of(content) for id, content in results_in(api).items()}
    assert read["c1"].startswith('Oslo: rain for 2\n\n[arguments repaired: days: the text "2"')
    assert "no such city: Atlantis" in read["c2"]
    assert "crash crashed (handler_raised)" in read["c3"]
    assert "nothing was not run (not_found)" in read["c5"]
    assert read["c6"] == "Rome: rain for 1"
    assert "iVBORw0KGgo" in json.dumps(api.asked[-1])
    assert len(api.asked) == 3
    assert "station" not in json.dumps(api.asked)


@EACH
async def test_a_manual_call_waits_for_its_result(opened: Open) -> None:
    calls = [("c1", "pay", '{"amount": 5}'), ("c2", "forecast", '{"city": "Oslo"}')]
    with stub_api(Say("", calls), Say("Paid.")) as api:
        async with opened(api) as model:
            loop = loop_with(model)
            outcome = await loop.run(ASKED)
            assert outcome.status == "manual_tool_calls"
            assert [(call.id, call.arguments) for call in outcome.manual_tool_calls] == [("c1", {"amount": 5})]
            outcome = loop.submit_tool_result(outcome, "c1", "transfer 77")
            outcome = await loop.run(outcome.messages)
    assert api.refused == []
    assert outcome.text == "Paid."
    assert {id: text_of(read) for id, read in results_in(api).items()} == {
        "c1": "transfer 77",
        "c2": "Oslo: rain for 1",
    }


@EACH
async def test_a_question_is_answered_and_its_tool_not_called_again(opened: Open) -> None:
    with stub_api(Say("", [("c1", "book", '{"city": "Oslo"}')]), Say("Booked.")) as api:
        async with opened(api) as model:
            loop = loop_with(model)
            outcome = await loop.run(ASKED)
            assert (outcome.status, outcome.question) == ("ask_user", "Book Oslo?")
            assert dict(outcome.options) == {"yes": "book it", "no": "leave it"}
            outcome = await loop.run(loop.answer(outcome, "yes").messages)
    assert api.refused == []
    assert outcome.text == "Booked."
    assert text_of(results_in(api)["c1"]) == "yes"


@EACH
async def test_a_halt_ends_the_conversation(opened: Open) -> None:
    with stub_api(Say("", [("c1", "finish", '{"summary": "all"}'), ("c2", "forecast", '{"city": "Oslo"}')])) as api:
        async with opened(api) as model:
            outcome: LoopOutcome = await loop_with(model).run(ASKED)
    assert (outcome.status, outcome.halted_reason, outcome.value) == ("halt", "done", {"summary": "all"})
    assert len(api.asked) == 1
    assert api.refused == []


@pytest.mark.parametrize("opened", [chat, responses])
async def test_text_that_is_no_json_is_answered_with_what_is_wrong(opened: Open) -> None:
    calls = [("c1", "forecast", '{"city": "Os'), ("c2", "forecast", '```json\n{"city": "Oslo",}\n```')]
    with stub_api(Say("", calls), Say("Sorry.")) as api:
        async with opened(api) as model:
            await loop_with(model).run(ASKED)
    assert api.refused == []
    read = results_in(api)
    assert "which ends before it is complete (line 1, column 10), wanted a JSON object" in read["c1"]
    assert read["c2"].startswith("Oslo: rain for 1\n\n[arguments repaired: they came in a code fence")


@EACH
async def test_what_the_api_refuses_leaves_the_loop_and_the_messages_can_be_run_again(opened: Open) -> None:
    with stub_api(Say("Hello.")) as api:
        async with opened(api) as model:
            loop = loop_with(model)
            orphan = {"role": "tool", "tool_call_id": "c9", "name": "forecast", "content": "x", "is_error": False}
            with pytest.raises(Exception, match="400"):
                await loop.run([*ASKED, orphan])
            assert (await loop.run(ASKED)).text == "Hello."
    assert len(api.refused) == 1


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_the_examples_run(name: str) -> None:
    calls = [("c1", "book", '{"city": "Oslo"}'), ("c2", "pay", '{"amount": 90}')]
    with stub_api(Say("", calls), Say("Booked and paid.")) as api:
        variables = {
            "OPENAI_BASE_URL": f"{api.url}/v1",
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "none",
        }
        ended = subprocess.run(
            [sys.executable, EXAMPLES / f"{name}_loop.py"],
            input="yes\npaid\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
            env={**os.environ, **variables},
        )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "Book a trip to Oslo? pay {'amount': 90} Booked and paid.\n"
    assert {id: text_of(read) for id, read in results_in(api).items()} == {"c1": "yes", "c2": "paid"}
