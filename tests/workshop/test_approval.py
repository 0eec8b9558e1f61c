"""Waiting for a person is no failure, holds nothing up, and the answer comes to whoever asks again."""

from __future__ import annotations

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


async def test_a_switch_says_in_numbers_how_calls_that_others_made_came_out() -> None:
    """They may have been other people's."""
    secret = "what-somebody-asked"
    async with opened(policy=Policy.parse({"gates": {"on": ["replay"]}, "recordings": {"on": True}})) as host:
        session = Session(host)
        for answer in ("one", {"error": "no"}):
            candidate = await host.source.stage([guest("tool", answer=answer)], author=AUTHOR)
            told = await session.done("switch_tools", candidate=candidate.number)
            await host.runner.run(ToolCall("1", "tool", {"asked": secret}))
        (line,) = told["replayed"]
        assert line.startswith("tool: 1 recorded call replayed, 0 the same, 1 differs (1 ok -> failed)")
        assert secret not in str(told)


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
        with anyio.fail_after(5):
            await asked.wait()
        (open_,) = (await session.done("tool_status"))["candidates"]
        assert open_["waits_for"]["told"] == ["somebody, or something, is being asked now"]
        assert (await session.done("switch_tools", candidate=candidate.number))["status"] == "waiting"
        answer.set()
        with anyio.fail_after(5):
            while host.source.live().number == 0:  # noqa: ASYNC110 - the switch tells of itself by being made
                await anyio.sleep(0.01)
        assert (await session("tool")).value == "done"
    assert len(reviews) == 1


async def test_a_host_that_ends_waits_for_no_person() -> None:
    async def approve(review: Review) -> bool:
        await anyio.sleep_forever()
        return True

    workshop = Workshop(languages=["wat"], limits=WorkshopLimits(approval_wait_s=0.01))
    with anyio.fail_after(10):
        async with opened(workshop=workshop, policy=APPROVAL, approve=approve) as host:
            candidate = await host.source.stage([guest("tool")], author=AUTHOR)
            assert (await Session(host).done("switch_tools", candidate=candidate.number))["status"] == "waiting"


async def test_what_a_host_raises_inside_leaves_it_as_it_is_and_in_no_group() -> None:
    with pytest.raises(KeyError):
        async with opened():
            raise KeyError("mine")
