"""Waiting for a person is no failure, holds nothing up, and the answer comes to whoever asks again."""

from __future__ import annotations

import re

import anyio
import pytest

from rho_wasm import Policy, ToolCall, Workshop, WorkshopLimits
from rho_wasm.dynamic.review import Review
from rho_wasm.policy import GatePolicy
from rho_wasm.testing import guest
from tests.workshop.shop import Session, opened

pytestmark = pytest.mark.anyio

APPROVAL = Policy(gates=GatePolicy(on=("approval",)))
AUTHOR = "workshop:a"


async def test_a_person_who_is_not_there_yet_is_waited_for_and_the_switch_is_asked_for_again() -> None:
    async with opened(policy=APPROVAL) as host:
        session = Session(host)
        candidate = await host.source.stage([guest("tool")], author=AUTHOR)
        for _ in range(2):
            told = await session.done("switch_tools", candidate=candidate.number)
            assert (told["status"], told["gate"], told["candidate"]) == ("waiting", "approval", candidate.number)
        assert host.source.live().number == 0
        (open_,) = (await session.done("tool_status"))["candidates"]
        assert open_["waits_for"]["gate"] == "approval"
        host.store.approve(candidate.number, by="ada")
        assert (await session.done("switch_tools", candidate=candidate.number))["status"] == "live"


async def test_a_switch_says_of_calls_that_others_made_only_that_they_reject_nothing() -> None:
    """A candidate chooses what it answers to them, and how much fuel that takes, by what other people asked."""
    async with opened(policy=Policy.parse({"gates": {"on": ["replay"]}, "recordings": {"on": True}})) as host:
        session = Session(host)
        for answer in ("one", {"error": "no"}):
            candidate = await host.source.stage([guest("tool", answer=answer)], author=AUTHOR)
            told = await session.done("switch_tools", candidate=candidate.number)
            await host.runner.run(ToolCall("1", "tool", {"asked": "something"}))
        more = f"the operator sees more: rho-wasm recordings replay --against {candidate.number}"
        assert told["replayed"] == f"no recorded call that worked rejects it; {more}"


async def test_a_rejection_by_replays_is_told_to_a_model_in_numbers_and_one_word() -> None:
    """The function that a candidate traps in is its choice, by what other people asked."""
    async with opened(policy=Policy.parse({"gates": {"on": ["replay"]}, "recordings": {"on": True}})) as host:
        session = Session(host)
        await host.source.activate(await host.source.stage([guest("tool")], author=AUTHOR))
        for number in range(3):
            await host.runner.run(ToolCall(str(number), "tool", {"asked": "a"}))
        candidate = await host.source.stage([guest("tool", body="unreachable")], author=AUTHOR)
        result = await session.refused("switch_tools", candidate=candidate.number)
        status = str(await session.done("tool_status"))
        (verdict,) = (each for each in host.store.verdicts(candidate.number) if not each.passed)
    assert result.text.splitlines()[1:3] == [
        "- tool: 3 of 3 recorded calls that worked crash now, the first of them as trapped",
        f"- the operator sees more: rho-wasm recordings replay --against {candidate.number}",
    ]
    detail = re.search(r", in (function \d+); its arguments were {1 more}", verdict.problems[0])
    assert detail is not None, verdict.problems
    assert detail[1] not in result.text + status
    assert "arguments were" not in result.text + status


async def test_a_persons_no_is_told_with_the_reason_and_is_final() -> None:
    async with opened(policy=APPROVAL, approve=lambda review: "it sends mail\x1b") as host:
        session = Session(host)
        candidate = await host.source.stage([guest("tool")], author=AUTHOR)
        result = await session.refused("switch_tools", candidate=candidate.number)
        assert "it sends mail\\x1b" in result.text
        assert "Do not write the same again" in result.text
        assert "rejected" in (await session.refused("switch_tools", candidate=candidate.number)).text


async def test_a_question_to_a_person_stays_open_when_the_call_that_asked_it_has_ended() -> None:
    asked, answer = anyio.Event(), anyio.Event()
    reviews: list[Review] = []

    async def approve(review: Review) -> bool:
        reviews.append(review)
        asked.set()
        await answer.wait()
        return True

    workshop = Workshop(languages=["wat"], limits=WorkshopLimits(approval_wait_s=0.01))
    async with opened(workshop=workshop, policy=APPROVAL, approve=approve) as host:
        session = Session(host)
        candidate = await host.source.stage([guest("tool")], author=AUTHOR)
        assert (await session.done("switch_tools", candidate=candidate.number))["status"] == "waiting"
        with anyio.fail_after(60):
            await asked.wait()
        (open_,) = (await session.done("tool_status"))["candidates"]
        assert open_["waits_for"]["gate"] == "admission, approval"
        assert "a person has to say yes" in open_["waits_for"]["told"][0]
        assert (await session.done("switch_tools", candidate=candidate.number))["status"] == "waiting"
        answer.set()
        with anyio.fail_after(60):
            while host.source.live().number == 0:  # noqa: ASYNC110 - the switch tells of itself by being made
                await anyio.sleep(0.01)
        assert (await session("tool")).value == "done"
    assert len(reviews) == 1


async def test_a_switch_whose_gates_take_long_says_nothing_of_a_person_whom_nobody_asks() -> None:
    workshop = Workshop(languages=["wat"], limits=WorkshopLimits(approval_wait_s=1e-9))
    async with opened(workshop=workshop) as host:
        candidate = await host.source.stage([guest("tool")], author=AUTHOR)
        told = await Session(host).done("switch_tools", candidate=candidate.number)
        assert (told["status"], told["gate"]) == ("waiting", "admission")
        assert told["told"] == ["the gates are still being asked"]


async def test_a_host_that_ends_waits_for_no_person() -> None:
    async def approve(review: Review) -> bool:
        await anyio.sleep_forever()
        return True

    workshop = Workshop(languages=["wat"], limits=WorkshopLimits(approval_wait_s=0.01))
    with anyio.fail_after(60):
        async with opened(workshop=workshop, policy=APPROVAL, approve=approve) as host:
            candidate = await host.source.stage([guest("tool")], author=AUTHOR)
            assert (await Session(host).done("switch_tools", candidate=candidate.number))["status"] == "waiting"


async def test_what_a_host_raises_inside_leaves_it_as_it_is_and_in_no_group() -> None:
    with pytest.raises(KeyError):
        async with opened():
            raise KeyError("mine")
