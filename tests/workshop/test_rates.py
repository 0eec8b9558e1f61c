"""A model may do only so much in an hour, is told when again, and keeps nobody else out."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rho_wasm import Failed
from rho_wasm.testing import FixedClock
from rho_wasm.workshop import WorkshopLimits
from rho_wasm.workshop.rates import Rates


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


def test_a_session_has_at_most_half_of_what_the_others_leave_so_that_one_cannot_use_it_up() -> None:
    clock = FixedClock()
    rates = Rates(clock)
    took = []
    for name in ("one", "two", "three", "four", "five"):
        took.append(0)
        with suppress(Failed):
            for _ in range(100):
                rates.take("switches", name, most=100, of_all=20)
                took[-1] += 1
    assert took == [10, 5, 3, 1, 1]
    with pytest.raises(Failed, match="20 switches in the last hour in all sessions together, of 20"):
        rates.take("switches", "six", most=100, of_all=20)
    with pytest.raises(Failed, match="in this session, which leaves as many to others, of 10") as refused:
        rates.take("rollbacks", "one", most=100, of_all=20, times=11)
    assert refused.value.details["limit"] == 10


def test_when_a_share_grows_again_is_told_to_the_second() -> None:
    clock = FixedClock()
    rates = Rates(clock)
    rates.take("builds", "other", most=9, of_all=6, times=3)
    clock.advance(100)
    rates.take("builds", "one", most=9, of_all=6, times=2)
    clock.advance(100)
    with pytest.raises(Failed) as refused:
        rates.take("builds", "one", most=9, of_all=6)
    assert refused.value.details["retry_after_s"] == 3_400
    clock.advance(3_400)
    rates.take("builds", "one", most=9, of_all=6)


def test_what_did_not_happen_is_given_back_and_what_cost_little_counts_for_its_session_alone() -> None:
    rates = Rates(FixedClock())
    for _ in range(10):
        with pytest.raises(KeyError), rates.take("switches", "one", most=2, of_all=2):
            raise KeyError
    for _ in range(3):
        rates.take("builds", "one", most=3, of_all=4).give_back(own=False)
    with pytest.raises(Failed, match="3 builds in the last hour in this session, of 3"):
        rates.take("builds", "one", most=3, of_all=4)
    for _ in range(2):
        rates.take("builds", "another", most=3, of_all=4)
    taken = rates.take("builds", "third", most=3, of_all=4)
    for _ in range(2):
        taken.give_back()
    rates.take("builds", "third", most=1, of_all=4)


def test_no_bound_is_left_out() -> None:
    with pytest.raises(ValueError, match="builds_per_hour is above 0"):
        WorkshopLimits(builds_per_hour=0)
