"""A model may do only so much in an hour, is told when again, and keeps nobody else out."""

from __future__ import annotations

import anyio
import pytest

from rho_wasm import Failed
from rho_wasm.testing import FixedClock
from rho_wasm.workshop import WorkshopLimits
from rho_wasm.workshop.rates import Places, Rates

pytestmark = pytest.mark.anyio


def test_beyond_a_sessions_bound_it_is_told_when_again_and_then_it_may() -> None:
    clock = FixedClock()
    rates = Rates(clock)
    for _ in range(2):
        rates.take("builds", "one", most=2, of_all=10)
        clock.advance(600)
    with pytest.raises(Failed, match="again in 2400 seconds") as refused:
        rates.take("builds", "one", most=2, of_all=10)
    assert refused.value.details == {
        "reason": "rate_limited",
        "what": "builds",
        "limit": 2,
        "retry_after_s": 2400,
    }
    rates.take("builds", "another", most=2, of_all=10)
    clock.advance(2_400)
    rates.take("builds", "one", most=2, of_all=10)
    with pytest.raises(Failed, match="again in 600 seconds"):
        rates.take("builds", "one", most=2, of_all=10)


def test_sessions_that_are_made_up_meet_the_bound_of_all() -> None:
    rates = Rates(FixedClock())
    for number in range(5):
        rates.take("builds", f"session {number}", most=2, of_all=5)
    with pytest.raises(Failed, match="in all sessions together"):
        rates.take("builds", "another", most=2, of_all=5)
    rates.take("switches", "another", most=2, of_all=5)


def test_several_at_once_count_as_several_and_more_than_may_be_in_an_hour_never_fit() -> None:
    clock = FixedClock()
    rates = Rates(clock)
    rates.take("test cases", None, most=10, of_all=100, times=8)
    with pytest.raises(Failed):
        rates.take("test cases", None, most=10, of_all=100, times=3)
    rates.take("test cases", None, most=10, of_all=100, times=2)
    clock.advance(3_600)
    with pytest.raises(Failed):
        rates.take("test cases", None, most=10, of_all=100, times=11)
    rates.take("test cases", None, most=10, of_all=100, times=10)


async def test_whoever_finds_no_place_is_sent_away_at_once_and_a_session_has_half_of_them() -> None:
    places = Places(at_once=1, waiting=3)
    inside: list[str] = []
    leave = anyio.Event()

    async def stay(session_id: str) -> None:
        async with places.one(session_id):
            inside.append(session_id)
            await leave.wait()

    async with anyio.create_task_group() as group:
        for session_id in ("one", "one", "two"):
            group.start_soon(stay, session_id)
        await anyio.wait_all_tasks_blocked()
        assert len(inside) == 1
        with pytest.raises(Failed, match="2 of them of this session") as refused:
            async with places.one("one"):
                pass
        assert refused.value.details["reason"] == "busy"
        group.start_soon(stay, "three")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(Failed, match="4 builds and tests"):
            async with places.one("four"):
                pass
        leave.set()
    assert sorted(inside) == ["one", "one", "three", "two"]
    async with places.one("one"):
        pass


def test_no_bound_is_left_out() -> None:
    with pytest.raises(ValueError, match="builds_per_hour is above 0"):
        WorkshopLimits(builds_per_hour=0)
