"""Sources that wrap a fetch or another source."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.calls import RunningCall
from rho_wasm.errors import NotATool
from rho_wasm.events import SourceFailed
from rho_wasm.registry import ToolRegistry
from rho_wasm.sources import FilteredSource, PrefixedSource, RefreshingSource, cancels_calls, source_name
from rho_wasm.testing import FakeSource
from rho_wasm.tools import Tool
from tests.helpers import Events, call, context, echo

pytestmark = pytest.mark.anyio


class Fetch:
    """An async fetch whose answer is set by the test."""

    def __init__(self, *tools: object) -> None:
        self.tools: Sequence[object] = tools
        self.error: Exception | None = None

    async def __call__(self) -> Sequence[Tool]:
        await anyio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        return self.tools  # type: ignore[return-value]


def running(tool: Tool) -> RunningCall:
    return RunningCall(tool, context(tool.name), lambda: None, None)


async def test_a_refreshing_source_has_no_tools_until_the_first_good_fetch() -> None:
    source = RefreshingSource(Fetch(echo("a")))
    assert (source.list(), source.lookup("a")) == ((), None)
    assert await source.refresh()
    assert [tool.name for tool in source.list()] == ["a"]
    assert source.lookup("a") is source.list()[0]
    source.watch(running(echo("a")))


@pytest.mark.parametrize("error", [OSError("no network"), TimeoutError(), ValueError("bad json")])
async def test_a_fetch_that_raises_keeps_the_last_good_answer_and_is_reported(error: Exception) -> None:
    events = Events()
    fetch = Fetch(echo("a"))
    source = RefreshingSource(fetch, name="remote", on_event=events.append)
    await source.refresh()
    fetch.error = error
    assert not await source.refresh()
    assert source.lookup("a") is not None
    (failed,) = events.of(SourceFailed)
    assert (failed.source, failed.operation) == ("remote", "refresh")
    assert type(error).__name__ in failed.error


async def test_a_fetch_that_answers_something_else_than_tools_changes_nothing() -> None:
    events = Events()
    fetch = Fetch(echo("a"))
    source = RefreshingSource(fetch, on_event=events.append)
    await source.refresh()
    fetch.tools = [echo("b"), "not a tool"]
    assert not await source.refresh()
    assert [tool.name for tool in source.list()] == ["a"]
    assert NotATool.__name__ in events.of(SourceFailed)[0].error


async def test_a_fetch_that_takes_too_long_is_given_up() -> None:
    async def hang() -> Sequence[Tool]:
        await anyio.sleep_forever()
        return ()

    assert not await RefreshingSource(hang, timeout_s=0.01).refresh()


async def test_of_two_fetches_at_once_the_one_that_began_later_wins() -> None:
    first_may_end = anyio.Event()
    fetches = 0

    async def fetch() -> Sequence[Tool]:
        nonlocal fetches
        fetches += 1
        if fetches == 1:
            await first_may_end.wait()
            return [echo("old")]
        return [echo("new")]

    source = RefreshingSource(fetch)
    async with anyio.create_task_group() as group:
        group.start_soon(source.refresh)
        await anyio.wait_all_tasks_blocked()
        await source.refresh()
        first_may_end.set()
    assert [tool.name for tool in source.list()] == ["new"]


async def test_it_keeps_itself_fresh_until_it_is_cancelled() -> None:
    refreshed = anyio.Event()
    fetches = 0

    async def fetch() -> Sequence[Tool]:
        nonlocal fetches
        fetches += 1
        if fetches == 3:
            refreshed.set()
        return [echo(f"t{fetches}")]

    source = RefreshingSource(fetch)
    async with anyio.create_task_group() as group:
        group.start_soon(source.keep_fresh, 0.001)
        with anyio.fail_after(60):
            await refreshed.wait()
        group.cancel_scope.cancel()
    assert source.version >= 2


async def test_a_refreshed_source_changes_what_a_registry_offers() -> None:
    fetch = Fetch(echo("a"))
    source = RefreshingSource(fetch)
    registry = ToolRegistry([], sources=[source])
    assert registry.list() == ()
    await source.refresh()
    assert [tool.name for tool in registry.list()] == ["a"]
    fetch.tools = [echo("b")]
    await source.refresh()
    assert [tool.name for tool in registry.list()] == ["b"]


def test_a_prefixed_source_renames_its_tools_and_keeps_their_handlers() -> None:
    inner = FakeSource(echo("issue"), name="github")
    source = PrefixedSource(inner, "gh_")
    (renamed,) = source.list()
    assert renamed.name == "gh_issue"
    original = inner.lookup("issue")
    assert original is not None
    assert renamed.handler is original.handler
    assert source.lookup("gh_issue") is renamed
    assert source.lookup("issue") is None
    assert source.lookup("gh_other") is None
    assert source_name(source) == "gh_github"


def test_a_prefixed_source_answers_the_same_objects_until_its_own_source_changes() -> None:
    inner = FakeSource(echo("a"), echo("b"))
    source = PrefixedSource(inner, "p_")
    before = source.list()
    assert list(map(id, source.list())) == list(map(id, before))
    inner.set(echo("a"))
    (after,) = source.list()
    assert after is not before[0]


def test_a_tool_whose_prefixed_name_is_too_long_is_left_out_alone_and_reported_once() -> None:
    events = Events()
    source = PrefixedSource(FakeSource(echo("a" * 60), echo("b")), "prefix_", on_event=events.append)
    for _ in range(2):
        assert [tool.name for tool in source.list()] == ["prefix_b"]
    assert [event.tools for event in events.of(SourceFailed)] == [("a" * 60,)]


def test_a_filtered_source_offers_what_passes_now() -> None:
    allowed = {"a"}
    inner = FakeSource(echo("a"), echo("b"), versioned=True)
    source = FilteredSource(inner, lambda tool: tool.name in allowed)
    registry = ToolRegistry([], sources=[source])
    assert [tool.name for tool in registry.list()] == ["a"]
    assert registry.lookup("b") is None
    allowed.add("b")
    assert [tool.name for tool in registry.list()] == ["a", "b"]
    assert registry.lookup("b") is not None
    assert source_name(source) == "fake"


def test_wrapped_sources_are_told_of_every_call() -> None:
    one, other = FakeSource(), FakeSource()
    told = running(echo())
    for source in (PrefixedSource(one, "p_"), FilteredSource(other, lambda tool: True)):
        source.watch(told)
    assert one.watched == other.watched == [told]
    assert told.call == call("echo")


def test_a_source_may_cancel_calls_unless_it_says_that_it_does_not() -> None:
    class Quiet(FakeSource):
        cancels_calls = False

    async def fetch() -> list[Tool]:
        return []

    for quiet in (Quiet(), RefreshingSource(fetch), PrefixedSource(Quiet(), "a"), FilteredSource(Quiet(), bool)):
        assert not cancels_calls(quiet)
        assert not ToolRegistry([], sources=[quiet]).calls_may_be_cancelled
    for source in (FakeSource(), PrefixedSource(FakeSource(), "a"), FilteredSource(FakeSource(), bool)):
        assert cancels_calls(source)
        assert ToolRegistry([], sources=[Quiet(), source]).calls_may_be_cancelled
