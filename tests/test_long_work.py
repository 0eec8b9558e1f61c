"""What is long goes one at a time, in the order in which it was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from rho_wasm.long_work import TURNS, Turns, in_turn

SOON_S = 60.0


def until_waiting(turns: Turns, count: int) -> None:
    ends = time.monotonic() + SOON_S
    while turns.waiting < count:
        assert time.monotonic() < ends
        os.sched_yield()


def test_whoever_waits_longest_is_next_and_there_is_never_more_than_one() -> None:
    turns, order, inside, most = Turns(), list[int](), [], 0

    def work(number: int) -> None:
        nonlocal most
        with turns:
            inside.append(number)
            most = max(most, len(inside))
            order.append(number)
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with turns:
        for number, thread in enumerate(threads, 1):
            thread.start()
            until_waiting(turns, number)
        assert order == []
    for thread in threads:
        thread.join(SOON_S)
    assert (order, most, turns.waiting) == ([*range(8)], 1, 0)


def test_who_comes_again_while_another_waits_is_behind_it() -> None:
    turns, order = Turns(), list[str]()

    def other() -> None:
        with turns:
            order.append("other")

    thread = threading.Thread(target=other)
    with turns:
        thread.start()
        until_waiting(turns, 1)
        order.append("first")
    with turns:
        order.append("again")
    thread.join(SOON_S)
    assert order == ["first", "other", "again"]


def test_what_fails_inside_is_over_too() -> None:
    turns = Turns()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), turns:
            raise ZeroDivisionError
    assert turns.waiting == 0


def test_what_is_not_long_waits_for_nothing() -> None:
    with in_turn(), in_turn(long=False):
        assert TURNS.waiting == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    program = """
import os
from rho_wasm.long_work import in_turn
with in_turn():
    child = os.fork()
    if child == 0:
        with in_turn():
            os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = [sys.executable, "-c", program]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=SOON_S, check=True)
    assert ended.stdout == "7\n"
