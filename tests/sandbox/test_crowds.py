from __future__ import annotations

import pytest

from rho_wasm.sandbox.crowds import Crowds
from rho_wasm.testing import FixedClock


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


def test_a_call_alone_is_one(clock: FixedClock) -> None:
    crowds = Crowds(clock=clock)
    for _ in range(2):
        stay = crowds.enter("a")
        clock.advance(1)
        assert stay.leave() == 1.0


def test_calls_at_once_are_as_many(clock: FixedClock) -> None:
    crowds = Crowds(clock=clock)
    stays = [crowds.enter("a") for _ in range(8)]
    clock.advance(0.5)
    assert [stay.leave() for stay in stays] == [8.0] * 8


def test_a_call_is_among_each_other_as_long_as_both_run(clock: FixedClock) -> None:
    crowds = Crowds(clock=clock)
    one = crowds.enter("a")
    clock.advance(1)
    other = crowds.enter("a")
    clock.advance(2)
    assert other.leave() == 2.0
    clock.advance(1)
    assert one.leave() == 1.5


def test_calls_of_other_modules_do_not_count(clock: FixedClock) -> None:
    crowds = Crowds(clock=clock)
    one, other = crowds.enter("a"), crowds.enter("b")
    clock.advance(1)
    assert (one.leave(), other.leave()) == (1.0, 1.0)


def test_only_where_another_call_runs_is_one_met(clock: FixedClock) -> None:
    crowds = Crowds(clock=clock)
    assert crowds.meet("a") is None
    one = crowds.enter("a")
    assert crowds.meet("b") is None
    other = crowds.meet("a")
    assert other is not None
    clock.advance(1)
    assert (one.leave(), other.leave()) == (2.0, 2.0)
    assert crowds.meet("a") is None


def test_a_call_that_took_no_time_is_one(clock: FixedClock) -> None:
    crowds = Crowds(clock=clock)
    stays = [crowds.enter("a") for _ in range(2)]
    assert [stay.leave() for stay in stays] == [1.0, 1.0]
