"""``todo`` keeps a list for each session, bounded."""

from __future__ import annotations

from typing import Any

import pytest

from rho_wasm.builtin.todo import MAX_SESSIONS, todo
from rho_wasm.registry import ToolRegistry
from rho_wasm.results import ToolResult
from rho_wasm.runner import ToolRunner
from tests.helpers import call

pytestmark = pytest.mark.anyio


@pytest.fixture
def runner() -> ToolRunner:
    return ToolRunner(ToolRegistry([todo()]))


async def use(runner: ToolRunner, session_id: str | None = "s", **arguments: Any) -> ToolResult:
    return await runner.run(call("todo", arguments), session_id=session_id)


async def test_a_list_is_kept_and_shown_with_its_states(runner: ToolRunner) -> None:
    items = [{"text": "read"}, {"text": "write", "state": "doing"}, {"text": "think", "state": "done"}]
    shown = "1. [ ] read\n2. [~] write\n3. [x] think"
    assert (await use(runner, items=items)).text == shown
    assert (await use(runner)).text == shown
    assert (await use(runner, items=[])).text == "The list is empty."
    assert (await use(runner)).text == "The list is empty."


async def test_each_session_has_its_own_and_each_registry_too(runner: ToolRunner) -> None:
    await use(runner, "one", items=[{"text": "mine"}])
    assert (await use(runner, "other")).text == "The list is empty."
    assert (await use(ToolRunner(ToolRegistry([todo()])), "one")).text == "The list is empty."


async def test_outside_a_session_nothing_is_kept(runner: ToolRunner) -> None:
    assert (await use(runner, None, items=[{"text": "anybody's"}])).text == "1. [ ] anybody's"
    assert (await use(runner, None)).text == "The list is empty."


@pytest.mark.parametrize(
    "items", [[{"text": ""}], [{"text": "x" * 501}], [{"text": "x", "state": "later"}], [{"text": "x"}] * 101, ["x"]]
)
async def test_a_list_beyond_its_bounds_is_refused(runner: ToolRunner, items: list[Any]) -> None:
    assert (await use(runner, items=items)).reason == "invalid_arguments"


async def test_the_session_that_used_its_list_longest_ago_is_let_go(runner: ToolRunner) -> None:
    for n in range(MAX_SESSIONS):
        await use(runner, str(n), items=[{"text": str(n)}])
    await use(runner, "0")
    await use(runner, "new", items=[{"text": "new"}])
    assert (await use(runner, "1")).text == "The list is empty."
    assert (await use(runner, "0")).text == "1. [ ] 0"
