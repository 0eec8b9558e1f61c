"""What a model is told of its tools: what is live, what struck and why, what calls cost; nothing of other sessions."""

from __future__ import annotations

import json

import pytest

from rho_wasm import Event, Store
from rho_wasm.testing import guest
from tests.workshop.shop import Session, opened, switched

pytestmark = pytest.mark.anyio

MINE = "workshop:a"


async def test_a_tool_that_crashes_is_told_with_its_strikes_faults_and_fuel() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(host, guest("fragile", body="unreachable"), guest("good"), author=MINE)
        for _ in range(2):
            await session("fragile")
        assert (await session("good")).ok
        told = await session.done("tool_status", name="fragile")
        assert (told["live"], told["calls"], told["strikes"]["count"]) == (True, 2, 2)
        assert told["strikes"]["latest"][0]["reason"] == "trapped"
        assert told["faults"][0]["reason"] == "trapped"
        assert "fragile crashed" in told["faults"][0]["text"]
        assert told["strikes"]["latest"][0]["backtrace"]
        assert (await session.done("tool_status", name="good"))["fuel"]["last"] > 0
        await session("fragile")
        told = await session.done("tool_status", name="fragile")
        assert not told["live"]
        assert told["quarantine"][0]["reasons"] == ["trapped"] * 3
        assert (await session.done("tool_status"))["quarantined"] == ["fragile"]


async def test_what_others_asked_shows_in_no_backtrace_and_in_no_fuel() -> None:
    async with opened() as host:
        author, other = Session(host), Session(host, "other")
        await switched(host, guest("fragile", body="unreachable"), guest("good"), author=MINE)
        await other("fragile")
        assert (await other("good")).ok
        told = await author.done("tool_status", name="fragile")
        assert (told["calls"], told["strikes"]["count"]) == (1, 1)
        assert sorted(told["strikes"]["latest"][0]) == ["artifact", "at", "generation", "reason"]
        assert "fuel" not in told
        assert "faults" not in told
        assert "fuel" not in await author.done("tool_status", name="good")
        told = await other.done("tool_status", name="fragile")
        assert told["strikes"]["latest"][0]["backtrace"] == told["faults"][0]["backtrace"]
        assert told["fuel"]["of_calls"] == 1


@pytest.mark.slow
async def test_everything_at_once_is_bounded_and_names_what_may_be_changed() -> None:
    async with opened() as host:
        await switched(host, guest(*[f"tool_{n}" for n in range(60)]))
        mine = await host.source.stage([guest("mine")], author=MINE, note="why\x1b")
        told = await Session(host).done("tool_status")
        assert (len(told["tools"]), told["more_tools"]) == (50, 10)
        assert not told["tools"][0]["may_change"]
        assert told["candidates"] == [{"candidate": mine.number, "note": "why\\x1b", "added": ["mine"]}]
        assert told["limits"]["source_chars"] == 65_536


async def test_a_source_is_read_with_its_author_and_what_it_declares_and_nothing_in_it_is_active() -> None:
    with Store.open(":memory:") as store:
        async with opened(store) as host:
            session = Session(host)
            artifact = guest({"name": "odd", "description": "Odd.", "input_schema": {"type": "object"}})
            object.__setattr__(artifact, "source", "one\n\ttwo \x1b[2J\u202e")
            await switched(host, artifact)
            head, source = (await session.done("read_tool", name="odd")).split("\n\n", 1)
            told = json.loads(head)
            assert (told["state"], told["authors"], told["may_change"]) == ("live in generation 1", ["operator"], False)
            assert (told["provenance"], told["declares"]["description"]) == ("claimed", "Odd.")
            assert source.splitlines()[1:] == ["one", "\ttwo \\u001b[2J\\u202e"]
            assert "no tool 'todo'" in (await session.refused("read_tool", name="todo")).text


async def test_the_hosts_own_listener_hears_what_it_heard_without_a_workshop() -> None:
    heard: list[Event] = []
    async with opened(on_event=heard.append) as host:
        await switched(host, guest("tool"), author=MINE)
        await Session(host)("tool")
    assert [type(each).__name__ for each in heard] == ["GenerationSwitched", "ToolRunning", "ToolFinished"]
