"""The workshop changes, removes and undoes only what was written in it, and grants nothing."""

from __future__ import annotations

import anyio
import pytest

from rho_wasm import Generation, Policy, UnknownGeneration, Workshop
from rho_wasm.dynamic.generation import Candidate
from rho_wasm.dynamic.review import Review
from rho_wasm.policy import GatePolicy
from rho_wasm.testing import guest
from tests.helpers import make
from tests.workshop.shop import SPEAKING, Session, opened, switched, wat

pytestmark = pytest.mark.anyio

MINE = "workshop:a"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("todo", "reserved"),
        ("t0do", "looks like 'todo'"),
        ("write_tool", "reserved"),
        ("Wr1te-T00l", "looks like 'write_tool'"),
        ("call_tool", "reserved"),
        ("invoice", "reserved: it is a core tool's"),
        ("lnv0ice", "looks like 'invoice'"),
        ("registered", "the host has a tool"),
        ("a__b", "two underscores"),
        ("x\x1b[2J", "is no name of a tool"),
        ("\u0442odo", "is no name of a tool"),
        ("n" * 65, "is no name of a tool"),
    ],
)
async def test_a_name_of_the_host_or_one_like_it_is_refused_before_anything_is_built(name: str, why: str) -> None:
    async with opened(core=[make(name="invoice")]) as host:
        host.registry.register(make(name="registered"))
        result = await Session(host).refused("write_tool", language="wat", source="(", name=name, description="A tool.")
        assert why in result.text
        assert "\x1b" not in result.text
        assert host.source.generations()[-1].number == 0


async def test_a_tool_of_somebody_else_is_neither_replaced_nor_removed_and_nothing_is_written_that_looks_like_it() -> (
    None
):
    async with opened() as host:
        session = Session(host)
        await switched(host, guest("weather"))
        for name in ("weather", "w-eather"):
            result = await session.refused("write_tool", language="wat", source=wat(), name=name, description="Mine.")
            assert result.details["reason"] == "not_yours"
        assert "operator" in (await session.refused("switch_tools", remove=["weather"])).text
        await switched(host, remove=["weather"])
        result = await session.refused("write_tool", language="wat", source=wat(), name="weather", description="Mine.")
        assert "operator" in result.text


async def test_a_candidate_of_somebody_else_is_neither_switched_nor_tried_nor_read() -> None:
    async with opened() as host:
        session = Session(host)
        theirs = await host.source.stage([guest("planned")], author="operator")
        for tool, arguments in (
            ("switch_tools", {"candidate": theirs.number}),
            ("test_tool", {"candidate": theirs.number, "name": "planned"}),
            ("read_tool", {"candidate": theirs.number, "name": "planned"}),
        ):
            result = await session.refused(tool, **arguments)
            assert (
                result.text
                == f"there is no open candidate {theirs.number} here; tool_status lists those that there are"
            )
        assert isinstance(host.store.generation(theirs.number), Candidate)


async def test_what_became_somebody_elses_since_it_was_written_is_not_switched() -> None:
    async with opened() as host:
        mine = await host.source.stage([guest("shared_name")], author=MINE)
        await switched(host, guest("shared_name", answer="theirs"))
        result = await Session(host).refused("switch_tools", candidate=mine.number)
        assert result.details["reason"] == "not_yours"
        assert host.source.live().author == "operator"


async def test_several_candidates_and_a_removal_go_live_together_or_not_at_all() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(host, guest("old"), author=MINE)
        parts = [await host.source.stage([guest(name)], author=MINE) for name in ("first", "second")]
        numbers = [part.number for part in parts]
        await session.refused("switch_tools", candidates=numbers, remove=["nothing"])
        told = await session.done("switch_tools", candidates=numbers, remove=["old"], note="a set")
        assert (told["status"], told["added"], told["removed"]) == ("live", ["first", "second"], ["old"])
        assert host.source.live().note == "a set"
        assert (await session("first")).value == "done"
        result = await session.refused("switch_tools", candidate=told["generation"])
        assert "it is live" in result.text


async def test_going_back_undoes_what_was_written_here_and_stops_before_what_was_not() -> None:
    async with opened() as host:
        session = Session(host)
        theirs = await switched(host, guest("theirs"))
        first = await switched(host, guest("mine"), author=MINE)
        await switched(host, guest("mine", answer="v2"), author=MINE)
        told = await session.done("roll_back_tools")
        assert (told["generation"], told["changed"]) == (first.number, ["mine"])
        told = await session.done("roll_back_tools", to=theirs.number, note="start again")
        assert told["removed"] == ["mine"]
        result = await session.refused("roll_back_tools")
        assert "generation 1 was made by operator" in result.text
        assert host.store.switches(limit=1)[0].note == "start again"


async def test_going_back_past_a_generation_of_somebody_else_is_refused_from_wherever_it_is_asked() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(host, guest("mine"), author=MINE)
        await switched(host, guest("theirs"))
        last = await switched(host, guest("other"), author=MINE)
        result = await session.refused("roll_back_tools", to=0)
        assert "generation 2 was made by operator" in result.text
        assert host.source.live().number == last.number


async def test_what_an_operator_rolled_back_is_not_rolled_forward_or_further() -> None:
    async with opened() as host:
        session = Session(host)
        first = await switched(host, guest("mine"), author=MINE)
        second = await switched(host, guest("mine", answer="v2"), author=MINE)
        await host.source.rollback()
        for to in ({}, {"to": second.number}, {"to": 0}):
            assert "operator made generation 1 live" in (await session.refused("roll_back_tools", **to)).text
        assert host.source.live().number == first.number


@pytest.mark.slow
async def test_where_sessions_share_nothing_one_cannot_touch_the_others_tool() -> None:
    async with opened(workshop=Workshop(languages=["wat"], shared=False)) as host:
        one, two = Session(host, "one"), Session(host, "two")
        candidate = await one.done("write_tool", language="wat", source=wat(), name="ones", description="A tool.")
        await two.refused("switch_tools", candidate=candidate["candidate"])
        await one.done("switch_tools", candidate=candidate["candidate"])
        assert (await two.refused("switch_tools", remove=["ones"])).details["reason"] == "not_yours"
        await two.refused("roll_back_tools")
        assert (await two.done("tool_status"))["tools"] == [{"name": "ones", "may_change": False}]
        assert (await one.done("tool_status"))["tools"] == [{"name": "ones", "may_change": True}]


@pytest.mark.slow
async def test_a_written_tool_has_what_the_policy_grants_to_its_name_and_is_told_so() -> None:
    policy = Policy.parse({"gates": {"on": []}, "tools": {"keeper_*": {"grants": {"kv.get": {}}}}})
    async with opened(policy=policy) as host:
        session = Session(host)
        for name, granted in (("keeper_a", "granted"), ("other", "not granted here: such a call answers denied")):
            told = await session.done(
                "write_tool",
                language="wat",
                source=wat(),
                name=name,
                description="A tool.",
                schema=SPEAKING,
                capabilities=["kv.get"],
            )
            assert told["capabilities"] == {"kv.get": granted}


@pytest.mark.slow
async def test_a_name_that_somebody_took_after_a_look_at_it_is_a_conflict() -> None:
    async with opened() as host:
        mine = await host.source.stage([guest("late")], author=MINE)
        await host.source.activate(await host.source.stage([guest("late", answer="v0")], author=MINE))
        result = await Session(host).refused("switch_tools", candidate=mine.number)
        assert result.details["reason"] == "generation_conflict"


async def test_a_live_generation_that_moved_on_meanwhile_is_not_rolled_back() -> None:
    async with opened() as host:
        first = await switched(host, guest("mine"), author=MINE)
        await switched(host, guest("theirs"))
        with pytest.raises(UnknownGeneration, match="went live meanwhile"):
            await host.source.rollback(0, live=first.number)


async def test_a_generation_that_did_not_lead_to_the_live_one_is_not_gone_back_to() -> None:
    async with opened() as host:
        session = Session(host)
        assert "the first one" in (await session.refused("roll_back_tools")).text
        await switched(host, guest("mine"), author=MINE)
        assert "none of those that led to 1" in (await session.refused("roll_back_tools", to=77)).text


@pytest.mark.slow
async def test_an_automatic_return_of_somebody_elses_tool_is_not_undone_even_when_it_was_pardoned() -> None:
    async with opened() as host:
        session = Session(host)
        await switched(host, guest("weather"))
        fragile = await switched(host, guest("weather", body="unreachable"))
        for _ in range(3):
            await session("weather")
        assert host.source.live().author == "strikes"
        await host.source.pardon("weather")
        await switched(host, guest("mine"), author=MINE)
        result = await session.refused("roll_back_tools", to=fragile.number)
        assert "was made by strikes" in result.text
        told = await session.done("roll_back_tools")
        assert told["removed"] == ["mine"]


@pytest.mark.parametrize("taken_away", [False, True])
@pytest.mark.parametrize("name", ["optool", "optoo1"])
async def test_a_name_that_somebody_took_while_a_person_was_asked_is_not_switched(name: str, taken_away: bool) -> None:
    asked, answer = anyio.Event(), anyio.Event()

    async def approve(review: Review) -> bool:
        if review.author == MINE:
            asked.set()
            await answer.wait()
        return True

    policy = Policy(gates=GatePolicy(on=("approval",)))
    async with opened(policy=policy, approve=approve) as host, anyio.create_task_group() as group:
        mine = await host.source.stage([guest(name)], author=MINE)

        async def switch() -> None:
            result = await Session(host).refused("switch_tools", candidate=mine.number)
            assert result.details["reason"] == "not_yours"

        group.start_soon(switch)
        await asked.wait()
        await switched(host, guest("optool", answer="theirs"))
        if taken_away:
            await switched(host, remove=["optool"])
        answer.set()
    assert (name in host.source.live().tools) is (name == "optool" and not taken_away)
    assert host.source.live().author == "operator"


async def test_a_switch_looks_at_owners_inside_its_transaction_and_writes_nothing_where_it_may_not() -> None:
    """Whoever looked before it may have looked too early: here, at once before it."""
    async with opened() as host:
        first = await switched(host, guest("mine"), author=MINE)
        second = await switched(host, guest("mine", answer="v2"), author=MINE)
        candidate = await host.source.stage([guest("other")], author=MINE)
        asked: list[tuple[int, frozenset[str]]] = []

        def check(live: Generation, names: frozenset[str]) -> None:
            asked.append((live.number, names))
            raise KeyError(live.number)

        with pytest.raises(KeyError):
            await host.source.activate(candidate, check=check)
        with pytest.raises(KeyError):
            await host.source.rollback(first.number, check=check)
        assert asked == [(second.number, frozenset({"other"})), (second.number, frozenset({"mine"}))]
        assert host.store.live().number == host.source.live().number == second.number
        assert host.store.generation(candidate.number).state == "candidate"


async def test_a_tool_of_a_name_that_somebody_took_later_does_not_come_back_by_going_back() -> None:
    async with opened() as host:
        first = await switched(host, guest("weather"), author=MINE)
        second = await switched(host, author=MINE, remove=["weather"])
        await switched(host, guest("weather", answer="theirs"))
        await host.source.rollback(second.number)
        last = await switched(host, guest("mine"), author=MINE)
        result = await Session(host).refused("roll_back_tools", to=first.number)
        assert "weather is a tool of operator" in result.text
        assert host.source.live().number == last.number
