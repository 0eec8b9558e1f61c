"""``read_artifact`` pages what was cut, its own session's only."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rho_wasm.builtin import builtin_tools, read_artifact
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import Ok, ToolResult
from rho_wasm.runner import ToolRunner
from tests.helpers import answering, call

pytestmark = pytest.mark.anyio

TEXT = "".join(f"line {n}\n" for n in range(5_000))


def runner_with(text: str = TEXT, *, page_chars: int | None = None) -> ToolRunner:
    reader = read_artifact() if page_chars is None else read_artifact(page_chars=page_chars)
    return ToolRunner(ToolRegistry([reader, answering(Ok(text), name="long")]))


async def read(runner: ToolRunner, session_id: str | None = "s", **arguments: Any) -> ToolResult:
    return await runner.run(call("read_artifact", arguments), session_id=session_id)


async def test_following_the_notices_reads_the_whole_text() -> None:
    runner = runner_with()
    result = await runner.run(call("long"), session_id="s")
    text = result.text[: result.text.rindex("\n\n[cut: ")]
    while (notice := re.search(r"read (?:on|.*) with (?:read_artifact )?(\{.*?\})", result.text[-200:])) is not None:
        result = await read(runner, **json.loads(notice[1]))
        assert result.output_id is None
        text += result.text[: result.text.rindex("\n\n[characters ")]
    assert text == TEXT
    assert result.text.endswith("; this is the end]")


async def test_a_page_ends_at_a_line() -> None:
    runner = runner_with()
    output_id = (await runner.run(call("long"), session_id="s")).output_id
    page = await read(runner, id=output_id, offset=7, limit=100.0)
    assert page.text.startswith("line 1\n")
    assert page.text.count("\n\n[characters 7 to ") == 1
    body = page.text[: page.text.rindex("\n\n[")]
    assert body.endswith("\n")
    assert len(body) <= 100


async def test_another_sessions_output_is_as_unknown_as_one_that_never_was() -> None:
    runner = runner_with()
    output_id = (await runner.run(call("long"), session_id="s")).output_id
    unknown = "out_" + "0" * 32
    texts = []
    for one, session_id in ((output_id, "other"), (output_id, None), (unknown, "s")):
        result = await read(runner, session_id, id=one)
        assert (result.kind, result.status) == ("failed", "error")
        texts.append(result.text.replace(str(one), "ID"))
    assert len(set(texts)) == 1


async def test_an_offset_beyond_the_end_says_where_the_end_is() -> None:
    runner = runner_with()
    output_id = (await runner.run(call("long"), session_id="s")).output_id
    result = await read(runner, id=output_id, offset=len(TEXT))
    assert (result.kind, str(len(TEXT)) in result.text) == ("failed", True)


@pytest.mark.parametrize(
    "arguments", [{}, {"id": "x"}, {"id": "out_" + "0" * 32, "offset": -1}, {"id": "out_" + "0" * 32, "limit": 10_001}]
)
async def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    assert (await read(runner_with(), **arguments)).reason == "invalid_arguments"


async def test_pages_are_as_long_as_the_host_says() -> None:
    runner = runner_with(page_chars=50)
    output_id = (await runner.run(call("long"), session_id="s")).output_id
    assert len((await read(runner, id=output_id)).text) < 200


def test_the_built_in_tools_are_two() -> None:
    assert [tool.name for tool in builtin_tools()] == ["read_artifact", "todo"]


async def test_what_forges_a_terminal_is_escaped_on_every_page() -> None:
    runner = runner_with("x" * 30_000 + "\x1b]0;owned\x07" * 1_000)
    output_id = (await runner.run(call("long"), session_id="s")).output_id
    offset, seen = 30_000, ""
    while (page := (await read(runner, id=output_id, offset=offset)).text) and "this is the end" not in page:
        assert "\x1b" not in page
        notice = re.search(r'"offset": (\d+)', page)
        assert notice is not None
        assert int(notice[1]) > offset
        offset, seen = int(notice[1]), seen + page
    assert "\\u001b]0;owned" in seen
