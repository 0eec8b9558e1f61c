"""The helpers that users test with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rho_wasm.calls import RunningCall, ToolCall
from rho_wasm.errors import BuildError
from rho_wasm.host import Host
from rho_wasm.policy import Policy, ToolPolicy
from rho_wasm.testing import FakeSource, FixedClock, asking_guest, guest
from tests.helpers import context, echo


def test_a_fake_source_answers_what_it_was_given_and_counts_what_it_was_asked() -> None:
    source = FakeSource(echo("a"))
    assert [tool.name for tool in source.list()] == ["a"]
    assert (source.lookup("a"), source.lookup("b"), source.version) == (source.list()[0], None, None)
    running = RunningCall(echo(), context("echo"), lambda: None, None)
    source.watch(running)
    assert source.watched == [running]
    assert source.asked == {"list": 2, "lookup": 2, "watch": 1}


@pytest.mark.parametrize("operation", ["list", "lookup", "watch", "version"])
def test_a_fake_source_fails_where_it_is_told_to(operation: str) -> None:
    source = FakeSource(versioned=True)
    source.failing.add(operation)
    asks: dict[str, Callable[[], object]] = {
        "list": source.list,
        "lookup": lambda: source.lookup("a"),
        "watch": lambda: source.watch(RunningCall(echo(), context(), lambda: None, None)),
        "version": lambda: source.version,
    }
    with pytest.raises(RuntimeError, match="told to fail"):
        asks[operation]()


def test_a_fake_sources_version_moves_with_its_tools() -> None:
    source = FakeSource(versioned=True)
    before = source.version
    source.set(echo())
    assert source.version != before


def test_a_fixed_clock_stands_still_until_it_is_moved() -> None:
    clock = FixedClock(10.0)
    assert (clock(), clock()) == (10.0, 10.0)
    clock.advance(2.5)
    assert clock() == 12.5
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


async def test_a_guest_in_a_line_answers_or_traps_as_it_is_told() -> None:
    async with Host.open(":memory:") as host:
        made = [
            guest("fine", answer={"a": [1]}),
            guest("no", answer={"error": "why"}),
            guest("bad", body="unreachable"),
        ]
        await host.source.activate(await host.source.stage(add=made, author="test"))
        ends = [await host.runner.run(ToolCall(id=name, name=name)) for name in ("fine", "no", "bad")]
    assert [(end.value, end.reason) for end in ends] == [({"a": [1]}, None), ("why", "failed"), (None, "trapped")]


def test_a_salt_makes_another_version_of_the_same_guest() -> None:
    assert guest("a").sha256 == guest("a").sha256 != guest("a", salt=1).sha256


def test_text_that_is_no_webassembly_says_so() -> None:
    with pytest.raises(BuildError, match="unknown"):
        guest("a", body="(nonsense)")


@pytest.mark.anyio
async def test_a_guest_in_a_line_asks_the_host_and_answers_its_reply() -> None:
    policy = Policy(tools={"ask": ToolPolicy(grants={"random.bytes": {}})})
    async with Host.open(":memory:", core=[], policy=policy) as host:
        guests = [
            asking_guest("ask", "random.bytes", times=3),
            asking_guest("undeclared", "random.bytes", declared=["clock.now"]),
            asking_guest("trap", "random.bytes", then="unreachable"),
        ]
        await host.source.activate(await host.source.stage(add=guests, author="me"))
        answers = {
            name: await host.runner.run(ToolCall(id="1", name=name, arguments={"count": 9}))
            for name in ("ask", "undeclared", "trap")
        }
    assert len(answers["ask"].value["ok"]) == 9
    assert answers["undeclared"].value["error"]["kind"] == "undeclared"
    assert answers["trap"].reason == "trapped"
