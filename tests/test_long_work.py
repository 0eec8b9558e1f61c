"""What is long goes one at a time, in the order in which it was asked for."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import threading
import time
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from rho_wasm.long_work import TURNS, NoTurn, Place, Turns, in_turn_in_thread

SOON_S = 60.0


def until_waiting(turns: Turns, count: int) -> None:
    ends = time.monotonic() + SOON_S
    while turns.waiting < count:
        assert time.monotonic() < ends
        os.sched_yield()


class Queue:
    """Threads that wait for a turn, one after the other; ``order`` is how they had it."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.order: list[str] = []
        self.places: list[Place] = []
        self.inside = self.most = 0
        self._threads: list[threading.Thread] = []

    def add(self, name: str, *, within_s: float | None = None) -> Place:
        place = Place(name.partition(" ")[0], turns=self.turns)
        before = self.turns.waiting

        def wait() -> None:
            try:
                with place.turn(within_s=within_s):
                    self.inside += 1
                    self.most = max(self.most, self.inside)
                    self.order.append(name)
                    self.inside -= 1
            except NoTurn:
                self.order.append(f"{name}: none")

        self._threads.append(threading.Thread(target=wait))
        self._threads[-1].start()
        if within_s is None:
            until_waiting(self.turns, before + 1)
        return place

    def join(self) -> None:
        for thread in self._threads:
            thread.join(SOON_S)
            assert not thread.is_alive()


def test_guests_have_their_turns_in_rotation_and_of_one_whoever_waits_longest() -> None:
    queue = Queue()
    with Place("greedy", turns=queue.turns).turn():
        for name in ("greedy 1", "greedy 2", "greedy 3", "modest 1", "other 1", "modest 2"):
            queue.add(name)
        assert queue.order == []
    queue.join()
    assert queue.order == ["greedy 1", "modest 1", "other 1", "greedy 2", "modest 2", "greedy 3"]
    assert (queue.most, queue.turns.waiting) == (1, 0)


def test_who_leaves_waits_no_more_and_the_next_has_its_turn() -> None:
    queue = Queue()
    with Place("a", turns=queue.turns).turn():
        places = [queue.add(name) for name in ("a 1", "b 1", "b 2")]
        for place in (places[1], places[1]):
            place.leave()
        queue._threads[1].join(SOON_S)
        assert queue.order == ["b 1: none"]
    queue.join()
    assert queue.order == ["b 1: none", "a 1", "b 2"]
    places[0].leave()
    with Place("a", turns=queue.turns).turn():
        assert queue.turns.waiting == 0


def test_who_left_before_waits_not_at_all() -> None:
    place = Place("a", turns=Turns())
    place.leave()
    with pytest.raises(NoTurn), place.turn():
        raise AssertionError


def test_who_has_no_more_time_has_no_turn() -> None:
    for within_s in (0.01, 0.0, -1.0):
        queue = Queue()
        with Place("a", turns=queue.turns).turn():
            queue.add("a 1", within_s=within_s)
            queue.join()
            assert queue.order == ["a 1: none"]
        assert queue.turns.waiting == 0
        with Place("a", turns=queue.turns).turn(within_s=math.inf):
            pass


def test_what_fails_inside_is_over_too_and_the_collector_works_again() -> None:
    turns, before = Turns(), gc.get_threshold()
    assert before[0] > 0
    with Place("a", turns=turns).turn():
        assert gc.get_threshold()[0] == 0
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), Place("a", turns=turns).turn():
            raise ZeroDivisionError
        assert gc.get_threshold() == before
    assert gc.isenabled()
    try:
        with Place("a", turns=turns).turn():
            gc.disable()
        assert not gc.isenabled(), "the host's own choice"
    finally:
        gc.enable()


class Interrupted(Place):
    """A place whose wait is interrupted before its turn came, or just when it has come."""

    just_then = False

    def wait(self, within_s: float | None) -> None:
        if self.just_then:
            super().wait(within_s)
        raise KeyboardInterrupt


def test_an_interrupted_wait_leaves_no_turn_taken() -> None:
    turns = Turns()
    with Place("a", turns=turns).turn():
        with pytest.raises(KeyboardInterrupt), Interrupted("b", turns=turns).turn():
            raise AssertionError
        assert turns.waiting == 0

    place, raised = Interrupted("b", turns=turns), []
    place.just_then = True

    def wait() -> None:
        try:
            with place.turn():
                raise AssertionError
        except KeyboardInterrupt as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    with Place("a", turns=turns).turn():
        thread.start()
        until_waiting(turns, 1)
    thread.join(SOON_S)
    assert len(raised) == 1
    with Place("a", turns=turns).turn(within_s=SOON_S):
        assert turns.waiting == 0


@pytest.mark.anyio
async def test_who_is_cancelled_in_the_queue_leaves_at_once() -> None:
    with Place("another").turn():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(in_turn_in_thread, lambda: None, long=True))
            while TURNS.waiting == 0:
                await anyio.lowlevel.checkpoint()
            assert await in_turn_in_thread(lambda: 3, long=False) == 3
            tasks.cancel_scope.cancel()
        assert TURNS.waiting == 0
    with pytest.raises(ZeroDivisionError):
        await in_turn_in_thread(lambda: 1 / 0, long=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    program = """
import gc, os
from rho_wasm.long_work import Place
with Place("a").turn():
    child = os.fork()
    if child == 0:
        with Place("b").turn():
            pass
        os._exit(7 if gc.get_threshold()[0] else 8)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = [sys.executable, "-c", program]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=SOON_S, check=True)
    assert ended.stdout == "7\n"
